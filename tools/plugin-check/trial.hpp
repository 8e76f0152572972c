// One case of one implementation, run and judged.
#pragma once

#include <optional>
#include <vector>

#include "outcome.hpp"
#include "placed_run.hpp"
#include "reference.hpp"

namespace opdock::plugin_check {

struct Settings {
    unsigned threads = 4;
    double config_seconds = 5; // for the configs of one case
};

class Trial {
  public:
    // All are borrowed.
    Trial(const Host &host, const Subject &subject, const op_call::Signature &signature, const Settings &settings);

    std::vector<Case> cases(uint64_t seed) const;
    Outcome run(const Case &one) const;
    bool has_reference() const { return reference_.exists(); }

  private:
    struct Worker; // of several threads

    std::vector<op_call::Tensors> draw(const Case &one) const;
    Outcome run_threads(const Case &one) const;
    // Runs it alone.
    opdock_status begin(Worker &worker, std::string &message) const;
    // Once beside the others, and whether that was the same.
    void run_beside(Worker &worker, const std::string &others) const;
    Outcome run_rows(const Case &one, const std::vector<op_call::Tensors> &inputs, const Results *expected) const;
    void find_neighbours(const Case &one, const std::vector<Output> &found, const Results &expected,
                         Outcome &outcome) const;
    // At the begin of pages. Nothing, and perhaps a finding, where the call is declined or fails.
    std::optional<std::vector<Output>> run_once(const Case &one, const std::vector<op_call::Tensors> &inputs,
                                                Outcome &outcome) const;
    Outcome run_configs(const Case &one, const std::vector<op_call::Tensors> &inputs) const;
    Outcome run_call(const Case &one, const std::vector<op_call::Tensors> &inputs, const Results *expected) const;
    // A call for which it asked for memory, only to decline it.
    void find_late_decline(const Case &one, const std::vector<op_call::Tensors> &inputs, Outcome &outcome) const;
    // Compares what a call wrote with what it had to.
    void judge(const Case &one, const std::vector<op_call::Tensors> &inputs, const std::vector<Output> &found,
               const Results &expected, Outcome &outcome) const;

    const Host &host_;
    const Subject &subject_;
    const op_call::Signature &signature_;
    Settings settings_;
    Where where_;
    Reference reference_;
    Policy policy_;
};

} // namespace opdock::plugin_check
