// The process in which an implementation runs: what it does wrong ends nothing but this.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "cases.hpp"
#include "trial.hpp"

namespace opdock::plugin_check {

// What a worker is asked for; travels as one argument.
struct Job {
    Subject subject;
    std::vector<std::string> modules;
    uint64_t seed = 0;
    size_t first = 0;  // the case to begin with
    int64_t only = -1; // this case alone; -1: all
    Settings settings;
};

nlohmann::json as_json(const Job &job);
Job job_of(const nlohmann::json &json);

// The descriptor on which a worker writes its messages, one JSON object in each line:
// {"cases": how many, "has_reference"}, then for each case {"begin": index, "label", "dtypes", "empty"} and
// {"end": index, "kind", "reason", "compared", "findings": [{"check", "message"}], "errors": {output: number},
// "configs", "left_out"}, and last {"done": true}. {"problem": text} when there is no host or no such implementation;
// {"fault": text} from a signal; {"copy": text} from a process that the plugin forked.
inline constexpr int message_descriptor = 3;

int run_worker(const std::string &job);

} // namespace opdock::plugin_check
