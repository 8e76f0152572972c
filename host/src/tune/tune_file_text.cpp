// Tune files written, and merged: two sections say the same when they are written the same.
#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "text/error.hpp"
#include "text/spelling.hpp"
#include "tune/tune_file.hpp"

namespace opdock::core {
namespace {

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
                       !whole_number(text) && !same_name(text, "null") && text != "~";
    if (plain) {
        return std::string(text);
    }
    std::string quoted = "'";
    for (const char c : text) {
        quoted += c == '\'' ? "''" : std::string(1, c);
    }
    return quoted + "'";
}

std::string print_value(const PlacedValue &value) {
    return value.word.empty() ? std::to_string(value.value) : yaml_text(value.word);
}

std::string print_values(const NamedValues &values) {
    std::string text;
    for (const NamedValue &value : values) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", yaml_text(value.name.text), print_value(value.value));
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
    if (!section.assumed.empty()) {
        line(0, "assume: " + print_values(section.assumed));
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
                list += (list.empty() ? "" : ", ") + print_value(value);
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
