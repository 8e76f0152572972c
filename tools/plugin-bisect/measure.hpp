// Runs of a command under one policy, and the verdict on them: good or bad.
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
    uint64_t number = 0; // among all runs, from 1
    uint64_t repeat = 0; // among the runs of its policy, from 1
    int exit_code = 0;
    bool timed_out = false;
    std::optional<double> score;
    double seconds = 0;
    std::string out; // the files with its output
    std::string err;
    std::vector<Suspect> served;
    bool remembered = false; // from an earlier search
};

nlohmann::json to_json(const Run &run);
// Throws nlohmann::json::exception if it is not a run.
Run run_from(const nlohmann::json &json);

// All runs under one policy.
struct Trial {
    std::string policy; // the value of PER_OP
    Members active;     // indices of suspects; all or none in the first runs
    std::vector<Run> runs;
    bool is_bad = false;
    std::optional<double> p; // probability of such a difference from the first runs of the other verdict by chance
    bool is_certain = true;
};

// The results of the runs. Runs that failed or printed no score contribute none.
Sample sample_of(const Trial &trial, const Request &request);

class Judge {
  public:
    explicit Judge(const Request &request) : request_(request) {}

    // True if the runs are bad by themselves; nothing if only a comparison with other runs can tell.
    std::optional<bool> is_bad_alone(const Trial &trial) const;

    // The reason why the first runs are useless for a search, or none. compare() sets the verdicts of both trials.
    enum class Fault { none, good_as_it_is, not_in_ops, not_significant };
    Fault compare(Trial &as_it_is, Trial &replaced);

    // Sets the verdict. compare() comes first.
    void judge(Trial &trial) const;

  private:
    bool is_bad(const Trial &trial) const;
    bool has_failed(const Trial &trial) const; // when scores are requested
    std::optional<double> difference(const Trial &one, const Trial &other) const;

    const Request &request_;
    Trial bad_;
    Trial good_;
};

} // namespace opdock::plugin_bisect
