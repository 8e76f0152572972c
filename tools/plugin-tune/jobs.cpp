#include "jobs.hpp"

#include <nlohmann/json.hpp>

#include "cli/suggest.hpp"
#include "op-call/call.hpp"
#include "op-call/requested.hpp"

namespace opdock::plugin_tune {
namespace {

using nlohmann::json;

// Throws cli::Failure unless the op has this implementation.
void check_implementation(const Host &host, const std::string &op, const std::string &impl) {
    if (!impl.empty()) {
        op_call::only(host, op, impl);
    }
}

// The number of configs to tune for this call; nothing for an implementation without knobs. Throws opdock::Error if the
// op does not accept the call.
std::optional<size_t> candidates(const Host &host, const Job &job, DLDevice device) {
    const Op op = host.op(job.subject.op);
    op_call::Operands inputs = op_call::shapes_of(job.arguments);
    op_call::put_on(inputs, job.signature.inputs, device);
    op_call::Operands outputs = op_call::infer_outputs(op, job.signature, inputs, job.arguments);
    op_call::put_on(outputs, job.signature.outputs, device);
    const op_call::Call call(job.signature, inputs, outputs, job.arguments.attributes, device);
    const Policy policy = op_call::nothing_but(host, job.subject.op, job.subject.impl);
    char *text = nullptr;
    detail::check(opdock_explain_call(op.c(), &call.args().c(), policy.c(), &text));
    const json explained = json::parse(detail::take(text));
    for (const json &one : explained.at("configs")) {
        if (one.at("impl_id") == job.subject.impl) {
            return one.contains("refused") ? 0 : one.value("candidates", size_t{0});
        }
    }
    return std::nullopt;
}

// Adds a job for one size and one tuple of dtypes, if the implementation has knobs and configs for it.
void add_builtin(const Host &host, const Subject &subject, const std::string &dtypes, const op_call::BuiltinSize &size,
                 DLDevice device, Plan &plan, std::string &reason) {
    std::optional<size_t> count;
    const auto count_candidates = [&](const Job &job) { count = candidates(host, job, device); };
    std::optional<Job> job = op_call::builtin_job(host, subject, dtypes, size, count_candidates, reason);
    if (job && count.value_or(0) != 0) {
        op_call::add_new(plan.jobs, std::move(*job));
    }
}

Plan plan_of_all(const Host &host, const Request &request) {
    if (!request.subject.op.empty()) {
        check_implementation(host, request.subject.op, request.subject.impl);
        host.op(request.subject.op); // throws if there is no such op
    }
    const DLDevice device = host.device(request.device);
    const std::string kind = request.device.substr(0, request.device.find(':'));
    Plan plan;
    const json document = json::parse(host.describe());
    for (const json &op : document.at("ops")) {
        const auto name = op.at("op").get<std::string>();
        if (!request.subject.op.empty() && name != request.subject.op) {
            continue;
        }
        for (const json &implementation : op.at("implementations")) {
            const Subject subject{name, implementation.at("impl_id").get<std::string>(), {}, {}};
            const std::string &wanted = request.subject.impl;
            if ((!wanted.empty() && !cli::same_name(wanted, subject.impl)) || implementation.at("device") != kind) {
                continue;
            }
            const size_t before = plan.jobs.size();
            std::string reason;
            for (const std::string &dtypes :
                 op_call::builtin_dtypes(implementation.at("dtypes").get<std::vector<std::string>>())) {
                for (const op_call::BuiltinSize &size : op_call::builtin_sizes) {
                    add_builtin(host, subject, dtypes, size, device, plan, reason);
                }
            }
            if (plan.jobs.size() == before && !reason.empty()) {
                plan.left_out.push_back({name, subject.impl, reason});
            }
        }
    }
    return plan;
}

// The reason why a recorded call has nothing to tune; "" if it has.
std::string untunable(const Host &host, const Job &job, DLDevice device) {
    if (job.subject.impl.empty()) {
        return "'" + job.subject.served_by + "' served the call, but is not available here";
    }
    try {
        return candidates(host, job, device).value_or(0) == 0
                   ? "'" + job.subject.impl + "' has no knobs, or no configs for this call"
                   : "";
    } catch (const Error &error) {
        return error.what();
    }
}

// The recorded calls whose serving implementation can be tuned; with --across all calls, each once.
Plan plan_of_file(const Host &host, const Request &request) {
    const DLDevice device = host.device(request.device);
    const std::string kind = request.device.substr(0, request.device.find(':'));
    op_call::FileJobs found =
        op_call::jobs_of_file(host, request.shapes, device, request.runs_elsewhere ? std::string() : kind);
    Plan plan;
    for (const op_call::LeftOutCall &one : found.left_out) {
        plan.left_out.push_back({one.subject.op, one.subject.served_by, one.subject.place + ": " + one.reason});
    }
    for (Job &job : found.jobs) {
        if ((request.flags & OPDOCK_TUNE_ACROSS) != 0) {
            job.subject.impl.clear();
            op_call::add_new(plan.jobs, std::move(job));
            continue;
        }
        if (job.subject.is_recorded()) {
            for (const op_call::Implementation &one : op_call::implementations_of(host, job.subject.op)) {
                job.subject.impl = one.id == job.subject.served_by ? one.id : job.subject.impl;
            }
            if (const std::string why = untunable(host, job, device); !why.empty()) {
                plan.left_out.push_back({job.subject.op, job.subject.served_by, job.subject.place + ": " + why});
                continue;
            }
        }
        plan.jobs.push_back(std::move(job));
    }
    return plan;
}

} // namespace

Plan plan(const Host &host, const Request &request) {
    if (request.all) {
        return plan_of_all(host, request);
    }
    if (request.shapes.empty()) {
        Job job = op_call::job_of(host, request.subject);
        op_call::check_call(host, job, host.device(request.device));
        return {{std::move(job)}, {}};
    }
    return plan_of_file(host, request);
}

} // namespace opdock::plugin_tune
