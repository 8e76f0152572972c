#include "tune/tune_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <limits>

#include <spdlog/fmt/fmt.h>

#include "files/bounded_file.hpp"
#include "signature/other_names.hpp"
#include "text/bounded_yaml.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"
#include "tune/expression.hpp"
#include "tune/flaggems.hpp"
#include "tune/yaml_reader.hpp"

namespace opdock::core {
namespace {

using Type = YamlNode::Type;

constexpr std::array<std::string_view, 11> section_fields = {"impl",       "architectures", "devices", "dtypes",
                                                             "assume",     "configs",       "product", "where",
                                                             "heuristics", "key",           "pinned"};

class TuneFileReader : YamlReader {
  public:
    explicit TuneFileReader(TuneFile &file) : YamlReader(file.problems), file_(file) {}

    void read(const YamlNode &root) {
        static constexpr std::array<std::string_view, 2> fields = {"schema", "ops"};
        for (const auto &[name, value] : root.entries) {
            if (name.text == "ops") {
                read_ops(value);
            } else if (name.text != "schema") {
                complain(name, "unknown field " + quote(name.text) + did_you_mean(name.text, fields));
            }
        }
    }

  private:
    void read_ops(const YamlNode &ops) {
        if (ops.type == Type::null || !expect(ops, Type::map, "ops")) {
            return;
        }
        for (const auto &[op, value] : ops.entries) {
            if (value.type == Type::sequence) {
                for (const YamlNode &section : value.items) {
                    read_section(op, section);
                }
            } else {
                read_section(op, value);
            }
        }
    }

    void read_section(const YamlNode &op, const YamlNode &node) {
        if (!expect(node, Type::map, "op " + quote(op.text) + ", a section or a list of sections")) {
            return;
        }
        if (file_.sections.size() == most_sections) {
            throw Error(OPDOCK_INVALID_TUNE_FILE,
                        core::text_of(file_, {place_of(node), fmt::format("more than {} sections", most_sections)}));
        }
        TuneSection section;
        section.place = place_of(node);
        section.op = text_of(op);
        section.op.text = standard_name(section.op.text);
        for (const auto &[name, value] : node.entries) {
            if (name.text == "impl") {
                section.implementations = texts(value, "impl");
            } else if (name.text == "architectures") {
                section.architectures = texts(value, "architectures");
            } else if (name.text == "devices") {
                section.devices = texts(value, "devices");
            } else if (name.text == "dtypes") {
                section.dtypes = texts(value, "dtypes");
            } else if (name.text == "assume") {
                section.assumed = named_values(value, "assume", true).value_or(NamedValues{});
            } else if (name.text == "configs") {
                read_configs(value, section);
            } else if (name.text == "product") {
                read_product(value, section);
            } else if (name.text == "where") {
                section.where = texts(value, "where");
            } else if (name.text == "heuristics") {
                read_heuristics(value, section);
            } else if (name.text == "key") {
                read_key(value, section);
            } else if (name.text == "pinned") {
                read_pinned(value, section);
            } else {
                complain(name, "unknown field " + quote(name.text) + did_you_mean(name.text, section_fields));
            }
        }
        count_expressions(section, node);
        limit_configs(section);
        file_.sections.push_back(std::move(section));
    }

    void count_expressions(const TuneSection &section, const YamlNode &node) {
        expressions_ += expressions_of(section);
        if (expressions_ > most_expressions) {
            throw Error(
                OPDOCK_INVALID_TUNE_FILE,
                core::text_of(
                    file_,
                    {place_of(node),
                     fmt::format("more than {} expressions, each counted once for every 512 bytes or part of them",
                                 most_expressions)}));
        }
    }

    void limit_configs(TuneSection &section) {
        size_t count = section.product.empty() ? 0 : 1;
        for (const auto &[name, values] : section.product) {
            count *= values.size(); // bounded by most_configs, see read_product
        }
        size_t each = 1;
        for (const PlacedText &clause : section.where) {
            each += 1 + clause.text.size() / 64;
        }
        const size_t cost = (count + section.configs.size()) * each;
        if (cost > most_configs - configs_) {
            add_problem(
                file_.problems,
                {section.place, fmt::format("here the file reaches more than {} configs, each counted once more for "
                                            "every 64 bytes of where; the configs of this section are left out",
                                            most_configs)});
            section.configs.clear();
            section.product.clear();
            return;
        }
        configs_ += cost;
    }

    // A single text or a list of texts.
    std::vector<PlacedText> texts(const YamlNode &node, const std::string &what) const {
        std::vector<PlacedText> texts;
        if (node.type == Type::scalar) {
            texts.push_back(text_of(node));
        } else if (expect(node, Type::sequence, what + ", one text or a list")) {
            for (const YamlNode &item : node.items) {
                if (expect(item, Type::scalar, "an entry of " + what)) {
                    texts.push_back(text_of(item));
                }
            }
        }
        return texts;
    }

    // `words`: knob values, which may be words; else only integers.
    std::optional<NamedValues> named_values(const YamlNode &node, const std::string &what, bool words) const {
        if (!expect(node, Type::map, what)) {
            return {};
        }
        if (node.entries.size() > most_knobs) {
            complain(node, fmt::format("{} gives more than {} values", what, most_knobs));
            return {};
        }
        NamedValues values;
        for (const auto &[name, value] : node.entries) {
            auto given = words ? knob_value(value, quote(name.text)) : whole(value, quote(name.text));
            if (!given) {
                return {};
            }
            values.push_back({text_of(name), std::move(*given)});
        }
        return values;
    }

    void read_configs(const YamlNode &node, TuneSection &section) const {
        if (!expect(node, Type::sequence, "configs")) {
            return;
        }
        for (const YamlNode &item : node.items) {
            if (auto config = named_values(item, "a config", true)) {
                section.configs.push_back(std::move(*config));
            }
        }
    }

    void read_product(const YamlNode &node, TuneSection &section) const {
        if (!expect(node, Type::map, "product")) {
            return;
        }
        if (node.entries.size() > most_knobs) {
            complain(node, fmt::format("the product has more than {} knobs", most_knobs));
            return;
        }
        size_t count = 1;
        for (const auto &[name, list] : node.entries) {
            std::vector<PlacedValue> values;
            if (list.type == Type::scalar) {
                if (auto value = knob_value(list, quote(name.text))) {
                    values.push_back(std::move(*value));
                }
            } else if (expect(list, Type::sequence, quote(name.text) + ", one value or a list")) {
                for (const YamlNode &item : list.items) {
                    if (auto value = knob_value(item, quote(name.text))) {
                        values.push_back(std::move(*value));
                    }
                }
            }
            if (values.empty()) {
                complain(list, quote(name.text) + " has no values, which leaves no config");
                section.product.clear();
                return;
            }
            count *= values.size(); // both are small: a file has at most 20,000 values
            if (count > most_configs) {
                complain(name, "the product gives more than " + std::to_string(most_configs) + " configs");
                section.product.clear();
                return;
            }
            section.product.emplace_back(text_of(name), std::move(values));
        }
    }

    void read_heuristics(const YamlNode &node, TuneSection &section) const {
        if (!expect(node, Type::map, "heuristics")) {
            return;
        }
        for (const auto &[name, value] : node.entries) {
            if (expect(value, Type::scalar, "the expression of " + quote(name.text))) {
                section.heuristics.emplace_back(text_of(name), text_of(value));
            }
        }
    }

    void read_key(const YamlNode &node, TuneSection &section) const {
        if (!expect(node, Type::map, "key")) {
            return;
        }
        section.has_key = true;
        for (const auto &[name, value] : node.entries) {
            if (!expect(value, Type::scalar, "the bucket of " + quote(name.text) + " in the key")) {
                continue;
            }
            if (const std::optional<Bucket> bucket = parse_bucket(value.text)) {
                section.key.emplace_back(text_of(name), *bucket);
            } else {
                complain(value, "expected exact, log2 or multiple of N, found " + quote(value.text));
            }
        }
    }

    static std::optional<Bucket> parse_bucket(std::string_view text) {
        static constexpr std::string_view multiple = "multiple of ";
        if (text == "exact") {
            return Bucket{};
        }
        if (text == "log2") {
            return Bucket{Bucket::Kind::log2, 1};
        }
        if (text.starts_with(multiple)) {
            const std::optional<int64_t> step = whole_number(text.substr(multiple.size()));
            if (step && *step > 0 && *step <= int64_t{1} << 40) {
                return Bucket{Bucket::Kind::multiple, *step};
            }
        }
        return {};
    }

    void read_pinned(const YamlNode &node, TuneSection &section) const {
        static constexpr std::array<std::string_view, 2> fields = {"key", "config"};
        if (!expect(node, Type::sequence, "pinned")) {
            return;
        }
        for (const YamlNode &item : node.items) {
            if (!expect(item, Type::map, "a pinned entry")) {
                continue;
            }
            TuneSection::Pinned pinned;
            pinned.place = place_of(item);
            bool has[2] = {};
            bool good = true;
            for (const auto &[name, value] : item.entries) {
                const size_t which = name.text == "key" ? 0 : name.text == "config" ? 1 : 2;
                if (which == 2) {
                    complain(name, "unknown field " + quote(name.text) + did_you_mean(name.text, fields));
                    continue;
                }
                auto values = named_values(value, name.text, which == 1);
                good = good && values;
                has[which] = true;
                (which == 0 ? pinned.key : pinned.config) = values.value_or(NamedValues{});
            }
            if (!has[0] || !has[1]) {
                complain(item, "a pinned entry has a key and a config");
            } else if (good) {
                section.pinned.push_back(std::move(pinned));
            }
        }
    }

    TuneFile &file_;
    size_t expressions_ = 0;
    size_t configs_ = 0;
};

} // namespace

void add_problem(std::vector<TuneProblem> &problems, TuneProblem problem) {
    if (problems.size() == most_problems) {
        problem.message = "here, and perhaps further down, there are faults that are not listed";
    }
    if (problems.size() <= most_problems) {
        problems.push_back(std::move(problem));
    }
}

std::string hint_for(const std::vector<TuneProblem> &problems, std::string_view word,
                     std::span<const std::string_view> known) {
    return problems.size() < most_problems ? did_you_mean(word, known) : "";
}

int64_t Bucket::of(int64_t value) const {
    value = std::min(value, int64_t{1} << 53);
    if (value < 0) { // an attribute: -1 often means "none", which is no size
        return value;
    }
    switch (kind) {
    case Kind::log2:
        return value <= 1 ? value : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value)));
    case Kind::multiple:
        return (value + step - 1) / step * step;
    default:
        return value;
    }
}

std::string Bucket::text() const {
    return kind == Kind::exact ? "exact" : kind == Kind::log2 ? "log2" : "multiple of " + std::to_string(step);
}

size_t expressions_of(const TuneSection &section) {
    size_t count = 0;
    for (const PlacedText &clause : section.where) {
        count += TuneExpression::count_of(clause.text);
    }
    for (const auto &[knob, expression] : section.heuristics) {
        count += TuneExpression::count_of(expression.text);
    }
    return count;
}

TuneFile parse_tune_file(std::string_view text, const std::string &name) {
    TuneFile file;
    file.name = name;
    const YamlNode root = parse_bounded_yaml(text, name, OPDOCK_INVALID_TUNE_FILE);
    if (root.type == Type::null) {
        return file;
    }
    const auto fail = [&](const YamlNode &at, const std::string &message) {
        throw Error(OPDOCK_INVALID_TUNE_FILE, text_of(file, {place_of(at), message}));
    };
    if (root.type != Type::map) {
        fail(root, std::string("expected a map, found ") + kind_of(root));
    }
    const auto schema = std::find_if(root.entries.begin(), root.entries.end(),
                                     [](const YamlEntry &entry) { return entry.key.text == "schema"; });
    if (schema == root.entries.end()) {
        const bool lists = std::all_of(root.entries.begin(), root.entries.end(), [](const YamlEntry &entry) {
            return entry.value.type == Type::sequence || entry.value.type == Type::null;
        });
        if (!lists) {
            fail(root,
                 fmt::format("expected 'schema: {}', or a list of configs for each op as in FlagGems", tune_schema));
        }
        read_flaggems(root, file);
    } else if (schema->value.type != Type::scalar || schema->value.text != tune_schema) {
        fail(schema->value, fmt::format("expected schema {}, found {}", tune_schema, quote(schema->value.text)));
    } else {
        TuneFileReader(file).read(root);
    }
    return file;
}

TuneFile read_tune_file(const std::string &path) {
    return parse_tune_file(read_bounded_file(path, OPDOCK_INVALID_TUNE_FILE), path);
}

std::string text_of(const TuneFile &file, const TuneProblem &problem) {
    return fmt::format("{}:{}:{}: {}", file.name, problem.place.line, problem.place.column, problem.message);
}

} // namespace opdock::core
