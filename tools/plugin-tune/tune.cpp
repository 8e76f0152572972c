#include "tune.hpp"

#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "op-call/failure.hpp"
#include "op-call/placed_call.hpp"
#include "report.hpp"

namespace opdock::plugin_tune {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

// State of watch(), which opdock_tune calls after each step.
struct Watch {
    const cli::Interrupts &interrupts;
    cli::Progress &progress;
    double budget;
};

int32_t watch(void *user_data, uint64_t done, uint64_t total, double seconds) {
    const Watch &watch = *static_cast<const Watch *>(user_data);
    const bool goes_on = watch.interrupts.signal() == 0;
    if (goes_on) {
        watch.progress.step({done, total, seconds, watch.budget});
    } else {
        watch.progress.stopping("stopping: what was found so far is compared once more");
    }
    return goes_on ? 1 : 0;
}

json described(const Job &job) {
    json shape = op_call::subject_json(job.subject);
    shape["impl_id"] = job.subject.impl.empty() ? json(nullptr) : json(job.subject.impl);
    return shape;
}

json tune_one(const Host &host, const Request &request, const Job &job, const opdock_tune_options &options) {
    const Op op = host.op(job.subject.op);
    const op_call::PlacedCall call(host, op, job.signature, job.arguments, op_call::shapes_or_sources_spelling,
                                   host.device(request.device));
    return json::parse(op.tune(call.args(), &options));
}

} // namespace

double budget_of_next(const Request &request, double spent, size_t left) {
    if (request.total_budget <= 0) {
        return request.budget;
    }
    const double share = (request.total_budget - spent) / static_cast<double>(std::max<size_t>(left, 1));
    return std::max(0.0, std::min(request.budget, share));
}

json tune_all(const Host &host, const Request &request, const Plan &plan, const cli::Interrupts &interrupts,
              cli::Progress &progress) {
    const auto began = Clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
    json shapes = json::array();
    for (size_t i = 0; i < plan.jobs.size(); ++i) {
        const Job &job = plan.jobs[i];
        json shape = described(job);
        const double budget = budget_of_next(request, seconds(), plan.jobs.size() - i);
        if (interrupts.signal() != 0 || budget <= 0) {
            shape["outcome"] = "skipped";
            shape["reason"] = interrupts.signal() != 0 ? "interrupted" : "the total budget was used up";
            shapes.push_back(std::move(shape));
            continue;
        }
        Watch watched{interrupts, progress, budget};
        opdock_tune_options options = {};
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
        options.strategy = request.strategy;
        options.flags = request.flags;
        options.impl_id = job.subject.impl.empty() ? nullptr : job.subject.impl.c_str();
        options.budget = budget;
        options.progress = watch;
        options.user_data = &watched;
        progress.begin(op_call::label_of(job.subject));
        try {
            shape.update(tune_one(host, request, job, options));
        } catch (const std::exception &error) {
            shape["outcome"] = "failed";
            shape["error"] = op_call::failure_json(error);
        }
        progress.end(outcome_text(shape));
        shapes.push_back(std::move(shape));
    }
    json left_out = json::array();
    for (const LeftOut &one : plan.left_out) {
        left_out.push_back({{"op", one.op}, {"impl_id", one.impl}, {"reason", one.reason}});
    }
    return {{"schema", "opdock.plugin-tune/1"},
            {"device", request.device},
            {"dry_run", (request.flags & OPDOCK_TUNE_DRY_RUN) != 0},
            {"interrupted", interrupts.signal() != 0},
            {"seconds", seconds()},
            {"shapes", std::move(shapes)},
            {"left_out", std::move(left_out)}};
}

} // namespace opdock::plugin_tune
