#include "bench.hpp"

#include <algorithm>
#include <chrono>

#include "call_cost.hpp"
#include "ceilings.hpp"
#include "cli/quantities.hpp"
#include "cli/statistics.hpp"
#include "op-call/failure.hpp"
#include "rates.hpp"
#include "traffic.hpp"

namespace opdock::plugin_bench {
namespace {

using nlohmann::json;

const char *name_of(Timing::Outcome outcome) {
    switch (outcome) {
    case Timing::Outcome::timed:
        return "timed";
    case Timing::Outcome::declined:
        return "declined";
    case Timing::Outcome::failed:
        return "failed";
    default:
        return "skipped";
    }
}

json timing_json(const Timing &timing) {
    json one = {{"impl_id", timing.impl_id}, {"kind", timing.kind}, {"outcome", name_of(timing.outcome)}};
    if (timing.outcome != Timing::Outcome::timed) {
        one["reason"] = timing.reason;
        return one;
    }
    const cli::Summary summary = cli::summarize(timing.samples);
    one.update({{"microseconds", summary.median},
                {"low", summary.low},
                {"high", summary.high},
                {"spread", summary.spread()},
                {"samples", summary.samples},
                {"batch", timing.batch}});
    return one;
}

// The dtype of the first tensor present.
std::string dtype_of(const op_call::Operands &inputs) {
    for (const auto &tensors : inputs) {
        if (!tensors.empty()) {
            return std::string(files::dtype_name(tensors.front().dtype));
        }
    }
    return "";
}

// The dtypes of the linear ops, each once, for the ceilings.
std::vector<std::string> linear_dtypes(const Plan &plan) {
    std::vector<std::string> dtypes;
    for (const Entry &entry : plan.entries) {
        const op_call::Operands inputs = op_call::shapes_of(entry.job.arguments);
        const std::string dtype = dtype_of(inputs);
        if (flops_of(entry.job.signature, inputs) && std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) {
            dtypes.push_back(dtype);
        }
    }
    return dtypes;
}

class Bench {
  public:
    Bench(const Host &host, const Request &request, const DeviceFacts &facts, const Plan &plan,
          const cli::Interrupts &interrupts, cli::Progress &progress)
        : host_(host), request_(request), plan_(plan), interrupts_(interrupts), progress_(progress), facts_(facts) {}

    json run() {
        Ceilings ceilings(host_, facts_, linear_dtypes(plan_));
        ceilings.measure();
        json shapes = json::array();
        for (const Entry &entry : plan_.entries) {
            shapes.push_back(shape(entry));
        }
        json calls = json::array();
        for (size_t i = 0; i < plan_.entries.size() && interrupts_.signal() == 0; ++i) {
            if (is_timed(shapes[i])) {
                add_cost(plan_.entries[i], calls);
            }
        }
        if (std::any_of(shapes.begin(), shapes.end(), is_timed)) { // otherwise there is nothing to compare with them
            ceilings.measure();
        }
        json left_out = json::array();
        for (const LeftOut &one : plan_.left_out) {
            left_out.push_back({{"op", one.op}, {"reason", one.reason}});
        }
        json document = {{"schema", "opdock.plugin-bench/1"},
                         {"device", facts_.name},
                         {"model", facts_.model},
                         {"architecture", facts_.architecture},
                         {"driver", facts_.driver},
                         {"rounds", request_.rounds},
                         {"time", request_.seconds},
                         {"cold", request_.cold},
                         {"interrupted", interrupts_.signal() != 0},
                         {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count()},
                         {"ceilings", ceilings.to_json()},
                         {"shapes", std::move(shapes)},
                         {"calls", std::move(calls)},
                         {"left_out", std::move(left_out)}};
        add_rates(document);
        return document;
    }

  private:
    json shape(const Entry &entry) {
        json shape = op_call::subject_json(entry.job.subject);
        shape["implementations"] = json::array();
        if (interrupts_.signal() != 0) {
            shape["outcome"] = "skipped";
            return shape;
        }
        progress_.begin(op_call::label_of(entry.job.subject));
        try {
            measure(entry, shape);
        } catch (const std::exception &error) {
            shape["outcome"] = "failed";
            shape["error"] = op_call::failure_json(error);
        }
        progress_.end(outcome_text(shape));
        return shape;
    }

    void measure(const Entry &entry, json &shape) {
        const op_call::Job &job = entry.job;
        const op_call::PlacedCall call(host_, host_.op(job.subject.op), job.signature, job.arguments,
                                       op_call::shapes_or_sources_spelling, facts_.device);
        const uint64_t bytes = compulsory_bytes(job.signature, call.inputs(), call.outputs());
        const size_t copies = request_.cold ? copies_against(facts_.cache, facts_.memory, bytes) : 1;
        Rotation rotation(host_, job.signature, call, facts_.device, copies);
        const RaceOptions options{request_.rounds, request_.seconds,
                                  [&](uint64_t done, uint64_t total, double seconds) {
                                      progress_.step({done, total, seconds, request_.seconds});
                                      return interrupts_.signal() == 0;
                                  }};
        std::vector<Timing> timings = entry.contenders;
        race(host_, job.subject.op, call, facts_.device, rotation, options, timings);
        for (const Timing &timing : timings) {
            shape["implementations"].push_back(timing_json(timing));
        }
        const std::optional<double> flops = flops_of(job.signature, call.inputs());
        shape["dtype"] = dtype_of(call.inputs());
        shape["bytes"] = bytes;
        shape["flops"] = flops ? json(*flops) : json(nullptr);
        shape["copies"] = copies;
        shape["outcome"] = outcome_of(timings);
    }

    static bool is_timed(const json &shape) { return shape.at("outcome") == name_of(Timing::Outcome::timed); }

    // The best outcome among the implementations.
    static const char *outcome_of(const std::vector<Timing> &timings) {
        const auto has = [&](Timing::Outcome outcome) {
            return std::any_of(timings.begin(), timings.end(),
                               [&](const Timing &timing) { return timing.outcome == outcome; });
        };
        for (const Timing::Outcome outcome :
             {Timing::Outcome::timed, Timing::Outcome::skipped, Timing::Outcome::failed}) {
            if (has(outcome)) {
                return name_of(outcome);
            }
        }
        return name_of(Timing::Outcome::declined);
    }

    static std::string outcome_text(const json &shape) {
        std::string fastest;
        double best = 0;
        for (const json &one : shape.at("implementations")) {
            const double time = one.value("microseconds", 0.0);
            if (time > 0 && (fastest.empty() || time < best)) {
                best = time;
                fastest = one.at("impl_id").get<std::string>();
            }
        }
        return fastest.empty() ? shape.at("outcome").get<std::string>() : cli::time_text(best) + " with " + fastest;
    }

    // Adds each op once.
    void add_cost(const Entry &entry, json &calls) {
        const op_call::Job &job = entry.job;
        if (std::any_of(calls.begin(), calls.end(), [&](const json &one) { return one.at("op") == job.subject.op; })) {
            return;
        }
        try {
            if (const std::optional<op_call::Job> tiny = tiny_job(host_, job, facts_.device)) {
                calls.push_back(call_cost(host_, *tiny, facts_.device));
            }
        } catch (const std::exception &error) {
            json one = op_call::subject_json(job.subject);
            one["error"] = op_call::failure_json(error);
            calls.push_back(std::move(one));
        }
    }

    const Host &host_;
    const Request &request_;
    const Plan &plan_;
    const cli::Interrupts &interrupts_;
    cli::Progress &progress_;
    const DeviceFacts &facts_;
    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

} // namespace

json bench(const Host &host, const Request &request, const DeviceFacts &facts, const Plan &plan,
           const cli::Interrupts &interrupts, cli::Progress &progress) {
    return Bench(host, request, facts, plan, interrupts, progress).run();
}

} // namespace opdock::plugin_bench
