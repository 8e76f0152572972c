#include "tune/tune_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <limits>

#include <spdlog/fmt/fmt.h>

#include "files/bounded_file.hpp"
#include "text/bounded_yaml.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"
#include "tune/flaggems.hpp"
#include "tune/yaml_reader.hpp"

namespace opdock::core {
namespace {

using Type = YamlNode::Type;

constexpr std::array<std::string_view, 10> section_fields = {
    "impl", "architectures", "devices", "dtypes", "configs", "product", "where", "heuristics", "key", "pinned"};

class Reader : YamlReader {
  public:
    explicit Reader(TuneFile &file) : YamlReader(file.problems), file_(file) {}

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
        TuneSection section;
        section.place = place_of(node);
        section.op = text_of(op);
        for (const auto &[name, value] : node.entries) {
            if (name.text == "impl") {
                section.implementations = texts(value, "impl");
            } else if (name.text == "architectures") {
                section.architectures = texts(value, "architectures");
            } else if (name.text == "devices") {
                section.devices = texts(value, "devices");
            } else if (name.text == "dtypes") {
                section.dtypes = texts(value, "dtypes");
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
        file_.sections.push_back(std::move(section));
    }

    // One text or a list of them.
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

    std::optional<NamedValues> named_values(const YamlNode &node, const std::string &what) const {
        if (!expect(node, Type::map, what)) {
            return {};
        }
        NamedValues values;
        for (const auto &[name, value] : node.entries) {
            const auto number = whole(value, quote(name.text));
            if (!number) {
                return {};
            }
            values.push_back({text_of(name), *number});
        }
        return values;
    }

    void read_configs(const YamlNode &node, TuneSection &section) const {
        if (!expect(node, Type::sequence, "configs")) {
            return;
        }
        for (const YamlNode &item : node.items) {
            if (auto config = named_values(item, "a config")) {
                section.configs.push_back(std::move(*config));
            }
        }
    }

    void read_product(const YamlNode &node, TuneSection &section) const {
        if (!expect(node, Type::map, "product")) {
            return;
        }
        size_t count = 1;
        for (const auto &[name, list] : node.entries) {
            std::vector<PlacedValue> values;
            if (list.type == Type::scalar) {
                if (const auto value = whole(list, quote(name.text))) {
                    values.push_back(*value);
                }
            } else if (expect(list, Type::sequence, quote(name.text) + ", one value or a list")) {
                for (const YamlNode &item : list.items) {
                    if (const auto value = whole(item, quote(name.text))) {
                        values.push_back(*value);
                    }
                }
            }
            if (values.empty()) {
                complain(list, quote(name.text) + " has no values, which leaves no config");
                section.product.clear();
                return;
            }
            count *= values.size(); // both are small: a file has 20,000 values
            if (count > most_configs) {
                complain(name, "the product comes to more than " + std::to_string(most_configs) + " configs");
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
            if (!expect(value, Type::scalar, "how " + quote(name.text) + " is bucketed")) {
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
            const std::optional<int64_t> step = parse(text.substr(multiple.size()));
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
                auto values = named_values(value, name.text);
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
};

// A text so that it reads back as that text: plain, 'quoted', or with escapes.
std::string yaml_text(std::string_view text) {
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::any_of(text.begin(), text.end(), is_control)) {
        std::string escaped = "\"";
        for (const char c : text) {
            escaped += is_control(c)           ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c))
                       : c == '"' || c == '\\' ? std::string("\\") + c
                                               : std::string(1, c);
        }
        return escaped + "\"";
    }
    const bool plain = !text.empty() && text.find_first_of(":#{}[],&*?|<>=!%@`'\"\\") == std::string_view::npos &&
                       text.front() != ' ' && text.back() != ' ' && text.front() != '-' && text.front() != '.' &&
                       !YamlReader::parse(text) && !same_name(text, "null") && text != "~";
    if (plain) {
        return std::string(text);
    }
    std::string quoted = "'";
    for (const char c : text) {
        quoted += c == '\'' ? "''" : std::string(1, c);
    }
    return quoted + "'";
}

std::string print_values(const NamedValues &values) {
    std::string text;
    for (const NamedValue &value : values) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", yaml_text(value.name.text), value.value.value);
    }
    return "{" + text + "}";
}

std::string print_texts(const std::vector<PlacedText> &texts) {
    std::string text;
    for (const PlacedText &one : texts) {
        text += (text.empty() ? "" : ", ") + yaml_text(one.text);
    }
    return "[" + text + "]";
}

void print_section(const TuneSection &section, std::string &into) {
    const size_t begin = into.size();
    const auto line = [&](size_t indent, const std::string &text) {
        into += fmt::format("{:{}}{}\n", "", indent + 6, text);
    };
    for (const auto &[name, texts] :
         {std::pair("impl", &section.implementations), std::pair("architectures", &section.architectures),
          std::pair("devices", &section.devices), std::pair("dtypes", &section.dtypes)}) {
        if (!texts->empty()) {
            line(0, fmt::format("{}: {}", name, print_texts(*texts)));
        }
    }
    if (section.has_key) {
        std::string key;
        for (const auto &[name, bucket] : section.key) {
            key += fmt::format("{}{}: {}", key.empty() ? "" : ", ", yaml_text(name.text), bucket.text());
        }
        line(0, "key: {" + key + "}");
    }
    if (!section.configs.empty()) {
        line(0, "configs:");
        for (const NamedValues &config : section.configs) {
            line(2, "- " + print_values(config));
        }
    }
    if (!section.product.empty()) {
        line(0, "product:");
        for (const auto &[name, values] : section.product) {
            std::string list;
            for (const PlacedValue &value : values) {
                list += (list.empty() ? "" : ", ") + std::to_string(value.value);
            }
            line(2, fmt::format("{}: [{}]", yaml_text(name.text), list));
        }
    }
    if (!section.where.empty()) {
        line(0, "where:");
        for (const PlacedText &clause : section.where) {
            line(2, "- " + yaml_text(clause.text));
        }
    }
    if (!section.heuristics.empty()) {
        line(0, "heuristics:");
        for (const auto &[name, expression] : section.heuristics) {
            line(2, fmt::format("{}: {}", yaml_text(name.text), yaml_text(expression.text)));
        }
    }
    if (!section.pinned.empty()) {
        line(0, "pinned:");
        for (const TuneSection::Pinned &pinned : section.pinned) {
            line(2, fmt::format("- {{key: {}, config: {}}}", print_values(pinned.key), print_values(pinned.config)));
        }
    }
    if (into.size() == begin) {
        into += "    - {}\n";
    } else {
        into.replace(begin + 4, 1, "-");
    }
}

bool same_texts(const std::vector<PlacedText> &a, const std::vector<PlacedText> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const PlacedText &x, const PlacedText &y) { return x.text == y.text; });
}

// Whether both say the same of what is not pinned, so that their pinned entries belong together.
bool same_but_pinned(TuneSection a, TuneSection b) {
    a.pinned.clear();
    b.pinned.clear();
    std::string one;
    std::string other;
    print_section(a, one);
    print_section(b, other);
    return a.op.text == b.op.text && one == other;
}

bool is_for_same(const TuneSection &a, const TuneSection &b) {
    return a.op.text == b.op.text && same_texts(a.implementations, b.implementations) &&
           same_texts(a.architectures, b.architectures) && same_texts(a.devices, b.devices) &&
           same_texts(a.dtypes, b.dtypes);
}

bool only_pins(const TuneSection &section) {
    return section.configs.empty() && section.product.empty() && section.where.empty() && section.heuristics.empty();
}

void join_pinned(TuneSection &into, const TuneSection &from) {
    for (const TuneSection::Pinned &pinned : from.pinned) {
        const std::string key = print_values(pinned.key);
        const auto known = std::find_if(into.pinned.begin(), into.pinned.end(),
                                        [&](const auto &one) { return print_values(one.key) == key; });
        if (known != into.pinned.end()) {
            *known = pinned;
        } else {
            into.pinned.push_back(pinned);
        }
    }
}

} // namespace

int64_t Bucket::of(int64_t value) const {
    value = std::clamp(value, int64_t{0}, int64_t{1} << 53);
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
            fail(root, fmt::format("expected 'schema: {}', or a list of configs for each op as FlagGems has it",
                                   tune_schema));
        }
        file.is_flaggems = true;
        read_flaggems(root, file);
    } else if (schema->value.type != Type::scalar || schema->value.text != tune_schema) {
        fail(schema->value, fmt::format("expected schema {}, found {}", tune_schema, quote(schema->value.text)));
    } else {
        Reader(file).read(root);
    }
    return file;
}

TuneFile read_tune_file(const std::string &path) {
    return parse_tune_file(read_bounded_file(path, OPDOCK_INVALID_TUNE_FILE), path);
}

std::string text_of(const TuneFile &file, const TuneProblem &problem) {
    return fmt::format("{}:{}:{}: {}", file.name, problem.place.line, problem.place.column, problem.message);
}

std::string print_tune_file(const TuneFile &file) {
    std::string text = fmt::format("schema: {}\nops:\n", tune_schema);
    std::vector<std::string_view> printed;
    for (const TuneSection &first : file.sections) {
        if (std::find(printed.begin(), printed.end(), first.op.text) != printed.end()) {
            continue;
        }
        printed.push_back(first.op.text);
        text += fmt::format("  {}:\n", yaml_text(first.op.text));
        for (const TuneSection &section : file.sections) {
            if (section.op.text == first.op.text) {
                print_section(section, text);
            }
        }
    }
    return text;
}

TuneFile merge_tune_files(const std::vector<TuneFile> &files) {
    TuneFile merged;
    for (const TuneFile &file : files) {
        const size_t before = merged.sections.size(); // sections of one file stand beside each other
        for (const TuneSection &section : file.sections) {
            const auto end = merged.sections.begin() + static_cast<std::ptrdiff_t>(before);
            const auto same = std::find_if(merged.sections.begin(), end,
                                           [&](const TuneSection &known) { return same_but_pinned(known, section); });
            if (same != end) {
                join_pinned(*same, section);
                continue;
            }
            const auto rival = std::find_if(merged.sections.begin(), end, [&](const TuneSection &known) {
                return is_for_same(known, section) && !only_pins(known) && !only_pins(section);
            });
            if (rival != end) {
                throw Error(
                    OPDOCK_INVALID_TUNE_FILE,
                    text_of(file, {section.place, fmt::format("op '{}': an earlier file has other configs, "
                                                              "heuristics or another key for the same; keep one",
                                                              section.op.text)}));
            }
            merged.sections.push_back(section);
        }
    }
    return merged;
}

} // namespace opdock::core
