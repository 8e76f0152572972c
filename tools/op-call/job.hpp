// Work for a tool that measures, checked against the available ops before anything runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "op-call/arguments.hpp"
#include "op-call/builtin_shapes.hpp"
#include "op-call/subject.hpp"
#include "opdock/opdock.hpp"

namespace opdock::op_call {

struct Job {
    Subject subject;
    Signature signature;
    Arguments arguments;
};

// Throws opdock::Error for an unknown op, cli::Failure for an unknown implementation, and cli::UsageError for arguments
// that do not fit.
Job job_of(const Host &host, const Subject &subject);

struct LeftOutCall {
    Subject subject;
    std::string reason;
};

struct FileJobs {
    std::vector<Job> jobs;
    std::vector<LeftOutCall> left_out;
};

// The jobs of a file of shapes; recorded calls appear once each. Any error is a cli::Failure whose message begins with
// its position in the file, but a recorded call, perhaps from another machine, that cannot be made here is left out.
// Recorded calls on other devices than `device_type` are left out too, unless it is "".
FileJobs jobs_of_file(const Host &host, const std::string &path, DLDevice device, const std::string &device_type);

// One size of the built-in shapes for one tuple of dtypes. There are two ways to distribute the elements over the dims:
// the first one wins for which `takes` throws no opdock::Error. Returns nothing, with the cause in `reason`, if it
// throws for both or if the signature needs something that cannot be guessed.
std::optional<Job> builtin_job(const Host &host, const Subject &subject, const std::string &dtypes,
                               const BuiltinSize &size, const std::function<void(const Job &)> &takes,
                               std::string &reason);

// Adds the job unless the list already has the same call of the same implementation.
void add_new(std::vector<Job> &jobs, Job job);

// Throws opdock::Error if the op does not take such a call. The shapes of files are not known yet.
void check_call(const Host &host, const Job &job, DLDevice device);

} // namespace opdock::op_call
