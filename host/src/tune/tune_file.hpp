// Tune files as written: the configs of an op's kernels that are worth trying, and those to use. docs/tuning.md has the
// grammar; names are resolved later, when the implementations are known (implementation_tuning.hpp).
//
// FlagGems' tune_configs.yaml can be read too (flaggems.hpp) and is converted to the same structures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opdock::core {

struct TunePlace {
    size_t line = 0; // from 1
    size_t column = 0;
};

// A fault in an entry, which is then left out.
struct TuneProblem {
    TunePlace place;
    std::string message;
};

struct PlacedText {
    std::string text;
    TunePlace place;
};

struct PlacedValue {
    int64_t value = 0;
    TunePlace place;
    // A knob's choice by name, which may be empty; `value` is meaningless then.
    std::optional<std::string> word;
};

// NAME: value
struct NamedValue {
    PlacedText name;
    PlacedValue value;
};
using NamedValues = std::vector<NamedValue>;

// Rounding of a value for a key.
struct Bucket {
    enum class Kind { exact, log2, multiple }; // as it is; rounded up to a power of two; rounded up to a multiple
    Kind kind = Kind::exact;
    int64_t step = 1; // for `multiple`

    int64_t of(int64_t value) const;
    std::string text() const; // "exact", "log2", "multiple of 64"
    bool operator==(const Bucket &) const = default;
};

struct TuneSection {
    TunePlace place;
    PlacedText op; // "*": every op with an implementation that has all knobs of the section
    // Scope of the section; an empty list: everything.
    std::vector<PlacedText> implementations; // impl_ids
    std::vector<PlacedText> architectures;   // patterns as in opdock_impl
    std::vector<PlacedText> devices;         // models, as opdock_device_properties.name
    std::vector<PlacedText> dtypes;          // tuples, as in opdock_impl: "bf16,f32"

    // Values of knobs that a config omits; knobs that the implementation lacks are ignored.
    NamedValues assumed;
    std::vector<NamedValues> configs;
    std::vector<std::pair<PlacedText, std::vector<PlacedValue>>> product;
    std::vector<PlacedText> where;
    std::vector<std::pair<PlacedText, PlacedText>> heuristics; // (knob, expression of variables and knobs)
    std::vector<std::pair<PlacedText, Bucket>> key;            // (variable, rounding)
    bool has_key = false;
    struct Pinned {
        TunePlace place;
        NamedValues key;
        NamedValues config;
    };
    std::vector<Pinned> pinned;

    bool is_for_every_op() const { return op.text == "*"; }
};

struct TuneFile {
    std::string name;                  // used in messages
    std::vector<TuneSection> sections; // in the order of the file
    std::vector<TuneProblem> problems;
};

inline constexpr std::string_view tune_schema = "opdock.tune/1";

// Limits of a file, so that even a malicious one is read, looked up and chosen from in well under 100 ms.
inline constexpr size_t most_sections = 1024;
// An expression counts once for each 512 bytes begun.
inline constexpr size_t most_expressions = 1024;
inline constexpr size_t most_knobs = 256; // given values by one config
// Configs of all sections; each counts once more for every 64 bytes of its section's `where`.
inline constexpr size_t most_configs = 65536;
inline constexpr size_t most_values = size_t{1} << 22; // of knobs, in the configs of all implementations of a plugin
// Number of problems that are reported.
inline constexpr size_t most_problems = 100;

// Adds a problem, unless there are too many already.
void add_problem(std::vector<TuneProblem> &problems, TuneProblem problem);
// did_you_mean, if another problem would still be reported.
std::string hint_for(const std::vector<TuneProblem> &problems, std::string_view word,
                     std::span<const std::string_view> known);

// Expressions in its where and heuristics, counted as for most_expressions.
size_t expressions_of(const TuneSection &section);

// Throws Error(OPDOCK_INVALID_TUNE_FILE), with line and column, for a text that is no tune file at all.
TuneFile parse_tune_file(std::string_view text, const std::string &name);
TuneFile read_tune_file(const std::string &path);

// "NAME:LINE:COLUMN: message"
std::string text_of(const TuneFile &file, const TuneProblem &problem);

// In opdock's own grammar, whatever it was read from.
std::string print_tune_file(const TuneFile &file);
// The same, to be read by others. Throws Error(OPDOCK_INVALID_TUNE_FILE) if it exceeds the limits of a tune file.
std::string print_readable_tune_file(const TuneFile &file);

// Sections of all files, with sections of the same scope joined: pinned entries of later files win.
// Throws Error if two files differ in anything but pinned entries.
TuneFile merge_tune_files(const std::vector<TuneFile> &files);

} // namespace opdock::core
