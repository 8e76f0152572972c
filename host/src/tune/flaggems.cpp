#include "tune/flaggems.hpp"

#include <algorithm>
#include <array>

#include "tune/yaml_reader.hpp"

namespace opdock::core {
namespace {

using Type = YamlNode::Type;

constexpr std::array<std::pair<std::string_view, int64_t>, 3> assumed = {
    {{"num_stages", 2}, {"num_warps", 4}, {"num_ctas", 1}}};
constexpr std::array<std::string_view, 4> launch_options = {"num_warps", "num_stages", "num_ctas", "maxnreg"};

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
        for (const auto &[op, entries] : root.entries) {
            TuneSection section;
            section.place = place_of(op);
            section.op = text_of(op);
            if (!expect(entries, Type::sequence, "op " + quote(op.text) + " of a FlagGems file")) {
                continue;
            }
            for (const YamlNode &entry : entries.items) {
                if (expect(entry, Type::map, "an entry of op " + quote(op.text))) {
                    std::vector<NamedValues> configs =
                        field(entry, "gen") != nullptr ? generated(entry) : explicit_config(entry);
                    if (section.configs.size() + configs.size() > most_configs) {
                        complain(entry, "op " + quote(op.text) + " comes to more than " + std::to_string(most_configs) +
                                            " configs");
                        break;
                    }
                    std::move(configs.begin(), configs.end(), std::back_inserter(section.configs));
                }
            }
            file_.sections.push_back(std::move(section));
        }
    }

  private:
    static NamedValues assumptions(const YamlNode &entry) {
        NamedValues config;
        for (const auto &[name, value] : assumed) {
            config.push_back({{std::string(name), place_of(entry)}, {value, place_of(entry)}, true});
        }
        return config;
    }

    // False after a complaint.
    bool take_meta(const YamlNode &meta, NamedValues &into) const {
        if (!expect(meta, Type::map, "META")) {
            return false;
        }
        for (const auto &[name, value] : meta.entries) {
            const auto number = whole(value, quote(name.text));
            if (!number) {
                return false;
            }
            set(into, {text_of(name), *number});
        }
        return true;
    }

    std::vector<NamedValues> explicit_config(const YamlNode &entry) const {
        NamedValues config = assumptions(entry);
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
            const auto number = whole(value, quote(name.text));
            if (!number) {
                return {};
            }
            set(config, {text_of(name), *number});
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
        if (!source.is_quoted && parse(source.text)) {
            made.type = Type::sequence;
            made.items = {source};
            return &made;
        }
        const YamlNode *list = field(entry, source.text);
        if (list == nullptr) {
            std::vector<std::string_view> known;
            for (const auto &[name, value] : entry.entries) {
                known.push_back(name.text);
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
        if (!list.items.empty() && configs.size() > most_configs / list.items.size()) {
            complain(at, "the lists come to more than " + std::to_string(most_configs) + " configs");
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
                   const auto number = whole(item, quote(name.text));
                   if (number) {
                       set(config, {text_of(name), *number});
                   }
                   return number.has_value();
               });
    }

    std::vector<NamedValues> generated(const YamlNode &entry) const {
        const YamlNode *map = field(entry, "param_map");
        const YamlNode *meta = map != nullptr && map->type == Type::map ? field(*map, "META") : nullptr;
        if (meta == nullptr) {
            complain(entry, "gen needs param_map, a map with META in it");
            return {};
        }
        std::vector<NamedValues> configs = {assumptions(entry)};
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
