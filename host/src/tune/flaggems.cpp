#include "tune/flaggems.hpp"

#include <algorithm>
#include <array>

#include "tune/yaml_reader.hpp"

namespace opdock::core {
namespace {

using Type = YamlNode::Type;

// Limit on the values that the lists of one file generate. Intermediate configs count too, and each
// value counts once more for every 64 bytes of its name and word.
constexpr size_t most_generated = 2 * most_configs;

// num_ldmatrixes exists only on Hygon.
constexpr std::array<std::pair<std::string_view, int64_t>, 4> assumed_values = {
    {{"num_stages", 2}, {"num_warps", 4}, {"num_ctas", 1}, {"num_ldmatrixes", 0}}};
constexpr std::array<std::string_view, 5> launch_options = {"num_warps", "num_stages", "num_ctas", "maxnreg",
                                                            "num_ldmatrixes"};

// False for options that Triton takes from outside of META, or from FlagGems' default if absent there.
bool counts_in_meta(std::string_view name) {
    return name != "num_warps" && name != "num_stages" && name != "num_ctas";
}

// The *_expand.yaml files name the values from which FlagGems builds a config; some of its kernels use other names.
struct ExpandedOp {
    std::string_view op;
    std::string_view begins; // prefix of knobs that META calls BLOCK_M or BLOCK_SIZE_M; empty: same names
    std::string_view extra;  // a knob besides META, unless META has it or `where` determines it
    std::vector<PlacedValue> values;
    std::string_view where;
};

const std::vector<ExpandedOp> &expanded_ops() {
    static const std::vector<ExpandedOp> ops = {
        {"bmm", "TILE_", "GROUP_M", {{1, {}, {}}, {2, {}, {}}}, "GROUP_M == (TILE_M == 32 ? 1 : 2)"},
        {"baddbmm", "TILE_", "GROUP_M", {{1, {}, {}}, {2, {}, {}}}, "GROUP_M == (TILE_M <= 32 ? 1 : 2)"},
        {"addmm", "BLOCK_SIZE_", {}, {}, {}},
        {"addmm_sqmma", "BLOCK_SIZE_", {}, {}, {}},
        {"bmm_sqmma", "BLOCK_SIZE_", {}, {}, {}},
        {"mm_nn", {}, "scenario", {{0, {}, ""}}, {}},
        {"mm_nt", {}, "scenario", {{0, {}, ""}}, {}},
        {"mm_general_tma", {}, "GROUP_M", {{8, {}, {}}}, {}},
        {"mm_sqmma", {}, "GROUP_M", {{8, {}, {}}}, {}},
        {"compute_global_topk_indices_and_lens", {}, {}, {}, "BLOCK * TPP <= 1024"},
    };
    return ops;
}

const ExpandedOp *expanded_op(std::string_view op) {
    const auto found =
        std::find_if(expanded_ops().begin(), expanded_ops().end(), [&](const ExpandedOp &one) { return one.op == op; });
    return found == expanded_ops().end() ? nullptr : &*found;
}

const YamlNode *field(const YamlNode &map, std::string_view name) {
    for (const auto &[key, value] : map.entries) {
        if (key.text == name) {
            return &value;
        }
    }
    return nullptr;
}

void set(NamedValues &config, const NamedValue &value) {
    const auto known =
        std::find_if(config.begin(), config.end(), [&](const auto &one) { return one.name.text == value.name.text; });
    if (known != config.end()) {
        *known = value;
    } else {
        config.push_back(value);
    }
}

class FlagGemsReader : YamlReader {
  public:
    explicit FlagGemsReader(TuneFile &file) : YamlReader(file.problems), file_(file) {}

    void read(const YamlNode &root) {
        if (root.entries.size() > most_sections) {
            complain(root, "more than " + std::to_string(most_sections) + " ops");
            return;
        }
        size_t count = 0; // configs of all ops
        for (const auto &[op, entries] : root.entries) {
            TuneSection section;
            section.place = place_of(op);
            section.op = text_of(op);
            for (const auto &[name, value] : assumed_values) {
                section.assumed.push_back({{std::string(name), place_of(op)}, {value, place_of(op), {}}});
            }
            if (!expect(entries, Type::sequence, "op " + quote(op.text) + " of a FlagGems file")) {
                continue;
            }
            if (is_expanded(entries)) {
                if (read_expanded(entries, section, most_configs - count)) {
                    count += count_of(section);
                    file_.sections.push_back(std::move(section));
                }
                continue;
            }
            for (const YamlNode &entry : entries.items) {
                if (generated_left_ == 0) {
                    break;
                }
                if (expect(entry, Type::map, "an entry of op " + quote(op.text))) {
                    std::vector<NamedValues> configs =
                        field(entry, "gen") != nullptr ? generated(entry) : explicit_config(entry);
                    if (configs.size() > most_configs - count) {
                        complain(entry, "here the file reaches more than " + std::to_string(most_configs) +
                                            " configs; the configs of this entry are left out");
                        break;
                    }
                    count += configs.size();
                    std::move(configs.begin(), configs.end(), std::back_inserter(section.configs));
                }
            }
            file_.sections.push_back(std::move(section));
        }
    }

  private:
    // True for an entry of an *_expand.yaml: one map with lists, and one with the strategy.
    static bool is_expanded(const YamlNode &entries) {
        return std::any_of(entries.items.begin(), entries.items.end(), [](const YamlNode &entry) {
            return field(entry, "strategy") != nullptr ||
                   (field(entry, "param_map") != nullptr && field(entry, "gen") == nullptr);
        });
    }

    // Number of a product's configs, counted as for a limit of tune_file.cpp.
    static size_t count_of(const TuneSection &section) {
        size_t count = 1 + section.where.size();
        for (const auto &[name, values] : section.product) {
            count *= values.size(); // bounded by most_configs, see add_product
        }
        return count;
    }

    // Returns false, after a complaint, if the op's entries yield nothing. Like FlagGems, uses the
    // last entry of each kind.
    bool read_expanded(const YamlNode &entries, TuneSection &section, size_t configs_left) const {
        const YamlNode *lists = nullptr;
        const YamlNode *strategy = nullptr;
        for (const YamlNode &entry : entries.items) {
            if (expect(entry, Type::map, "an entry of op " + quote(section.op.text))) {
                lists = field(entry, "param_map") != nullptr ? &entry : lists;
                strategy = field(entry, "strategy") != nullptr ? field(entry, "strategy") : strategy;
            }
        }
        if (lists == nullptr) {
            complain(entries, "op " + quote(section.op.text) + " has a strategy, but no entry with param_map");
            return false;
        }
        const YamlNode &map = *field(*lists, "param_map");
        const YamlNode *meta = map.type == Type::map ? field(map, "META") : nullptr;
        if (meta == nullptr || meta->type != Type::map) {
            complain(*lists, "param_map must be a map that contains META, a map");
            return false;
        }
        if (!is_narrow(map) || !is_narrow(*meta)) {
            return false;
        }
        const ExpandedOp *known = expanded_op(section.op.text);
        for (const auto &[name, source] : meta->entries) {
            PlacedText knob = text_of(name);
            if (known != nullptr && !known->begins.empty() && knob.text.starts_with("BLOCK_")) {
                knob.text.replace(0, knob.text.rfind('_') + 1, known->begins);
            }
            if (counts_in_meta(knob.text) && !add_product(*lists, std::move(knob), source, section)) {
                return false;
            }
        }
        for (const auto &[name, source] : map.entries) {
            if (name.text != "META" && !add_product(*lists, text_of(name), source, section)) {
                return false;
            }
        }
        if (known != nullptr) {
            complete(*known, section);
        }
        if (count_of(section) > configs_left) {
            complain(*lists, "here the file reaches more than " + std::to_string(most_configs) +
                                 " configs; the configs of this entry are left out");
            return false;
        }
        if (strategy != nullptr) {
            read_strategy(*strategy, section);
        }
        return true;
    }

    bool add_product(const YamlNode &entry, PlacedText knob, const YamlNode &source, TuneSection &section) const {
        YamlNode made;
        const YamlNode *list = list_of(entry, source, made);
        if (list == nullptr) {
            return false;
        }
        std::vector<PlacedValue> values;
        for (const YamlNode &item : list->items) {
            auto value = knob_value(item, quote(knob.text));
            if (!value) {
                return false;
            }
            values.push_back(std::move(*value));
        }
        if (values.empty() || count_of(section) * values.size() > most_configs) {
            complain(source, quote(knob.text) + (values.empty() ? " has no values, which leaves no config"
                                                                : ": here the lists give more than " +
                                                                      std::to_string(most_configs) + " configs"));
            return false;
        }
        section.product.emplace_back(std::move(knob), std::move(values));
        return true;
    }

    // Adds what FlagGems adds to the configs of ops that it knows.
    void complete(const ExpandedOp &known, TuneSection &section) const {
        if (!known.where.empty()) {
            section.where.push_back({std::string(known.where), section.place});
        }
        if (known.extra.empty()) {
            return;
        }
        const auto given = std::find_if(section.product.begin(), section.product.end(),
                                        [&](const auto &one) { return one.first.text == known.extra; });
        if (given != section.product.end() && known.where.empty()) {
            return;
        }
        std::vector<PlacedValue> values = known.values;
        for (PlacedValue &value : values) {
            value.place = section.place;
        }
        if (given != section.product.end()) {
            given->second = std::move(values);
        } else {
            section.product.emplace_back(PlacedText{std::string(known.extra), section.place}, std::move(values));
        }
    }

    // Turns the strategy into the key. Dtypes are always part of a key, and strides have no variables.
    void read_strategy(const YamlNode &node, TuneSection &section) const {
        if (!expect(node, Type::map, "strategy")) {
            return;
        }
        section.has_key = true;
        for (const auto &[name, value] : node.entries) {
            if (name.text == "dtype" || name.text.starts_with("stride_")) {
                continue;
            }
            if (value.text == "default") {
                section.key.emplace_back(text_of(name), Bucket{});
            } else if (value.text == "log") {
                section.key.emplace_back(text_of(name), Bucket{Bucket::Kind::log2, 1});
            } else if (value.text == "align32") {
                section.key.emplace_back(text_of(name), Bucket{Bucket::Kind::multiple, 32});
            } else {
                complain(value, quote(name.text) + ": expected default, align32 or log, found " +
                                    (value.type == Type::scalar ? quote(value.text) : kind_of(value)));
            }
        }
    }

    // Returns false, after a complaint, if it has more entries than a kernel may have knobs.
    bool is_narrow(const YamlNode &map) const {
        if (map.entries.size() <= most_knobs) {
            return true;
        }
        complain(map, "more than " + std::to_string(most_knobs) + " names");
        return false;
    }

    // Returns false after a complaint.
    bool take_meta(const YamlNode &meta, NamedValues &into) const {
        if (!expect(meta, Type::map, "META") || !is_narrow(meta)) {
            return false;
        }
        for (const auto &[name, value] : meta.entries) {
            auto given = knob_value(value, quote(name.text));
            if (!given) {
                return false;
            }
            if (counts_in_meta(name.text)) {
                set(into, {text_of(name), std::move(*given)});
            }
        }
        return true;
    }

    std::vector<NamedValues> explicit_config(const YamlNode &entry) const {
        NamedValues config;
        const YamlNode *meta = field(entry, "META");
        if (meta == nullptr) {
            complain(entry, "expected META, or gen with param_map");
            return {};
        }
        if (!take_meta(*meta, config)) {
            return {};
        }
        for (const auto &[name, value] : entry.entries) {
            if (std::find(launch_options.begin(), launch_options.end(), name.text) == launch_options.end()) {
                continue; // META, and fields that FlagGems does not read either
            }
            auto given = knob_value(value, quote(name.text));
            if (!given) {
                return {};
            }
            set(config, {text_of(name), std::move(*given)});
        }
        return {std::move(config)};
    }

    // The list of values for a source of param_map.
    const YamlNode *list_of(const YamlNode &entry, const YamlNode &source, YamlNode &made) const {
        if (source.type == Type::sequence) {
            return &source;
        }
        if (source.type != Type::scalar) {
            complain(source, "expected the name of a list, a list or one value");
            return nullptr;
        }
        if (!source.is_quoted && whole_number(source.text)) {
            made.type = Type::sequence;
            made.items = {source};
            return &made;
        }
        const YamlNode *list = field(entry, source.text);
        if (list == nullptr) {
            std::vector<std::string_view> known;
            for (size_t i = 0; i < std::min(entry.entries.size(), most_knobs); ++i) {
                known.push_back(entry.entries[i].key.text);
            }
            complain(source,
                     "there is no list " + quote(source.text) + " in this entry" + did_you_mean(source.text, known));
            return nullptr;
        }
        return expect(*list, Type::sequence, quote(source.text)) ? list : nullptr;
    }

    static size_t cost_of(const NamedValues &config) {
        constexpr size_t piece = 64; // bytes of text
        size_t cost = 0;
        for (const NamedValue &one : config) {
            cost += 1 + (one.name.text.size() + (one.value.word ? one.value.word->size() : 0)) / piece;
        }
        return cost;
    }

    // Combines each config so far with each value of the list.
    template<class Take>
    bool multiply(std::vector<NamedValues> &configs, const YamlNode &list, const YamlNode &at, Take take) {
        if (!list.items.empty() && configs.size() > most_configs / list.items.size()) {
            complain(at, "the lists give more than " + std::to_string(most_configs) + " configs");
            return false;
        }
        std::vector<NamedValues> longer;
        for (const NamedValues &config : configs) {
            for (const YamlNode &item : list.items) {
                longer.push_back(config);
                if (!take(item, longer.back())) {
                    return false;
                }
                const size_t cost = cost_of(longer.back());
                if (cost > generated_left_) {
                    generated_left_ = 0;
                    complain(at,
                             "here the lists of the file reach more than " + std::to_string(most_generated) +
                                 " values, each counted once more for every 64 bytes of text; the rest is left out");
                    return false;
                }
                generated_left_ -= cost;
            }
        }
        configs = std::move(longer);
        return true;
    }

    bool multiply_by(std::vector<NamedValues> &configs, const YamlNode &entry, const YamlNode &name,
                     const YamlNode &source, bool counts = true) {
        YamlNode made;
        const YamlNode *list = list_of(entry, source, made);
        return list != nullptr && multiply(configs, *list, name, [&](const YamlNode &item, NamedValues &config) {
                   auto given = knob_value(item, quote(name.text));
                   if (given && counts) {
                       set(config, {text_of(name), *given});
                   }
                   return given.has_value();
               });
    }

    std::vector<NamedValues> generated(const YamlNode &entry) {
        const YamlNode *map = field(entry, "param_map");
        const YamlNode *meta = map != nullptr && map->type == Type::map ? field(*map, "META") : nullptr;
        if (meta == nullptr) {
            complain(entry, "gen needs param_map, a map that contains META");
            return {};
        }
        if (!is_narrow(*map) || (meta->type == Type::map && !is_narrow(*meta))) {
            return {};
        }
        std::vector<NamedValues> configs(1);
        if (meta->type == Type::map) {
            for (const auto &[name, source] : meta->entries) {
                if (!multiply_by(configs, entry, name, source, counts_in_meta(name.text))) {
                    return {};
                }
            }
        } else {
            YamlNode made;
            const YamlNode *list = list_of(entry, *meta, made);
            if (list == nullptr || !multiply(configs, *list, *meta, [&](const YamlNode &item, NamedValues &config) {
                    return take_meta(item, config);
                })) {
                return {};
            }
        }
        for (const auto &[name, source] : map->entries) {
            if (name.text != "META" && !multiply_by(configs, entry, name, source)) {
                return {};
            }
        }
        return configs;
    }

    TuneFile &file_;
    size_t generated_left_ = most_generated;
};

} // namespace

void read_flaggems(const YamlNode &root, TuneFile &into) {
    FlagGemsReader(into).read(root);
}

} // namespace opdock::core
