// Calls of one implementation, which are made in a process of its own.
// This process judges the results.
#pragma once

#include <string>
#include <vector>

#include "conversation.hpp"
#include "op-call/call.hpp"
#include "opdock/opdock.hpp"
#include "outcome.hpp"

namespace opdock::plugin_check {

// Conditions of a call.
struct Turn {
    bool again = false; // repeats the previous call, with the tensors where they are
    bool at_end = false;
    Layout layout = Layout::contiguous;
    size_t poison = 0;        // index into PlacedRun::poisons
    bool after_zeros = false; // first runs on other numbers in the same memory
};

// The result of a call.
struct Answer {
    opdock_status prepared = OPDOCK_OK; // if another status, nothing was run
    opdock_status status = OPDOCK_OK;
    std::string message;
    bool has_workspace = false;
    std::vector<Finding> findings; // faults that the process noticed in itself
    std::vector<Output> outputs;   // outputs, then inputs that are written; in the order of Results
};

// The result of trying the configs of a tune file.
struct Tuned {
    uint64_t configs = 0;
    uint64_t left_out = 0;
    std::vector<Finding> findings;
};

class Calls {
  public:
    // The host knows the op. It and the signature are borrowed. `seconds` limits a case, and the opening of a host.
    Calls(const std::string &program, const Job &job, const Host &host, const op_call::Signature &signature,
          double seconds, Waiting waiting);

    void begin_case() { conversation_.give(seconds_); }

    // All of these throw Ended, NotTried and opdock::Error; the last also if a call is not valid for the op.

    // Requests calls with these inputs, which become the inputs of this slot. While the calls run, this process is free
    // for other work.
    void begin(size_t slot, const Case &one, const std::vector<op_call::Tensors> &inputs,
               const std::vector<Turn> &turns);
    // Their results: an answer for each call up to the first failure; a failure of a repeated call does not end them.
    std::vector<Answer> answers(size_t slot);
    // Makes one call with the slot's inputs.
    Answer call(size_t slot, const Turn &turn);
    // Repeats the last call of each slot, on a thread of its own, all at once. For each slot: an answer per round.
    std::vector<std::vector<Answer>> beside(int rounds, int calls_before);
    // Tries the configs with the inputs of a case.
    Tuned tune(const Case &one, const std::vector<op_call::Tensors> &inputs, double seconds);
    // True if the implementation takes inputs like these, as far as it says before running.
    bool takes(const Case &one, const op_call::Operands &inputs);

    // Number of calls that returned, including repeated ones and those of threads, but not those of tune().
    uint64_t count() const { return count_; }

    // Rejects an impossible answer. Throws Ended.
    [[noreturn]] void refuse(const std::string &what) { conversation_.refuse(what); }

    bool was_copied() { return conversation_.was_copied(); }
    std::string finish() { return conversation_.finish(); }

  private:
    // Puts the inputs into the exchange and returns the call's part of a request.
    nlohmann::json place(size_t slot, const Case &one, const std::vector<op_call::Tensors> &inputs);
    Answer read_answer(const nlohmann::json &json, size_t slot, const Reply &reply, size_t &at);
    size_t bytes_of(size_t slot) const;

    Conversation conversation_;
    const Host &host_;
    const op_call::Signature &signature_;
    double seconds_;
    size_t turns_ = 0;                          // number requested last
    uint64_t count_ = 0;                        // of calls
    std::vector<std::vector<Output>> expected_; // by slot: the outputs of its calls, without elements
};

} // namespace opdock::plugin_check
