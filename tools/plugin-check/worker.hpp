// The process that runs an implementation: its faults end nothing but this process. It makes calls and returns what
// they wrote, which is judged where none of the plugin's code runs (trial.hpp).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cases.hpp"

namespace opdock::plugin_check {

// The task of a worker; passed as one argument.
struct Job {
    std::vector<std::string> modules;
    Subject subject; // no op: the worker only reports what plugins bring
};

nlohmann::json as_json(const Job &job);
Job job_of(const nlohmann::json &json);

int run_worker(const std::string &job);

} // namespace opdock::plugin_check
