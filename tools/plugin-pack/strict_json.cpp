#include "strict_json.hpp"

#include <algorithm>
#include <utility>

#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;
using Way = std::vector<std::string>; // keys and indices

// Finds the way to `wanted`, which is `value` or a part of it.
bool find_way(const json &value, const json *wanted, Way &way) {
    if (&value == wanted) {
        return true;
    }
    if (value.is_structured()) {
        for (const auto &[key, part] : value.items()) {
            way.push_back(key);
            if (find_way(part, wanted, way)) {
                return true;
            }
            way.pop_back();
        }
    }
    return false;
}

// Fails at the value at the end of a way. Values of a package do not store their places, as there may be 600,000: the
// place is searched in the text when a value is refused.
class Finder : public core::BoundedJson {
  public:
    Finder(std::string_view text, const std::string &name, const core::JsonLimits &limits, Way wanted,
           std::string message)
        : BoundedJson(text, name, OPDOCK_INVALID_ARGUMENT, limits), wanted_(std::move(wanted)),
          message_(std::move(message)) {}

  private:
    struct Level {
        bool is_list = false;
        size_t next = 0;  // index
        std::string step; // key or index of the last value
    };

    void take_key(const std::string &name) override {
        around_.resize(depth());
        around_.back().step = name;
    }
    void take_text(const std::string & /*text*/) override { take(false); }
    void take_object() override { take(false); }
    void take_other(const char * /*what*/) override { take(true); }

    // Opens a level for the members of the value; if it has none, the next value removes the level.
    void take(bool is_list) {
        around_.resize(depth());
        if (!around_.empty() && around_.back().is_list) {
            around_.back().step = std::to_string(around_.back().next++);
        }
        if (std::equal(around_.begin(), around_.end(), wanted_.begin(), wanted_.end(),
                       [](const Level &level, const std::string &step) { return level.step == step; })) {
            fail(message_);
        }
        around_.push_back({is_list, 0, {}});
    }

    const Way wanted_;
    const std::string message_;
    std::vector<Level> around_; // of the last value
};

std::string found_text(const json &value) {
    switch (value.type()) {
    case json::value_t::null:
        return "null";
    case json::value_t::boolean:
        return "a boolean";
    case json::value_t::string:
        return core::quote(value.get_ref<const std::string &>());
    case json::value_t::array:
        return value.empty() ? "an empty list" : "a list";
    case json::value_t::object:
        return "an object";
    default:
        return value.dump();
    }
}

} // namespace

JsonValue JsonValue::at(const char *field) const {
    if (!value_->is_object()) {
        refuse("an object");
    }
    const auto found = value_->find(field);
    if (found == value_->end()) {
        refuse("a field " + core::quote(field), "none");
    }
    return {&*found, whole_};
}

std::vector<JsonValue> JsonValue::items() const {
    if (!value_->is_array()) {
        refuse("a list");
    }
    std::vector<JsonValue> items;
    items.reserve(value_->size());
    for (const json &one : *value_) {
        items.push_back({&one, whole_});
    }
    return items;
}

std::string JsonValue::text() const {
    if (!value_->is_string()) {
        refuse("a text");
    }
    return value_->get<std::string>();
}

std::string JsonValue::text(bool (*is_good)(const std::string &), const char *expected) const {
    std::string value = text();
    if (!is_good(value)) {
        refuse(expected);
    }
    return value;
}

uint64_t JsonValue::number(uint64_t least, uint64_t most) const {
    const uint64_t value = value_->is_number_unsigned() ? value_->get<uint64_t>() : 0;
    if (!value_->is_number_unsigned() || value < least || value > most) {
        refuse("an integer from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
}

void JsonValue::refuse(const std::string &expected, const std::string &found) const {
    whole_->refuse(value_, "expected " + expected + ", found " + (found.empty() ? found_text(*value_) : found));
}

JsonText::JsonText(std::string_view text, std::string name, const core::JsonLimits &limits)
    : text_(text), name_(std::move(name)), limits_(limits) {
    core::BoundedJson(text_, name_, OPDOCK_INVALID_ARGUMENT, limits_).read();
    root_ = json::parse(text_);
}

void JsonText::refuse(const json *value, const std::string &message) const {
    Way way;
    find_way(root_, value, way);
    std::string pointer;
    for (const std::string &step : way) {
        pointer += "/" + step; // no key that plugin-pack reads has a character to escape
    }
    const std::string whole = pointer.empty() ? message : pointer + ": " + message;
    Finder(text_, name_, limits_, std::move(way), whole).read();
    throw core::Error(OPDOCK_INVALID_ARGUMENT, name_ + ": " + whole);
}

} // namespace opdock::plugin_pack
