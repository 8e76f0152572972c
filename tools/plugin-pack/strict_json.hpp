// JSON from a package or from installed files. It is parsed within limits, and read value by value; a value of an
// unexpected form is refused with its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/bounded_json.hpp"

namespace opdock::plugin_pack {

class JsonText;

// A value of a JsonText, which must outlive it. Exceptions are core::Error with a message "NAME:LINE:COLUMN:
// /way/to/it: expected ..., found ...", where the way is a JSON pointer (RFC 6901), and the column is the one at which
// the value is known: the end of a text or a number, the beginning of an object or a list.
class JsonValue {
  public:
    bool is_null() const { return value_->is_null(); }
    bool is_text() const { return value_->is_string(); }
    bool has(const char *field) const { return value_->contains(field); } // false for non-objects

    // A field of an object; it must exist.
    JsonValue at(const char *field) const;
    // The elements of a list.
    std::vector<JsonValue> items() const;
    std::string text() const;
    // `expected` describes the texts for which `is_good` is true.
    std::string text(bool (*is_good)(const std::string &), const char *expected) const;
    uint64_t number(uint64_t least, uint64_t most) const;

    // `found` describes the value; by default its JSON.
    [[noreturn]] void refuse(const std::string &expected, const std::string &found = {}) const;

  private:
    friend class JsonText;
    JsonValue(const nlohmann::json *value, const JsonText *whole) : value_(value), whole_(whole) {}

    const nlohmann::json *value_;
    const JsonText *whole_;
};

class JsonText {
  public:
    // `text` must outlive this. Throws core::Error with a message that begins with NAME:LINE:COLUMN if it is not JSON,
    // has a key twice or exceeds the limits.
    JsonText(std::string_view text, std::string name, const core::JsonLimits &limits);
    JsonText(const JsonText &) = delete;
    JsonText &operator=(const JsonText &) = delete;

    JsonValue root() const { return {&root_, this}; }

  private:
    friend class JsonValue;
    [[noreturn]] void refuse(const nlohmann::json *value, const std::string &message) const;

    const std::string_view text_;
    const std::string name_;
    const core::JsonLimits limits_;
    nlohmann::json root_;
};

} // namespace opdock::plugin_pack
