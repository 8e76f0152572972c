// Defines which calls share a config: the variables that a section's key names, each bucketed.
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

// The key that distinguishes calls for tuning: "n=4096 rows=1024". Empty without variables.
class TuneKey {
  public:
    // All dims, each rounded up to a power of two, and the presence of optional tensors.
    explicit TuneKey(const TuneVariables &variables);
    // Adds a problem for each name that is no variable, and leaves that name out.
    TuneKey(const TuneSection &section, const TuneVariables &variables, std::vector<TuneProblem> &problems);

    std::string of(const TuneVariables &variables, std::span<const double> values) const;
    // The key of an entry of `pinned`; nothing, with a problem, unless it names each variable once.
    std::optional<std::string> of(const TuneVariables &variables, const TuneSection::Pinned &pinned,
                                  std::vector<TuneProblem> &problems) const;
    // "n: exact, rows: log2"
    std::string text(const TuneVariables &variables) const;
    // The variables and their buckets, spelled out for a section of its own.
    std::vector<std::pair<PlacedText, Bucket>> spelled(const TuneVariables &variables) const;

  private:
    struct Part {
        size_t variable;
        Bucket bucket;
    };
    std::vector<Part> parts_;
};

} // namespace opdock::core
