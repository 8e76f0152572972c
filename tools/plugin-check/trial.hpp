// One case of one implementation: the arguments of its calls, and the judgement of its results. None of the
// implementation's code runs here.
#pragma once

#include <optional>
#include <vector>

#include "calls.hpp"
#include "op-call/call_file.hpp"
#include "outcome.hpp"
#include "reference.hpp"

namespace opdock::plugin_check {

struct Settings {
    unsigned threads = 4;
    double config_seconds = 5; // for the configs of one case
    Pinned pinned = {};
    const op_call::CallFile *replayed = nullptr; // gives the values of all cases; null: values are made up
};

class Trial {
  public:
    // Borrows everything. The reference is the op's, and its own calls are not these.
    Trial(const Subject &subject, const op_call::Signature &signature, Settings settings, const Reference &reference,
          Calls &calls);

    std::vector<Case> cases(uint64_t seed) const;
    // Throws Ended and NotTried.
    Outcome run(const Case &one) const;

  private:
    struct Thread; // one of several that call at the same time

    std::vector<op_call::Tensors> draw(const Case &one) const;
    Outcome run_threads(const Case &one) const;
    // Makes the thread's call alone.
    Answer begin(Thread &thread, size_t slot) const;
    Outcome run_batches(const Case &one, const std::vector<op_call::Tensors> &inputs) const;
    std::vector<double> expected_row(const Case &one, const std::vector<op_call::Tensors> &inputs,
                                     const std::vector<size_t> &rows, size_t place) const;
    // Describes what is wrong with a result computed beside the others; "" if nothing is.
    std::string find_beside(const Thread &thread, const Answer &answer, const std::string &others) const;
    // Follows judge_calls.
    void judge_rows(const Case &one, const std::vector<op_call::Tensors> &inputs, const Results *expected,
                    Outcome &outcome) const;
    void find_neighbours(const Case &one, const std::vector<Output> &found, const Results &expected,
                         Outcome &outcome) const;
    // At the beginning of pages. Returns nothing, perhaps with a finding, if the call is declined or fails.
    std::optional<std::vector<Output>> run_once(const Case &one, const std::vector<op_call::Tensors> &inputs,
                                                Outcome &outcome) const;
    Outcome run_configs(const Case &one, const std::vector<op_call::Tensors> &inputs) const;
    std::vector<Turn> turns_of(const Case &one) const;
    // Judges the results of these turns, which were begun.
    Outcome judge_calls(const Case &one, const std::vector<op_call::Tensors> &inputs, const Results *expected) const;
    // Finds a call that its kernel declined though the host could have known before.
    void find_late_decline(const Case &one, Outcome &outcome) const;
    // The elements of each result that depend on a number that is NaN in this case; empty for other cases.
    std::vector<std::vector<bool>> depending_on_nan(const Case &one) const;
    // Compares what a call wrote with the expected results.
    void judge(const Case &one, const std::vector<op_call::Tensors> &inputs, const std::vector<Output> &found,
               const Results &expected, Outcome &outcome) const;

    const Subject &subject_;
    const op_call::Signature &signature_;
    Settings settings_;
    const Reference &reference_;
    Calls &calls_;
};

} // namespace opdock::plugin_check
