// A tune file: for each op a list of configs, each a map from knobs to numbers. Hosts do not use tune files yet; this
// reads the text as they would, within the limits that hold for all YAML.
#include <charconv>
#include <cstdint>
#include <set>
#include <string>

#include "bounded_yaml.hpp"
#include "error.hpp"
#include "message_place.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

using Type = YamlNode::Type;

// What bounded_yaml.hpp promises of every tree.
class Walk {
  public:
    explicit Walk(std::string_view text)
        : lines_(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1) {}

    void node(const YamlNode &node, std::size_t depth) {
        require(++nodes_ <= most_yaml_nodes, "a tree has no more values than are allowed");
        require(node.line >= 1 && node.line <= lines_ && node.column >= 1, "a value has a place in the text");
        require(node.type == Type::scalar || node.text.empty(), "only scalars have text");
        require(node.type == Type::sequence || node.items.empty(), "only sequences have items");
        require(node.type == Type::map || node.entries.empty(), "only maps have entries");
        if (node.type == Type::sequence || node.type == Type::map) {
            require(depth < most_yaml_depth, "a tree is no deeper than is allowed");
        }
        for (const YamlNode &item : node.items) {
            this->node(item, depth + 1);
        }
        std::set<std::string> keys;
        for (const auto &[key, value] : node.entries) {
            require(key.type == Type::scalar, "a key is a scalar");
            require(keys.insert(key.text).second, "a key is there once");
            this->node(key, depth + 1);
            this->node(value, depth + 1);
        }
    }

  private:
    std::size_t lines_;
    std::size_t nodes_ = 0;
};

// How many configs a tune file has.
std::size_t count_configs(const YamlNode &root) {
    std::size_t configs = 0;
    for (const auto &[op, list] : root.entries) {
        for (const YamlNode &config : list.items) {
            bool numbers = config.type == Type::map;
            for (const auto &[knob, value] : config.entries) {
                std::int64_t number = 0;
                const char *end = value.text.data() + value.text.size();
                const auto [stop, error] = std::from_chars(value.text.data(), end, number);
                numbers = numbers && error == std::errc() && stop == end;
            }
            configs += numbers ? 1 : 0;
        }
    }
    return configs;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = opdock::fuzz::text_of(data, size);
    const std::string name = "acme.tune.yaml";
    try {
        const YamlNode root = parse_bounded_yaml(text, name, OPDOCK_LOAD_FAILED);
        Walk(text).node(root, 0);
        require(count_configs(root) <= most_yaml_nodes, "a file has no more configs than values");
    } catch (const Error &error) {
        require(error.status() == OPDOCK_LOAD_FAILED, "an error has the status that was asked for");
        opdock::fuzz::check_place(error.what(), name, text);
    }
    return 0;
}
