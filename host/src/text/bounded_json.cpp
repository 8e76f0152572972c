#include "text/bounded_json.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// nlohmann's events carry no positions: this iterator counts the characters that it has returned.
class Counting {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char *;
    using reference = char;

    Counting(const char *at, std::size_t *count) : at_(at), count_(count) {}

    char operator*() const { return *at_; }
    Counting &operator++() {
        ++at_;
        ++*count_;
        return *this;
    }
    bool operator==(const Counting &other) const { return at_ == other.at_; }

  private:
    const char *at_;
    std::size_t *count_;
};

} // namespace

BoundedJson::BoundedJson(std::string_view text, std::string name, opdock_status status, const JsonLimits &limits)
    : text_(text), name_(std::move(name)), status_(status), limits_(limits) {}

void BoundedJson::read() {
    if (text_.starts_with("\xef\xbb\xbf")) { // nlohmann would skip it
        fail(1, "this is not JSON: unexpected byte order mark; save it as UTF-8 without one");
    }
    const char *const begin = text_.data();
    nlohmann::json::sax_parse(Counting(begin, &consumed_), Counting(begin + text_.size(), &consumed_), this);
}

bool BoundedJson::null() {
    return other("null");
}
bool BoundedJson::boolean(bool /*value*/) {
    return other("a switch");
}
bool BoundedJson::number_integer(number_integer_t /*value*/) {
    return other("a number");
}
bool BoundedJson::number_unsigned(number_unsigned_t /*value*/) {
    return other("a number");
}
bool BoundedJson::number_float(number_float_t /*value*/, const string_t & /*text*/) {
    return other("a number");
}
bool BoundedJson::binary(binary_t & /*value*/) {
    return other("binary data");
}
bool BoundedJson::string(string_t &value) {
    count();
    take_text(value);
    return true;
}
bool BoundedJson::start_object(std::size_t /*size*/) {
    count();
    take_object();
    return nest();
}
bool BoundedJson::start_array(std::size_t /*size*/) {
    other("a list");
    return nest();
}
bool BoundedJson::end_object() {
    return leave();
}
bool BoundedJson::end_array() {
    return leave();
}

bool BoundedJson::key(string_t &name) {
    if (!keys_.back().insert(name).second) {
        fail("field " + quote(name) + " is given twice; keep one");
    }
    take_key(name);
    return true;
}

bool BoundedJson::parse_error(std::size_t offset, const std::string & /*token*/,
                              const nlohmann::json::exception & /*error*/) {
    const bool ended = offset == 0 || offset > text_.size();
    fail(offset, "this is not JSON: unexpected " + (ended ? "end of the file" : quote(text_.substr(offset - 1, 1))));
}

void BoundedJson::count() {
    if (++values_ > limits_.values) {
        fail("more than " + std::to_string(limits_.values) + " values");
    }
}

bool BoundedJson::other(const char *what) {
    count();
    take_other(what);
    return true;
}

bool BoundedJson::nest() {
    if (keys_.size() == limits_.depth) {
        fail("nested deeper than " + std::to_string(limits_.depth) + " levels");
    }
    keys_.emplace_back();
    return true;
}

bool BoundedJson::leave() {
    keys_.pop_back();
    return true;
}

// `consumed`: number of characters read at the event; the position is that of the last one.
std::string BoundedJson::position(std::size_t consumed) const {
    const std::string_view before = text_.substr(0, consumed == 0 ? 0 : std::min(consumed, text_.size()) - 1);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1; // npos + 1 is 0
    return name_ + ":" + std::to_string(line) + ":" + std::to_string(column);
}

void BoundedJson::fail(std::size_t consumed, const std::string &message) const {
    throw Error(status_, position(consumed) + ": " + message);
}

} // namespace opdock::core
