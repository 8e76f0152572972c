// The process in which an implementation runs: what it does wrong ends nothing but this. It makes calls and hands out
// what they wrote; what that is worth is judged where none of the plugin's code runs (trial.hpp).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cases.hpp"

namespace opdock::plugin_check {

// What a worker is for; travels as one argument.
struct Job {
    std::vector<std::string> modules;
    Subject subject; // no op: none, the worker only tells what plugins bring
};

nlohmann::json as_json(const Job &job);
Job job_of(const nlohmann::json &json);

int run_worker(const std::string &job);

} // namespace opdock::plugin_check
