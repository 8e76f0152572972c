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

} // namespace

Job job_of(const Host &host, const Subject &subject) {
    Signature signature = signature_of(host.op(subject.op));
    if (!subject.impl.empty()) {
        only(host, subject.op, subject.impl); // says when there is none
    }
    Arguments arguments = match(subject.inputs, subject.attributes, signature, shapes_or_sources_spelling);
    arguments.wanted_outputs = match_outputs(subject.outputs, signature, shapes_or_sources_spelling);
    guess_ranges(arguments);
    return {subject, std::move(signature), std::move(arguments)};
}

std::vector<Job> jobs_of_file(const Host &host, const std::string &path, DLDevice device) {
    std::vector<Job> jobs;
    for (const Subject &subject : read_shapes(path)) {
        jobs.push_back(job_of_file(host, subject, device));
    }
    return jobs;
}

std::optional<Job> builtin_job(const Host &host, const Subject &subject, const std::string &dtypes,
                               const BuiltinSize &size, const std::function<void(const Job &)> &takes,
                               std::string &reason) {
    const Signature signature = signature_of(host.op(subject.op));
    for (const bool alike : {false, true}) {
        const std::optional<BuiltinCall> call = builtin_call(signature, dtypes, size, alike);
        if (!call) {
            reason = "no shapes follow from its signature; give some with --shape or in a file";
            return std::nullopt;
        }
        try {
            Job job = job_of(host, {subject.op, {}, call->inputs, call->attributes});
            job.subject.impl = subject.impl; // which there is: to look it up each time would take most of the time
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
