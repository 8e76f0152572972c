// JSON that came with a package or lies among installed ones: read within limits, and value by value, each of which is
// refused with its place where it is not what is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/bounded_json.hpp"

namespace opdock::plugin_pack {

class JsonText;

// A value of a JsonText, for as long as that lives. What throws, throws core::Error with a message
// "NAME:LINE:COLUMN: /way/to/it: expected ..., found ...", where the way is a JSON pointer (RFC 6901), and the column
// that at which the value is known: of a text or a number its end, of an object or a list its beginning.
class JsonValue {
  public:
    bool is_null() const { return value_->is_null(); }
    bool is_text() const { return value_->is_string(); }
    bool has(const char *field) const { return value_->contains(field); } // false of what is no object

    // A field of an object; it has to be there.
    JsonValue at(const char *field) const;
    // Of a list.
    std::vector<JsonValue> items() const;
    std::string text() const;
    // `expected` says what `is_good` is true of.
    std::string text(bool (*is_good)(const std::string &), const char *expected) const;
    uint64_t number(uint64_t least, uint64_t most) const;

    // `found` is what it is; without, what JSON says of it.
    [[noreturn]] void refuse(const std::string &expected, const std::string &found = {}) const;

  private:
    friend class JsonText;
    JsonValue(const nlohmann::json *value, const JsonText *whole) : value_(value), whole_(whole) {}

    const nlohmann::json *value_;
    const JsonText *whole_;
};

class JsonText {
  public:
    // `text` lives as long as this. Throws core::Error whose message begins with NAME:LINE:COLUMN when it is no JSON,
    // has a key twice or is beyond the limits.
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
