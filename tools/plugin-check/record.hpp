// What there is to say of an implementation, while its cases are tried.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cases.hpp"
#include "outcome.hpp"

namespace opdock::plugin_check {

class Record {
  public:
    explicit Record(const Subject &subject);

    void begin(const Case &one, std::string label);
    void end(const Outcome &outcome, const Extent &extent);
    // What the case that is running, or all of it, did wrong.
    void add(const std::string &check, const std::string &message);
    // Of a case that ended the process.
    void leave_case();
    // Of one that was not begun after all.
    void forget_case() { now_ = nullptr; }
    void note(const std::string &text) { notes_.push_back(text); }
    // Adds the findings that only all cases together show. `tuples` are dtypes of which no case was left out;
    // `has_reference` says that results could be compared.
    void conclude(const std::vector<std::string> &tuples, bool has_reference);

    // As check_implementation says.
    nlohmann::json result() const;

  private:
    struct OfTuple {
        uint64_t ran = 0;
        uint64_t ran_empty = 0; // those without elements
        uint64_t declined = 0;
        uint64_t compared = 0;
        uint64_t compared_empty = 0;
        uint64_t skipped = 0;
        bool has_findings = false;
        std::string why;      // it was declined last
        std::string why_skip; // likewise
    };

    const Subject &subject_;
    const Case *now_ = nullptr;
    std::string label_; // of it
    std::map<std::string, uint64_t> counts_;
    Extent extent_; // of what ran
    std::map<std::string, OfTuple> ran_of_;
    std::map<std::string, std::map<std::string, double>> worst_;
    std::map<std::string, uint64_t> declines_; // reason, how often
    nlohmann::json findings_ = nlohmann::json::array();
    std::vector<std::string> notes_;
};

} // namespace opdock::plugin_check
