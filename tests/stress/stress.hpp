// A claim that is measured by very many repetitions: their number, the seed, and the findings.
//
//     stress CLAIM [--rounds N] [--seed S]
//
// The full counts are the defaults; ctest runs few rounds from a fixed seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace opdock::stress {

class Stress {
  public:
    Stress(std::uint64_t rounds_wanted, std::uint32_t from_seed) : rounds(rounds_wanted), random(from_seed) {}

    const std::uint64_t rounds;
    std::mt19937 random;

    // A random number below `end`.
    std::uint32_t below(std::uint64_t end) { return static_cast<std::uint32_t>(random() % end); }
    // Shows the progress, on a terminal only.
    void progress(std::uint64_t done, std::uint64_t of);
    void progress(std::uint64_t done) { progress(done, rounds); }
    // Reports a violation; the program then exits with 1. Only the first few are shown.
    void violated(const std::string &what);
    // Sets the last line, without "and ... violations".
    void checked(std::string what) { checked_ = std::move(what); }

    std::uint64_t violations() const { return violations_; }
    const std::string &summary() const { return checked_; }

  private:
    std::uint64_t violations_ = 0;
    std::string checked_;
    bool on_a_line_ = false; // the cursor is on a line of progress
};

struct Claim {
    const char *name;
    const char *says; // for --help
    std::uint64_t rounds;
    void (*check)(Stress &stress);
};

extern const Claim truncation;
extern const Claim corruption;
extern const Claim failed_loads;
extern const Claim cache_kill;
extern const Claim allocation;
extern const Claim io_errors;
extern const Claim policy_flips;
extern const Claim forks;

} // namespace opdock::stress
