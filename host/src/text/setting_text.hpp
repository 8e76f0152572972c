// How the values of settings are spelled, wherever they come from: switches and lists. Every error names the place.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/opdock.h"
#include "text/error.hpp"

namespace opdock::core {

// Where a value was written: an environment variable or a setting of the program (line 0), or a file with the line and
// column of the value's first character, both counted from 1.
struct Place {
    std::string name;
    std::size_t line = 0;
    std::size_t column = 1;

    // "PLUGIN_PREFER" or "/etc/opdock/policy.yaml:3:9": what an item's source says.
    std::string text() const;
    // The same with the position of one character of the value: "PLUGIN_PER_OP, column 14".
    std::string at(std::size_t offset) const;
};

// Throws Error(OPDOCK_INVALID_POLICY) that starts with place.at(offset).
[[noreturn]] void reject(const Place &place, std::size_t offset, const std::string &message);

// Reads values one after the other and keeps what is wrong with each, so that all of it is told at once. A read may
// raise faults of its own: 20 lines are kept in all, and after them "and more".
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

    // Throws Error(OPDOCK_INVALID_POLICY), a line for each fault, when there were any.
    void raise() const;

  private:
    void add(std::string_view text);

    std::string text_;
    std::size_t count_ = 0;
};

// One entry of a list, without the white space around it, and where it starts in the value.
struct Piece {
    std::string_view text;
    std::size_t offset;
};

// Splits at every one of `separators`. A value of white space only is an empty list; an empty entry beside others is
// kept, for the caller to reject; a ',' or ';' at the end begins no entry.
std::vector<Piece> split(std::string_view value, std::string_view separators);

// 1/0, true/false, yes/no, on/off, in any case.
bool parse_switch(std::string_view value, const Place &place);

// A time in seconds, above 0 and up to a day: "0.5", "500ms", "2m".
double parse_seconds(std::string_view value, const Place &place);

// The same, or 0 for "off" and "0".
double parse_pause(std::string_view value, const Place &place);

// "acme,beta", folded; empty means an empty list. A name given twice counts once.
std::vector<std::string> parse_vendors(std::string_view value, const Place &place);

// One name of a vendor, folded. `offset` is where it starts in the value at `place`.
std::string parse_vendor(std::string_view name, const Place &place, std::size_t offset = 0);

} // namespace opdock::core
