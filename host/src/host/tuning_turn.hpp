// Marks the hosts whose calls this thread is tuning. A kernel being tuned may make calls of its own,
// and tuning one of those would wait for itself.
#pragma once

namespace opdock::core {

struct Ledger;

class TuningTurn {
  public:
    explicit TuningTurn(const Ledger &book) : book_(book) { innermost = this; }
    ~TuningTurn() { innermost = outer_; }
    TuningTurn(const TuningTurn &) = delete;
    TuningTurn &operator=(const TuningTurn &) = delete;

    static bool is_taken(const Ledger &book) {
        const TuningTurn *turn = innermost;
        while (turn != nullptr && &turn->book_ != &book) {
            turn = turn->outer_;
        }
        return turn != nullptr;
    }

  private:
    static inline thread_local const TuningTurn *innermost = nullptr;
    const Ledger &book_;
    const TuningTurn *const outer_ = innermost;
};

} // namespace opdock::core
