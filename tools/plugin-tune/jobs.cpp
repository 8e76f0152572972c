#include "jobs.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "builtin_shapes.hpp"
#include "cli/exit.hpp"
#include "cli/suggest.hpp"
#include "op-call/call.hpp"
#include "op-call/requested.hpp"
#include "shapes_file.hpp"

namespace opdock::plugin_tune {
namespace {

using nlohmann::json;
using op_call::Signature;

Signature signature_of(const Op &op) {
    return op_call::read_signature(json::parse(op.signature_json()));
}

// Throws cli::Failure unless the op has it.
void check_implementation(const Host &host, const std::string &op, const std::string &impl) {
    if (!impl.empty()) {
        op_call::only(host, op, impl);
    }
}

// Throws opdock::Error when the op does not take such a call. Shapes of files are not known yet.
void check_call(const Host &host, const Job &job, DLDevice device) {
    for (const auto &sources : job.arguments.inputs) {
        for (const op_call::Source &source : sources) {
            if (!std::holds_alternative<op_call::MadeUp>(source)) {
                return;
            }
        }
    }
    op_call::Operands inputs = op_call::shapes_of(job.arguments);
    op_call::put_on(inputs, job.signature.inputs, device);
    op_call::infer_outputs(host.op(job.subject.op), job.signature, inputs, job.arguments.attributes);
}

Job job_of(const Host &host, const Subject &subject) {
    Signature signature = signature_of(host.op(subject.op));
    check_implementation(host, subject.op, subject.impl);
    op_call::Arguments arguments =
        op_call::match(subject.inputs, subject.attributes, signature, op_call::shapes_or_sources_spelling);
    op_call::guess_ranges(arguments);
    return {subject, std::move(signature), std::move(arguments)};
}

// What is wrong in a file is said with its place.
Job job_of_file(const Host &host, const Subject &subject, DLDevice device) {
    try {
        Job job = job_of(host, subject);
        check_call(host, job, device);
        return job;
    } catch (const std::exception &error) {
        throw cli::Failure(subject.place + ": " + error.what());
    }
}

// How many configs there are to tune for this call; nothing for an implementation without knobs. Throws opdock::Error
// when the op does not take the call.
std::optional<size_t> candidates(const Host &host, const Job &job, DLDevice device) {
    const Op op = host.op(job.subject.op);
    op_call::Operands inputs = op_call::shapes_of(job.arguments);
    op_call::put_on(inputs, job.signature.inputs, device);
    op_call::Operands outputs = op_call::infer_outputs(op, job.signature, inputs, job.arguments.attributes);
    op_call::put_on(outputs, job.signature.outputs, device);
    const op_call::Call call(job.signature, inputs, outputs, job.arguments.attributes);
    const Policy policy = op_call::only(host, job.subject.op, job.subject.impl);
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

// One size for one tuple of dtypes; the first of the two ways to share the elements that the op takes.
void add_builtin(const Host &host, const Subject &subject, const Signature &signature, const std::string &dtypes,
                 const BuiltinSize &size, DLDevice device, Plan &plan, std::string &reason) {
    for (const bool alike : {false, true}) {
        const std::optional<BuiltinCall> call = builtin_call(signature, dtypes, size, alike);
        if (!call) {
            reason = "no shapes follow from its signature; give some with --shape or --from";
            continue;
        }
        try {
            Job job = job_of(host, {subject.op, subject.impl, call->inputs, call->attributes, ""});
            const std::optional<size_t> count = candidates(host, job, device);
            if (!count || *count == 0) {
                return; // no knobs, or no configs: nothing that tuning could do
            }
            const std::string label = job.label();
            if (std::none_of(plan.jobs.begin(), plan.jobs.end(), [&](const Job &other) {
                    return other.subject.impl == job.subject.impl && other.label() == label;
                })) {
                plan.jobs.push_back(std::move(job));
            }
            reason.clear();
            return;
        } catch (const Error &error) {
            reason = error.what();
        }
    }
}

bool is_wanted(const std::string &wanted, const std::string &name) {
    return wanted.empty() || cli::same_name(wanted, name);
}

Plan plan_of_all(const Host &host, const Request &request) {
    if (!request.subject.op.empty()) {
        check_implementation(host, request.subject.op, request.subject.impl);
        host.op(request.subject.op); // says when there is none
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
        const Signature signature = signature_of(host.op(name));
        for (const json &implementation : op.at("implementations")) {
            const Subject subject{name, implementation.at("impl_id").get<std::string>(), {}, {}};
            if (!is_wanted(request.subject.impl, subject.impl) || implementation.at("device") != kind) {
                continue;
            }
            const size_t before = plan.jobs.size();
            std::string reason;
            for (const std::string &dtypes :
                 builtin_dtypes(implementation.at("dtypes").get<std::vector<std::string>>())) {
                for (const BuiltinSize &size : builtin_sizes) {
                    add_builtin(host, subject, signature, dtypes, size, device, plan, reason);
                }
            }
            if (plan.jobs.size() == before && !reason.empty()) {
                plan.left_out.push_back({name, subject.impl, reason});
            }
        }
    }
    return plan;
}

} // namespace

std::string Job::label() const {
    std::string text = subject.op;
    for (const auto *list : {&subject.inputs, &subject.attributes}) {
        for (const Named &one : *list) {
            text += " " + one.name + "=" + one.text;
        }
    }
    return text;
}

Plan plan(const Host &host, const Request &request) {
    if (request.all) {
        return plan_of_all(host, request);
    }
    Plan plan;
    if (request.from.empty()) {
        plan.jobs.push_back(job_of(host, request.subject));
        return plan;
    }
    const DLDevice device = host.device(request.device);
    for (const Subject &subject : read_shapes(request.from)) {
        plan.jobs.push_back(job_of_file(host, subject, device));
    }
    return plan;
}

} // namespace opdock::plugin_tune
