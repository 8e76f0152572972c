// Syntax of settings' values, from all sources: switches and lists. Every error names the place.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/opdock.h"
#include "text/error.hpp"

namespace opdock::core {

// The place of a value: an environment variable or a setting of the program (line 0), or a file with the line and
// column of the value's first character, both counted from 1.
struct Place {
    std::string name;
    std::size_t line = 0;
    std::size_t column = 1;

    // "PLUGIN_PREFER" or "/etc/opdock/policy.yaml:3:9": the source of an item.
    std::string text() const;
    // The same with the position of a character within the value: "PLUGIN_PER_OP, column 14".
    std::string at(std::size_t offset) const;
};

// Throws Error(OPDOCK_INVALID_POLICY); the message starts with place.at(offset).
[[noreturn]] void reject(const Place &place, std::size_t offset, const std::string &message);

// Reads values in sequence and collects the errors, so that all are reported together. A read may raise Faults of its
// own: 20 lines are kept in total, followed by "and more".
class Faults {
  public:
    template<class Read>
    void attempt(Read read) {
        try {
            read();
        } catch (const Error &error) {
            add(error.what());
        }
    }

    // Throws Error(OPDOCK_INVALID_POLICY) with a line for each fault, if there were any.
    void raise() const;

  private:
    void add(std::string_view text);

    std::string text_;
    std::size_t count_ = 0;
};

// An entry of a list, without surrounding white space, and its offset in the value.
struct Piece {
    std::string_view text;
    std::size_t offset;
};

// Splits at each of `separators`. A value of only white space is an empty list; an empty entry beside others is kept,
// so that the caller can reject it; a trailing ',' or ';' adds no entry.
std::vector<Piece> split(std::string_view value, std::string_view separators);

// 1/0, true/false, yes/no, on/off, case-insensitive.
bool parse_switch(std::string_view value, const Place &place);

// A time in seconds, above 0 and up to a day: "0.5", "500ms", "2m".
double parse_seconds(std::string_view value, const Place &place);

// Like parse_seconds, or 0 for "off" and "0".
double parse_pause(std::string_view value, const Place &place);

// "acme,beta", folded; an empty value is an empty list. Duplicates are removed.
std::vector<std::string> parse_vendors(std::string_view value, const Place &place);

// One vendor name, folded. `offset` is where it starts in the value at `place`.
std::string parse_vendor(std::string_view name, const Place &place, std::size_t offset = 0);

} // namespace opdock::core
