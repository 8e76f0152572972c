// A tune file, in opdock's or FlagGems' grammar: read, printed, and used for an implementation with two knobs.
#include <cstdint>
#include <set>
#include <string>

#include "message_place.hpp"
#include "text/bounded_yaml.hpp"
#include "text/error.hpp"
#include "tune/implementation_tuning.hpp"
#include "tune/tune_file.hpp"

using namespace opdock::core;
using opdock::fuzz::require;

namespace {

using Type = YamlNode::Type;

// Checks the guarantees of bounded_yaml.hpp for every tree.
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

// The plugin that the file belongs to.
struct Acme : Implementation {
    Acme() {
        form = std::make_shared<const Signature>(parse_signature(
            "norm(input: T[..., n], *, causal: bool = false) -> (output: T[..., n]) where T in f32|f16"));
        op = form->name;
        impl_id = "vendor.acme";
        knobs = {{"block", "", OPDOCK_KNOB_INT, 1, 1024, 64, {}},
                 {"stream", "", OPDOCK_KNOB_BOOL, 0, 1, 0, {}},
                 {"pipeline", "", OPDOCK_KNOB_CHOICE, 0, 1, 0, {"none", "cpasync"}}};
    }
};

void check_configs(const Acme &acme, const std::vector<TuneConfig> &configs) {
    require(configs.size() <= 2 * most_configs, "a section has no more configs than are allowed");
    for (const TuneConfig &config : configs) {
        require(parse_config(acme.knobs, config_text(acme.knobs, config)) == config, "configs are within their ranges");
    }
}

void use(const TuneFile &file) {
    static const Acme acme;
    std::size_t values_left = most_values;
    const ImplementationTuning tuning(acme, &file, values_left);
    std::vector<double> values(tuning.variables().names().size(), 4096);
    for (const ImplementationSection &section : tuning.sections()) {
        check_configs(acme, tuning.candidates(section, values));
        std::string why;
        if (const auto config = tuning.heuristic(section, values, &why)) {
            check_configs(acme, {*config});
        }
        for (const auto &[key, pinned] : section.pinned) {
            check_configs(acme, {pinned.config});
        }
    }
}

// Printed text reads back as the same file, or exceeds a limit: 33 brackets in a quoted name count as levels.
void check_printed(const TuneFile &file) {
    std::string printed;
    try {
        printed = print_readable_tune_file(file);
    } catch (const Error &error) {
        std::string_view reason = error.what();
        reason.remove_prefix(std::min(reason.find('('), reason.size())); // skips the names that merging adds
        const auto says = [&](const char *limit) { return reason.find(limit) != std::string_view::npos; };
        require(says("nested deeper") || says("longer than") || says("more than "),
                "what is printed is refused for nothing but a limit");
        return;
    }
    require(print_tune_file(parse_tune_file(printed, "printed")) == printed, "what is printed reads as the same");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = opdock::fuzz::text_of(data, size);
    const std::string name = "acme.tune.yaml";
    try {
        Walk(text).node(parse_bounded_yaml(text, name, OPDOCK_INVALID_TUNE_FILE), 0);
        const TuneFile file = parse_tune_file(text, name);
        use(file);
        check_printed(file);
    } catch (const Error &error) {
        require(error.status() == OPDOCK_INVALID_TUNE_FILE, "an error has the status that was asked for");
        opdock::fuzz::check_place(error.what(), name, text);
    }
    return 0;
}
