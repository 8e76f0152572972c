// Taking values out of a YAML tree: what is not as expected becomes a problem with its place, and that entry is left
// out.
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/bounded_yaml.hpp"
#include "text/spelling.hpp"
#include "tune/tune_file.hpp"

namespace opdock::core {

inline TunePlace place_of(const YamlNode &node) {
    return {node.line, node.column};
}

inline PlacedText text_of(const YamlNode &node) {
    return {node.text, place_of(node)};
}

inline const char *kind_of(const YamlNode &node) {
    switch (node.type) {
    case YamlNode::Type::map:
        return "a map";
    case YamlNode::Type::sequence:
        return "a list";
    case YamlNode::Type::scalar:
        return "a value";
    default:
        return "nothing";
    }
}

class YamlReader {
  public:
    explicit YamlReader(std::vector<TuneProblem> &problems) : problems_(problems) {}

    void complain(const YamlNode &at, std::string message) const {
        problems_.push_back({place_of(at), std::move(message)});
    }

    // False, after a complaint, unless it is of that type.
    bool expect(const YamlNode &node, YamlNode::Type type, const std::string &what) const {
        if (node.type == type) {
            return true;
        }
        YamlNode wanted;
        wanted.type = type;
        complain(node, what + ": expected " + kind_of(wanted) + ", found " + kind_of(node));
        return false;
    }

    // An integer, true or false.
    std::optional<PlacedValue> whole(const YamlNode &node, const std::string &what) const {
        if (node.type == YamlNode::Type::scalar && !node.is_quoted) {
            if (const std::optional<int64_t> value = parse(node.text)) {
                return PlacedValue{*value, place_of(node)};
            }
        }
        complain(node, what + ": expected an integer, true or false, found " +
                           (node.type == YamlNode::Type::scalar ? quote(node.text) : kind_of(node)));
        return {};
    }

    static std::optional<int64_t> parse(std::string_view text) {
        if (same_name(text, "true") || same_name(text, "false")) {
            return same_name(text, "true") ? 1 : 0;
        }
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                         : std::nullopt;
    }

  private:
    std::vector<TuneProblem> &problems_;
};

} // namespace opdock::core
