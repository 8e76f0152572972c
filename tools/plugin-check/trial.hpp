// One case of one implementation, run and judged.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "placed_tensor.hpp"
#include "reference.hpp"

namespace opdock::plugin_check {

// What is wrong, as a word that scripts may rely on (docs/plugin-check.md) and a sentence.
struct Finding {
    std::string check;
    std::string message;
};

struct Outcome {
    enum class Kind {
        ran,
        declined, // by the implementation: UNSUPPORTED
        skipped,  // by the op: no such call
    };
    Kind kind = Kind::ran;
    std::string reason; // of what did not run
    bool compared = false;
    std::vector<Finding> findings;
    std::map<std::string, double> errors; // by output
    uint64_t configs = 0;                 // tried
    uint64_t configs_left_out = 0;        // the time was up
};

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
    Outcome run_threads(const Case &one) const;
    Outcome run_configs(const Case &one, const std::vector<op_call::Tensors> &inputs) const;
    Outcome run_call(const Case &one, const std::vector<op_call::Tensors> &inputs, const Results *expected) const;
    // Compares what a call wrote with what it had to.
    void judge(const Case &one, const std::vector<op_call::Tensors> &inputs, const std::vector<struct Output> &found,
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
