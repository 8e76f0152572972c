#include "worker_calls.hpp"

#include <barrier>
#include <thread>

#include "message.hpp"
#include "op-call/requested.hpp"
#include "process_state.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;
using op_call::HostTensor;
using op_call::Operands;
using op_call::Tensors;

json as_json(const std::vector<Finding> &findings) {
    json list = json::array();
    for (const Finding &finding : findings) {
        list.push_back({{"check", finding.check}, {"message", finding.message}});
    }
    return list;
}

json answer_of(opdock_status prepared, opdock_status status, const std::string &message, bool has_workspace,
               const std::vector<Finding> &findings) {
    return {{"prepared", prepared},
            {"status", status},
            {"message", message},
            {"has_workspace", has_workspace},
            {"findings", as_json(findings)}};
}

} // namespace

WorkerCalls::WorkerCalls(const Host &host, const Subject &subject, void (*after_call)())
    : subject_(subject), signature_(op_call::signature_of(host.op(subject.op))),
      op_(host.op(subject.op)), where_{host.c(), host.device(subject.device)},
      policy_(op_call::nothing_but(host, subject.op, subject.impl_id)), after_call_(after_call) {}

json WorkerCalls::handle(const json &request, size_t &bytes) {
    const auto what = request.at("do").get<std::string>();
    if (what == "call") {
        return call(request, bytes);
    }
    if (what == "beside") {
        return beside(request, bytes);
    }
    if (what == "tune") {
        return tune(request);
    }
    return {{"takes", takes(request.at("call"))}};
}

void WorkerCalls::place(const json &request) {
    const auto number = request.at("slot").get<size_t>();
    if (number == 0) {
        slots_.clear(); // of an earlier case
    }
    Slot &slot = slots_[number];
    slot.placed.reset();
    slot.one = case_of(request.at("call"));
    slot.inputs = inputs_of(request.at("call"));
    size_t offset = 0;
    for (Tensors &tensors : slot.inputs) {
        for (HostTensor &tensor : tensors) {
            if (!read_exchange(exchange_descriptor, tensor.memory.get(), tensor.bytes, offset)) {
                throw std::runtime_error("the inputs of a call did not arrive");
            }
            offset += tensor.bytes;
        }
    }
}

json WorkerCalls::call(const json &request, size_t &bytes) {
    if (request.contains("call")) {
        place(request);
    }
    Slot &slot = slots_.at(request.at("slot").get<size_t>());
    json answers = json::array();
    for (const json &turn : request.at("turns")) {
        const bool again = turn.at("again").get<bool>();
        answers.push_back(again ? call_again(slot, turn, bytes) : call_once(slot, turn, bytes));
        if (!again && answers.back().at("status") != OPDOCK_OK) {
            break;
        }
    }
    return {{"answers", std::move(answers)}};
}

json WorkerCalls::call_once(Slot &slot, const json &turn, size_t &bytes) {
    slot.placed.reset();
    slot.one.layout = static_cast<Layout>(turn.at("layout").get<int>());
    slot.placed = std::make_unique<PlacedRun>(where_, op_, signature_, slot.one, slot.inputs, subject_.alignment,
                                              turn.at("at_end").get<bool>());
    PlacedRun &placed = *slot.placed;
    std::string message;
    const ProcessState before;
    const opdock_status prepared = placed.prepare(op_, policy_, subject_.impl_id, message);
    if (prepared == OPDOCK_OK && turn.at("after_zeros").get<bool>()) {
        std::string of_others;
        (void)placed.run_on_zeros(of_others);
    }
    const opdock_status status =
        prepared == OPDOCK_OK ? placed.run(PlacedRun::poisons[turn.at("poison").get<size_t>()], message) : prepared;
    after_call_();
    std::vector<Finding> findings;
    if (const std::string changed = before.restore(); !changed.empty()) {
        findings.push_back({"process", "changes " + changed + ", for all code of the thread or process"});
    }
    if (status == OPDOCK_OK) {
        for (Finding &finding : placed.trespasses()) {
            findings.push_back(std::move(finding));
        }
        put(placed.written(), bytes);
    }
    return answer_of(prepared, status, message, placed.has_workspace(), findings);
}

json WorkerCalls::call_again(Slot &slot, const json &turn, size_t &bytes) {
    PlacedRun &placed = *slot.placed;
    std::string message;
    const opdock_status status = placed.run(PlacedRun::poisons[turn.at("poison").get<size_t>()], message);
    after_call_();
    if (status == OPDOCK_OK) {
        put(placed.written(), bytes);
    }
    return answer_of(OPDOCK_OK, status, message, placed.has_workspace(), {});
}

WorkerCalls::Round WorkerCalls::run_beside(PlacedRun &placed, int calls_before) {
    Round round{OPDOCK_OK, {}, {}};
    for (int call = 0; call < calls_before && round.status == OPDOCK_OK; ++call) {
        round.status = placed.run_on(round.message);
    }
    round.status = round.status == OPDOCK_OK ? placed.run(PlacedRun::poisons[0], round.message) : round.status;
    if (round.status == OPDOCK_OK) {
        round.outputs = placed.written();
    }
    return round;
}

json WorkerCalls::beside(const json &request, size_t &bytes) {
    const auto rounds = request.at("rounds").get<int>();
    const auto calls_before = request.at("calls_before").get<int>();
    std::barrier together(static_cast<std::ptrdiff_t>(slots_.size()));
    std::vector<std::vector<Round>> all(slots_.size());
    std::vector<std::thread> threads;
    threads.reserve(slots_.size());
    for (auto &[number, slot] : slots_) {
        threads.emplace_back([&, at = number, &placed = *slot.placed] {
            for (int round = 0; round < rounds; ++round) {
                together.arrive_and_wait();
                all[at].push_back(run_beside(placed, calls_before));
                after_call_();
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    json slots = json::array();
    for (const std::vector<Round> &of_slot : all) {
        json list = json::array();
        for (const Round &round : of_slot) {
            put(round.outputs, bytes);
            list.push_back(answer_of(OPDOCK_OK, round.status, round.message, false, {}));
        }
        slots.push_back(std::move(list));
    }
    return {{"slots", slots}};
}

json WorkerCalls::tune(const json &request) {
    place(request);
    Slot &slot = slots_.at(request.at("slot").get<size_t>());
    PlacedRun placed(where_, op_, signature_, slot.one, slot.inputs, subject_.alignment, true);
    placed.reset(PlacedRun::poisons[0]);
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    options.strategy = OPDOCK_TUNE_HALVING;
    options.flags = OPDOCK_TUNE_DRY_RUN | OPDOCK_TUNE_AGAIN;
    options.impl_id = subject_.impl_id.c_str();
    options.budget = request.at("seconds").get<double>();
    const json tuned = json::parse(op_.tune(placed.args(), &options));
    after_call_();
    uint64_t configs = 0;
    uint64_t left_out = 0;
    std::vector<Finding> findings;
    for (const json &run : tuned.at("tried")) {
        const auto what = run.at("outcome").get<std::string>();
        const auto reason = run.value("reason", std::string());
        ++configs;
        if (what == "left out") {
            ++left_out;
        } else if (what == "wrong") {
            findings.push_back(
                {"config", "with " + run.at("config").dump() + " " + (reason.empty() ? "the result differs" : reason)});
        } else if (what == "refused" && reason.find("FAILED") != std::string::npos) {
            findings.push_back({"config", "with " + run.at("config").dump() + " the call fails: " + reason});
        }
    }
    for (Finding &finding : placed.trespasses()) {
        findings.push_back(std::move(finding));
    }
    return {{"configs", configs}, {"left_out", left_out}, {"findings", as_json(findings)}};
}

bool WorkerCalls::takes(const json &call) const {
    const Case one = case_of(call);
    const Operands inputs = operands_in(call, where_.device);
    try {
        const Operands outputs = op_call::infer_outputs(op_, signature_, inputs, one.attributes);
        const op_call::Call like(signature_, inputs, outputs, one.attributes, where_.device);
        static_cast<void>(op_.prepare(like.args(), policy_));
        return true;
    } catch (const Error &) {
        return false;
    }
}

void WorkerCalls::put(const std::vector<Output> &outputs, size_t &bytes) const {
    for (const Output &output : outputs) {
        if (!write_exchange(exchange_descriptor, output.elements.data(), output.elements.size(), bytes)) {
            throw std::runtime_error("not enough memory for the outputs of a call");
        }
        bytes += output.elements.size();
    }
}

} // namespace opdock::plugin_check
