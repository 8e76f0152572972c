// JSON from untrusted files, read value by value within limits that bound time and memory for any text. No duplicate
// keys.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "opdock/opdock.h"

namespace opdock::core {

struct JsonLimits {
    std::size_t depth;
    std::size_t values;
};

// A derived class handles the values that it needs; the others are only checked for syntax.
class BoundedJson : public nlohmann::json_sax<nlohmann::json> {
  public:
    // `name`: the file's name, for messages.
    BoundedJson(std::string_view text, std::string name, opdock_status status, const JsonLimits &limits);

    // Throws Error(status); the message starts with NAME:LINE:COLUMN.
    void read();

    bool null() override;
    bool boolean(bool value) override;
    bool number_integer(number_integer_t value) override;
    bool number_unsigned(number_unsigned_t value) override;
    bool number_float(number_float_t value, const string_t &text) override;
    bool binary(binary_t &value) override;
    bool string(string_t &value) override;
    bool start_object(std::size_t size) override;
    bool start_array(std::size_t size) override;
    bool end_object() override;
    bool end_array() override;
    bool key(string_t &name) override;
    bool parse_error(std::size_t offset, const std::string &token, const nlohmann::json::exception &error) override;

  protected:
    virtual void take_key(const std::string & /*name*/) {}
    virtual void take_text(const std::string & /*text*/) {}
    virtual void take_object() {}
    // "null", "a number", "a list": any other value.
    virtual void take_other(const char * /*what*/) {}

    // Number of objects and lists that enclose the current value or key.
    std::size_t depth() const { return keys_.size(); }
    // NAME:LINE:COLUMN of the current value or key.
    std::string position() const { return position(consumed_); }
    [[noreturn]] void fail(const std::string &message) const { fail(consumed_, message); }

  private:
    void count();
    bool other(const char *what);
    bool nest();
    bool leave();
    std::string position(std::size_t consumed) const;
    [[noreturn]] void fail(std::size_t consumed, const std::string &message) const;

    std::string_view text_;
    const std::string name_;
    const opdock_status status_;
    const JsonLimits limits_;
    std::size_t consumed_ = 0;                // number of characters read
    std::size_t values_ = 0;                  // number of values read
    std::vector<std::set<std::string>> keys_; // keys of each open object; empty for a list
};

} // namespace opdock::core
