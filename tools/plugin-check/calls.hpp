// Calls of one implementation, which are made in a process of its own, and what they wrote, which is judged in this
// one.
#pragma once

#include <string>
#include <vector>

#include "conversation.hpp"
#include "op-call/call.hpp"
#include "opdock/opdock.hpp"
#include "outcome.hpp"

namespace opdock::plugin_check {

// What came of a call.
struct Answer {
    opdock_status prepared = OPDOCK_OK; // where it is another, nothing was run
    opdock_status status = OPDOCK_OK;
    std::string message;
    bool has_workspace = false;
    std::vector<Finding> findings; // what the process noticed of itself
    std::vector<Output> outputs;   // outputs, then inputs that are written; in the order of Results
};

// What came of the configs of a tune file.
struct Tuned {
    uint64_t configs = 0;
    uint64_t left_out = 0;
    std::vector<Finding> findings;
};

class Calls {
  public:
    // The host knows the op. It and the signature are borrowed. `seconds` are for a case, and for opening a host.
    Calls(const std::string &program, const Job &job, const Host &host, const op_call::Signature &signature,
          double seconds);

    void begin_case() { conversation_.give(seconds_); }

    // All of these throw Ended, NotTried and opdock::Error, the last also when a call is none of the op's.

    // The inputs of the calls that follow for this slot.
    void place(size_t slot, const Case &one, const std::vector<op_call::Tensors> &inputs);
    // Places all tensors anew and calls it once; `poison` is one of PlacedRun's.
    Answer call(size_t slot, bool at_end, Layout layout, size_t poison = 0);
    // The same call with the tensors where they are, and outputs poisoned with the second of them.
    Answer again(size_t slot);
    // The last call of each slot, again on a thread of its own, all at once: for each slot what came of each round.
    std::vector<std::vector<Answer>> beside(int rounds, int calls_before);
    Tuned tune(size_t slot, double seconds);
    // Whether it takes inputs like these, as far as it says before running.
    bool takes(const Case &one, const op_call::Operands &inputs);

    bool was_copied() { return conversation_.was_copied(); }
    std::string finish() { return conversation_.finish(); }

  private:
    Answer read_answer(const nlohmann::json &json, size_t slot, const Reply &reply, size_t &at);
    size_t bytes_of(size_t slot) const;

    Conversation conversation_;
    const Host &host_;
    const op_call::Signature &signature_;
    double seconds_;
    std::vector<std::vector<Output>> expected_; // by slot: what calls write, without elements
};

} // namespace opdock::plugin_check
