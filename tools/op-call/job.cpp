#include "op-call/job.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "op-call/call.hpp"
#include "op-call/requested.hpp"
#include "op-call/shapes_file.hpp"

namespace opdock::op_call {
namespace {

using nlohmann::json;

bool is_of_file(const Source &source) {
    return !std::holds_alternative<MadeUp>(source);
}

// Gives the inputs the strides of the recorded call. Throws cli::UsageError for strides that tools cannot make.
void add_strides(const Subject &subject, const Signature &signature, Arguments &arguments) {
    for (size_t p = 0; p < signature.inputs.size(); ++p) {
        size_t element = 0;
        for (const Named &one : subject.strides) {
            if (one.name != signature.inputs[p].name || element >= arguments.inputs[p].size()) {
                continue;
            }
            if (auto *made_up = std::get_if<MadeUp>(&arguments.inputs[p][element++])) {
                try {
                    made_up->strides = parse_strides(one.text, made_up->shape);
                } catch (const cli::UsageError &error) {
                    throw cli::UsageError("strides of '" + one.name + "': " + error.what());
                }
            }
        }
    }
    for (const Named &one : subject.strides) {
        if (!find_named(signature.inputs, one.name)) {
            throw cli::UsageError("strides of '" + one.name + "': tools only make row-major outputs");
        }
    }
}

Job checked_job(const Host &host, const Subject &subject, DLDevice device) {
    Job job = job_of(host, subject);
    add_strides(subject, job.signature, job.arguments);
    check_call(host, job, device);
    return job;
}

} // namespace

Job job_of(const Host &host, const Subject &subject) {
    Signature signature = signature_of(host.op(subject.op));
    if (!subject.impl.empty()) {
        only(host, subject.op, subject.impl); // throws if there is none
    }
    Arguments arguments = match(subject.inputs, subject.attributes, signature, shapes_or_sources_spelling);
    arguments.wanted_outputs = match_outputs(subject.outputs, signature, shapes_or_sources_spelling);
    guess_ranges(arguments);
    return {subject, std::move(signature), std::move(arguments)};
}

FileJobs jobs_of_file(const Host &host, const std::string &path, DLDevice device, const std::string &device_type) {
    FileJobs found;
    for (const Subject &subject : read_shapes(path)) {
        if (subject.is_recorded() && !device_type.empty() &&
            subject.recorded_on.substr(0, subject.recorded_on.find(':')) != device_type) {
            found.left_out.push_back({subject, "it ran on " + subject.recorded_on + "; see --device"});
            continue;
        }
        try {
            Job job = checked_job(host, subject, device);
            if (subject.is_recorded()) {
                add_new(found.jobs, std::move(job)); // several implementations or configs may have served the same call
            } else {
                found.jobs.push_back(std::move(job));
            }
        } catch (const std::exception &error) { // rethrown with its position
            if (!subject.is_recorded()) {
                throw cli::Failure(subject.place + ": " + error.what());
            }
            found.left_out.push_back({subject, error.what()});
        }
    }
    return found;
}

std::optional<Job> builtin_job(const Host &host, const Subject &subject, const std::string &dtypes,
                               const BuiltinSize &size, const std::function<void(const Job &)> &takes,
                               std::string &reason) {
    const Signature signature = signature_of(host.op(subject.op));
    for (const bool alike : {false, true}) {
        const std::optional<BuiltinCall> call = builtin_call(signature, dtypes, size, alike);
        if (!call) {
            reason = "its signature does not determine shapes; give them with --shape or in a file";
            return std::nullopt;
        }
        try {
            Job job = job_of(host, {subject.op, {}, call->inputs, call->attributes});
            job.subject.impl = subject.impl; // known to exist; looking it up each time would take most of the time
            takes(job);
            reason.clear();
            return job;
        } catch (const Error &error) {
            reason = error.what();
        }
    }
    return std::nullopt;
}

void add_new(std::vector<Job> &jobs, Job job) {
    const std::string label = label_of(job.subject);
    if (std::none_of(jobs.begin(), jobs.end(), [&](const Job &other) {
            return other.subject.impl == job.subject.impl && label_of(other.subject) == label;
        })) {
        jobs.push_back(std::move(job));
    }
}

void check_call(const Host &host, const Job &job, DLDevice device) {
    for (const auto &sources : job.arguments.inputs) {
        if (std::any_of(sources.begin(), sources.end(), is_of_file)) {
            return;
        }
    }
    Operands inputs = shapes_of(job.arguments);
    put_on(inputs, job.signature.inputs, device);
    infer_outputs(host.op(job.subject.op), job.signature, inputs, job.arguments);
}

} // namespace opdock::op_call
