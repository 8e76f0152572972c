// Runs of a command under one policy, and what they say: good or bad.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "request.hpp"
#include "search.hpp"
#include "significance.hpp"
#include "suspects.hpp"

namespace opdock::plugin_bisect {

struct Run {
    uint64_t number = 0; // of all runs, from 1
    uint64_t repeat = 0; // of its policy, from 1
    int exit_code = 0;
    bool timed_out = false;
    std::optional<double> score;
    double seconds = 0;
    std::string out; // the files of what it printed
    std::string err;
    std::vector<Suspect> served;
    bool remembered = false; // from a search before this one
};

nlohmann::json to_json(const Run &run);
// Throws nlohmann::json::exception for what is none.
Run run_from(const nlohmann::json &json);

// All runs under one policy.
struct Trial {
    std::string policy; // the value of PER_OP
    Members active;     // suspects; of the first runs all or none
    std::vector<Run> runs;
    bool is_bad = false;
    std::optional<double> p; // of a difference as large as that from the first runs of the other verdict, by chance
    bool is_certain = true;
};

// What the runs gave. A score is missing of those that failed or printed none.
Sample sample_of(const Trial &trial, const Request &request);

class Judge {
  public:
    explicit Judge(const Request &request) : request_(request) {}

    // Whether the runs as the user has it are bad in themselves; nothing where that takes the others to tell.
    std::optional<bool> is_bad_alone(const Trial &trial) const;

    // What makes the first runs useless for a search; "" where they are not. The trials get their verdicts.
    enum class Fault { none, good_as_it_is, not_in_ops, not_significant };
    Fault compare(Trial &as_it_is, Trial &replaced);

    // After compare(): sets the verdict.
    void judge(Trial &trial) const;

  private:
    bool is_bad(const Trial &trial) const;
    bool has_failed(const Trial &trial) const; // where scores are asked for
    std::optional<double> difference(const Trial &one, const Trial &other) const;

    const Request &request_;
    Trial bad_;
    Trial good_;
};

} // namespace opdock::plugin_bisect
