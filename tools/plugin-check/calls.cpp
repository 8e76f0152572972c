#include "calls.hpp"

#include <algorithm>

#include "message.hpp"
#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;
using op_call::HostTensor;
using op_call::Tensors;

size_t size_of(const Output &output) {
    size_t size = files::element_size(output.dtype);
    for (const int64_t dim : output.shape) {
        size *= static_cast<size_t>(dim);
    }
    return size;
}

json as_json(const std::vector<Turn> &turns) {
    json list = json::array();
    for (const Turn &turn : turns) {
        list.push_back({{"again", turn.again},
                        {"at_end", turn.at_end},
                        {"layout", static_cast<int>(turn.layout)},
                        {"poison", turn.poison},
                        {"after_zeros", turn.after_zeros}});
    }
    return list;
}

std::vector<Finding> read_findings(const json &list) {
    std::vector<Finding> findings;
    for (const json &finding : list) {
        findings.push_back({finding.at("check").get<std::string>(), finding.at("message").get<std::string>()});
    }
    return findings;
}

} // namespace

Calls::Calls(const std::string &program, const Job &job, const Host &host, const op_call::Signature &signature,
             double seconds, Waiting waiting)
    : conversation_(program, job, seconds, std::move(waiting)), host_(host), signature_(signature), seconds_(seconds) {}

json Calls::place(size_t slot, const Case &one, const std::vector<Tensors> &inputs) {
    const op_call::Operands operands = op_call::operands_of(inputs);
    const op_call::Operands outputs =
        op_call::infer_outputs(host_.op(signature_.op), signature_, operands, one.attributes,
                               [&](size_t o) { return one.has(signature_.outputs[o]); });
    std::vector<Output> expected;
    for (size_t i = 0; i < outputs.size(); ++i) {
        for (const op_call::Operand &operand : outputs[i]) {
            expected.push_back({signature_.outputs[i].name, operand.dtype, operand.shape, {}});
        }
    }
    size_t offset = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
        for (const HostTensor &tensor : inputs[i]) {
            if (signature_.inputs[i].mut) {
                expected.push_back({signature_.inputs[i].name, tensor.dtype, tensor.shape, {}});
            }
            conversation_.put(tensor.memory.get(), tensor.bytes, offset);
            offset += tensor.bytes;
        }
    }
    expected_.resize(slot == 0 ? 1 : std::max(expected_.size(), slot + 1)); // slot 0 begins another case
    expected_[slot] = std::move(expected);
    return plugin_check::as_json(one, operands);
}

size_t Calls::bytes_of(size_t slot) const {
    size_t bytes = 0;
    for (const Output &output : expected_[slot]) {
        bytes += size_of(output);
    }
    return bytes;
}

void Calls::begin(size_t slot, const Case &one, const std::vector<Tensors> &inputs, const std::vector<Turn> &turns) {
    json call = place(slot, one, inputs);
    conversation_.send({{"do", "call"}, {"slot", slot}, {"call", std::move(call)}, {"turns", as_json(turns)}},
                       turns.size() * bytes_of(slot));
    turns_ = turns.size();
}

std::vector<Answer> Calls::answers(size_t slot) {
    const Reply reply = conversation_.receive();
    std::vector<Answer> answers;
    size_t at = 0;
    conversation_.understand([&] {
        const json &list = reply.text.at("answers");
        if (list.empty() || list.size() > turns_) {
            conversation_.refuse("it does not have one answer per call");
        }
        for (const json &answer : list) {
            answers.push_back(read_answer(answer, slot, reply, at));
        }
    });
    return answers;
}

Answer Calls::call(size_t slot, const Turn &turn) {
    conversation_.send({{"do", "call"}, {"slot", slot}, {"turns", as_json({turn})}}, bytes_of(slot));
    turns_ = 1;
    return answers(slot).front();
}

std::vector<std::vector<Answer>> Calls::beside(int rounds, int calls_before) {
    size_t most = 0;
    for (size_t slot = 0; slot < expected_.size(); ++slot) {
        most += static_cast<size_t>(rounds) * bytes_of(slot);
    }
    count_ += static_cast<uint64_t>(rounds) * static_cast<uint64_t>(calls_before) * expected_.size();
    conversation_.send({{"do", "beside"}, {"rounds", rounds}, {"calls_before", calls_before}}, most);
    const Reply reply = conversation_.receive();
    std::vector<std::vector<Answer>> all(expected_.size());
    size_t at = 0;
    conversation_.understand([&] {
        for (size_t slot = 0; slot < all.size(); ++slot) {
            for (int round = 0; round < rounds; ++round) {
                const json &answer = reply.text.at("slots").at(slot).at(static_cast<size_t>(round));
                all[slot].push_back(read_answer(answer, slot, reply, at));
            }
        }
    });
    return all;
}

Answer Calls::read_answer(const json &json, size_t slot, const Reply &reply, size_t &at) {
    Answer answer;
    conversation_.understand([&] {
        answer.prepared = static_cast<opdock_status>(number_of(json.at("prepared")));
        answer.status = static_cast<opdock_status>(number_of(json.at("status")));
        json.at("message").get_to(answer.message);
        json.at("has_workspace").get_to(answer.has_workspace);
        answer.findings = read_findings(json.at("findings"));
    });
    if (answer.status != OPDOCK_OK) {
        return answer;
    }
    ++count_;
    if (reply.bytes - at < bytes_of(slot)) {
        conversation_.refuse("some outputs are missing");
    }
    answer.outputs = expected_[slot];
    for (Output &output : answer.outputs) {
        output.elements.resize(size_of(output));
        conversation_.get(output.elements.data(), output.elements.size(), at);
        at += output.elements.size();
    }
    return answer;
}

Tuned Calls::tune(const Case &one, const std::vector<Tensors> &inputs, double seconds) {
    json call = place(0, one, inputs);
    const Reply reply =
        conversation_.ask({{"do", "tune"}, {"slot", 0}, {"call", std::move(call)}, {"seconds", seconds}});
    return conversation_.understand([&] {
        return Tuned{number_of(reply.text.at("configs")), number_of(reply.text.at("left_out")),
                     read_findings(reply.text.at("findings"))};
    });
}

bool Calls::takes(const Case &one, const op_call::Operands &inputs) {
    const Reply reply = conversation_.ask({{"do", "takes"}, {"call", as_json(one, inputs)}});
    return conversation_.understand([&] { return reply.text.at("takes").get<bool>(); });
}

} // namespace opdock::plugin_check
