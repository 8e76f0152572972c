// Which calls share a config: the variables that a section's key names, each bucketed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tune/tune_file.hpp"
#include "tune/variables.hpp"

namespace opdock::core {

// What tells one call from another for tuning: "n=4096 rows=1024". Empty for a key without variables.
class TuneKey {
  public:
    // All dims, each rounded up to a power of two, and which optional tensors are there.
    explicit TuneKey(const TuneVariables &variables);
    // Adds a problem for each name that is no variable, and leaves it out.
    TuneKey(const TuneSection &section, const TuneVariables &variables, std::vector<TuneProblem> &problems);

    std::string of(const TuneVariables &variables, std::span<const double> values) const;
    // The key that an entry of `pinned` spells; nothing, with a problem, unless it names each variable once.
    std::optional<std::string> of(const TuneVariables &variables, const TuneSection::Pinned &pinned,
                                  std::vector<TuneProblem> &problems) const;
    // "n: exact, rows: log2"
    std::string text(const TuneVariables &variables) const;
    // The variables and their buckets, for a section that stands alone.
    std::vector<std::pair<PlacedText, Bucket>> spelled(const TuneVariables &variables) const;

  private:
    struct Part {
        size_t variable;
        Bucket bucket;
    };
    std::vector<Part> parts_;
};

} // namespace opdock::core
