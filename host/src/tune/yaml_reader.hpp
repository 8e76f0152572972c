// Reads values from a YAML tree: an unexpected one becomes a problem with its place, and that entry is
// left out.
#pragma once

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
        add_problem(problems_, {place_of(at), std::move(message)});
    }

    // Returns false, after a complaint, for another type.
    bool expect(const YamlNode &node, YamlNode::Type type, const std::string &what) const {
        if (node.type == type) {
            return true;
        }
        YamlNode wanted;
        wanted.type = type;
        complain(node, what + ": expected " + kind_of(wanted) + ", found " + kind_of(node));
        return false;
    }

    // Reads an integer, true or false.
    std::optional<PlacedValue> whole(const YamlNode &node, const std::string &what) const {
        if (node.type == YamlNode::Type::scalar && !node.is_quoted) {
            if (const std::optional<int64_t> value = whole_number(node.text)) {
                return PlacedValue{*value, place_of(node), {}};
            }
        }
        complain(node, what + ": expected an integer, true or false, found " +
                           (node.type == YamlNode::Type::scalar ? quote(node.text) : kind_of(node)));
        return {};
    }

    // Reads the value of a knob: such a number, or the name of a choice, which may be empty: "".
    std::optional<PlacedValue> knob_value(const YamlNode &node, const std::string &what) const {
        if (node.type == YamlNode::Type::scalar &&
            (node.is_quoted || (!node.text.empty() && !whole_number(node.text)))) {
            return PlacedValue{0, place_of(node), node.text};
        }
        return whole(node, what);
    }

  private:
    std::vector<TuneProblem> &problems_;
};

} // namespace opdock::core
