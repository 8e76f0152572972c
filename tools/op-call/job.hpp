// What is to be measured, checked against the ops that are there before anything runs.
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

// Those of a file of shapes; recorded ones once each. Whatever is wrong is a cli::Failure whose message begins with its
// place; a call that was recorded, maybe elsewhere, and that cannot be made here is left out. `device_type`: recorded
// calls of others are left out too; "" for none.
FileJobs jobs_of_file(const Host &host, const std::string &path, DLDevice device, const std::string &device_type);

// One size of the built-in shapes for one tuple of dtypes; of the two ways to share the elements the first with which
// `takes` throws no opdock::Error. Nothing, with why in `reason`, when it throws with both or the signature needs what
// cannot be guessed.
std::optional<Job> builtin_job(const Host &host, const Subject &subject, const std::string &dtypes,
                               const BuiltinSize &size, const std::function<void(const Job &)> &takes,
                               std::string &reason);

// Adds it unless the same call of the same implementation is there.
void add_new(std::vector<Job> &jobs, Job job);

// Throws opdock::Error when the op does not take such a call. Shapes of files are not known yet.
void check_call(const Host &host, const Job &job, DLDevice device);

} // namespace opdock::op_call
