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

// How a call is made.
struct Turn {
    bool again = false; // the call before, with the tensors where they are
    bool at_end = false;
    Layout layout = Layout::contiguous;
    size_t poison = 0;        // one of PlacedRun's
    bool after_zeros = false; // the same memory has held other numbers, and was computed on
};

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
          double seconds, Waiting waiting);

    void begin_case() { conversation_.give(seconds_); }

    // All of these throw Ended, NotTried and opdock::Error, the last also when a call is none of the op's.

    // Asks for calls with these inputs, and gives them to this slot. While they run, this process is free for other
    // work.
    void begin(size_t slot, const Case &one, const std::vector<op_call::Tensors> &inputs,
               const std::vector<Turn> &turns);
    // What came of them: an answer for each up to the first that was not OK, one that is made again aside.
    std::vector<Answer> answers(size_t slot);
    // One with the inputs that the slot has.
    Answer call(size_t slot, const Turn &turn);
    // The last call of each slot, again on a thread of its own, all at once: for each slot what came of each round.
    std::vector<std::vector<Answer>> beside(int rounds, int calls_before);
    // With the inputs of a case.
    Tuned tune(const Case &one, const std::vector<op_call::Tensors> &inputs, double seconds);
    // Whether it takes inputs like these, as far as it says before running.
    bool takes(const Case &one, const op_call::Operands &inputs);

    // How many came back, those that were made again and those of threads included; not those of tune().
    uint64_t count() const { return count_; }

    // For answers that cannot be. Throws Ended.
    [[noreturn]] void refuse(const std::string &what) { conversation_.refuse(what); }

    bool was_copied() { return conversation_.was_copied(); }
    std::string finish() { return conversation_.finish(); }

  private:
    // Puts the inputs into the exchange and gives the call's part of a request.
    nlohmann::json place(size_t slot, const Case &one, const std::vector<op_call::Tensors> &inputs);
    Answer read_answer(const nlohmann::json &json, size_t slot, const Reply &reply, size_t &at);
    size_t bytes_of(size_t slot) const;

    Conversation conversation_;
    const Host &host_;
    const op_call::Signature &signature_;
    double seconds_;
    size_t turns_ = 0;                          // that were asked for last
    uint64_t count_ = 0;                        // of calls
    std::vector<std::vector<Output>> expected_; // by slot: what calls write, without elements
};

} // namespace opdock::plugin_check
