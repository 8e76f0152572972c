// Counts and findings of an implementation, collected while its cases are tried.
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
    // Adds a fault of the case that is running, or of the implementation as a whole.
    void add(const std::string &check, const std::string &message);
    // For a case that ended the process.
    void leave_case();
    // For a case that was not begun after all.
    void forget_case() { now_ = nullptr; }
    void note(const std::string &text) { notes_.push_back(text); }
    // Adds the findings that only all cases together show. `tuples` are the dtypes of which no case was left out;
    // `has_reference`: results could be compared.
    void conclude(const std::vector<std::string> &tuples, bool has_reference);

    // In the form that check_implementation describes.
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
        std::string why;      // reason of the last decline
        std::string why_skip; // reason of the last skip
    };

    const Subject &subject_;
    const Case *now_ = nullptr;
    std::string label_; // of that case
    std::map<std::string, uint64_t> counts_;
    Extent extent_; // of the cases that ran
    std::map<std::string, OfTuple> ran_of_;
    std::map<std::string, std::map<std::string, double>> worst_;
    std::map<std::string, uint64_t> declines_; // reason, count
    nlohmann::json findings_ = nlohmann::json::array();
    std::vector<std::string> notes_;
};

} // namespace opdock::plugin_check
