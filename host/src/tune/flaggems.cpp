#include "tune/flaggems.hpp"

#include <algorithm>
#include <array>

#include "tune/yaml_reader.hpp"

namespace opdock::core {
namespace {

using Type = YamlNode::Type;

constexpr size_t most_values = 4 * most_configs; // of what one entry generates

// num_ldmatrixes is Hygon's alone.
constexpr std::array<std::pair<std::string_view, int64_t>, 4> assumed_values = {
    {{"num_stages", 2}, {"num_warps", 4}, {"num_ctas", 1}, {"num_ldmatrixes", 0}}};
constexpr std::array<std::string_view, 5> launch_options = {"num_warps", "num_stages", "num_ctas", "maxnreg",
                                                            "num_ldmatrixes"};

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

class Reader : YamlReader {
  public:
    explicit Reader(TuneFile &file) : YamlReader(file.problems), file_(file) {}

    void read(const YamlNode &root) {
        if (root.entries.size() > most_sections) {
            complain(root, "more than " + std::to_string(most_sections) + " ops");
            return;
        }
        size_t count = 0; // configs, of all ops
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
            for (const YamlNode &entry : entries.items) {
                if (expect(entry, Type::map, "an entry of op " + quote(op.text))) {
                    std::vector<NamedValues> configs =
                        field(entry, "gen") != nullptr ? generated(entry) : explicit_config(entry);
                    if (configs.size() > most_configs - count) {
                        complain(entry, "here the file comes to more than " + std::to_string(most_configs) +
                                            " configs; those of this entry are left out");
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
    // False after a complaint, unless it has as few entries as a kernel may have knobs.
    bool is_narrow(const YamlNode &map) const {
        if (map.entries.size() <= most_knobs) {
            return true;
        }
        complain(map, "more than " + std::to_string(most_knobs) + " names");
        return false;
    }

    // False after a complaint.
    bool take_meta(const YamlNode &meta, NamedValues &into) const {
        if (!expect(meta, Type::map, "META") || !is_narrow(meta)) {
            return false;
        }
        for (const auto &[name, value] : meta.entries) {
            auto given = knob_value(value, quote(name.text));
            if (!given) {
                return false;
            }
            set(into, {text_of(name), std::move(*given)});
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
                continue; // META, and what FlagGems does not read either
            }
            auto given = knob_value(value, quote(name.text));
            if (!given) {
                return {};
            }
            set(config, {text_of(name), std::move(*given)});
        }
        return {std::move(config)};
    }

    // The values that a source of param_map stands for.
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

    // Each config so far with each value of the list.
    template<class Take>
    bool multiply(std::vector<NamedValues> &configs, const YamlNode &list, const YamlNode &at, Take take) const {
        const size_t width = configs.empty() ? 1 : configs.front().size() + 1;
        if (!list.items.empty() && (configs.size() > most_configs / list.items.size() ||
                                    configs.size() * list.items.size() * width > most_values)) {
            complain(at, "the lists come to more than " + std::to_string(most_configs) + " configs, or " +
                             std::to_string(most_values) + " values in them");
            return false;
        }
        std::vector<NamedValues> longer;
        for (const NamedValues &config : configs) {
            for (const YamlNode &item : list.items) {
                longer.push_back(config);
                if (!take(item, longer.back())) {
                    return false;
                }
            }
        }
        configs = std::move(longer);
        return true;
    }

    bool multiply_by(std::vector<NamedValues> &configs, const YamlNode &entry, const YamlNode &name,
                     const YamlNode &source) const {
        YamlNode made;
        const YamlNode *list = list_of(entry, source, made);
        return list != nullptr && multiply(configs, *list, name, [&](const YamlNode &item, NamedValues &config) {
                   auto given = knob_value(item, quote(name.text));
                   if (given) {
                       set(config, {text_of(name), *given});
                   }
                   return given.has_value();
               });
    }

    std::vector<NamedValues> generated(const YamlNode &entry) const {
        const YamlNode *map = field(entry, "param_map");
        const YamlNode *meta = map != nullptr && map->type == Type::map ? field(*map, "META") : nullptr;
        if (meta == nullptr) {
            complain(entry, "gen needs param_map, a map with META in it");
            return {};
        }
        if (!is_narrow(*map) || (meta->type == Type::map && !is_narrow(*meta))) {
            return {};
        }
        std::vector<NamedValues> configs(1);
        if (meta->type == Type::map) {
            for (const auto &[name, source] : meta->entries) {
                if (!multiply_by(configs, entry, name, source)) {
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
};

} // namespace

void read_flaggems(const YamlNode &root, TuneFile &into) {
    Reader(into).read(root);
}

} // namespace opdock::core
