// Writes and merges tune files: two sections are equal if they are written the same.
#include <algorithm>
#include <map>

#include <spdlog/fmt/fmt.h>

#include "text/error.hpp"
#include "text/spelling.hpp"
#include "tune/tune_file.hpp"

namespace opdock::core {
namespace {

// A text in a form that reads back unchanged: plain, 'quoted', or with escapes.
std::string yaml_text(std::string_view text) {
    if (!is_printable(text)) {
        std::string escaped;
        for (const char c : text) {
            escaped += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
        }
        return "\"" + visible_line(escaped) + "\""; // same escapes as in YAML
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
    return value.word ? yaml_text(*value.word) : std::to_string(value.value);
}

// Joins parts with commas, and breaks lines before they are too long to read.
class Listed {
  public:
    void add(const std::string &part) {
        constexpr size_t widest = 1000;
        const bool breaks = text_.size() - line_ + part.size() > widest;
        text_ += text_.empty() ? "" : breaks ? ",\n            " : ", ";
        line_ = breaks ? text_.size() : line_;
        text_ += part;
    }
    const std::string &text() const { return text_; }

  private:
    std::string text_;
    size_t line_ = 0; // start of the current line
};

std::string print_values(const NamedValues &values) {
    Listed list;
    for (const NamedValue &value : values) {
        list.add(yaml_text(value.name.text) + ": " + print_value(value.value));
    }
    return "{" + list.text() + "}";
}

std::string print_texts(const std::vector<PlacedText> &texts) {
    Listed list;
    for (const PlacedText &one : texts) {
        list.add(yaml_text(one.text));
    }
    return "[" + list.text() + "]";
}

// A line of a section.
void print_line(std::string &into, size_t indent, const std::string &text) {
    into += fmt::format("{:{}}{}\n", "", indent + 6, text);
}

// Writes what the section applies to: implementations, devices, dtypes, keys.
void print_scope(const TuneSection &section, std::string &into) {
    for (const auto &[name, texts] :
         {std::pair("impl", &section.implementations), std::pair("architectures", &section.architectures),
          std::pair("devices", &section.devices), std::pair("dtypes", &section.dtypes)}) {
        if (!texts->empty()) {
            print_line(into, 0, fmt::format("{}: {}", name, print_texts(*texts)));
        }
    }
    if (section.has_key) {
        Listed key;
        for (const auto &[name, bucket] : section.key) {
            key.add(yaml_text(name.text) + ": " + bucket.text());
        }
        print_line(into, 0, "key: {" + key.text() + "}");
    }
    if (!section.assumed.empty()) {
        print_line(into, 0, "assume: " + print_values(section.assumed));
    }
}

void print_section(const TuneSection &section, std::string &into) {
    const size_t begin = into.size();
    const auto line = [&](size_t indent, const std::string &text) { print_line(into, indent, text); };
    print_scope(section, into);
    if (!section.configs.empty()) {
        line(0, "configs:");
        for (const NamedValues &config : section.configs) {
            line(2, "- " + print_values(config));
        }
    }
    if (!section.product.empty()) {
        line(0, "product:");
        for (const auto &[name, values] : section.product) {
            Listed list;
            for (const PlacedValue &value : values) {
                list.add(print_value(value));
            }
            line(2, fmt::format("{}: [{}]", yaml_text(name.text), list.text()));
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

// True if both agree in everything that is not pinned, so that their pinned entries belong together.
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

// Equal for two entries of one section that are for the same calls, however they are spelled.
std::map<std::string_view, int64_t> key_of(const TuneSection &section, const TuneSection::Pinned &pinned) {
    std::map<std::string_view, int64_t> key;
    for (const NamedValue &value : pinned.key) {
        const auto part = std::find_if(section.key.begin(), section.key.end(),
                                       [&](const auto &one) { return one.first.text == value.name.text; });
        const Bucket bucket = part != section.key.end() ? part->second : Bucket{Bucket::Kind::log2, 1};
        key[value.name.text] = bucket.of(value.value.value);
    }
    return key;
}

void join_pinned(TuneSection &into, const TuneSection &from) {
    for (const TuneSection::Pinned &pinned : from.pinned) {
        const auto known = std::find_if(into.pinned.begin(), into.pinned.end(),
                                        [&](const auto &one) { return key_of(into, one) == key_of(from, pinned); });
        if (known != into.pinned.end()) {
            *known = pinned;
        } else {
            into.pinned.push_back(pinned);
        }
    }
}

TuneSection pins_of(TuneSection section) {
    section.configs.clear();
    section.product.clear();
    section.where.clear();
    section.heuristics.clear();
    return section;
}

class Merger {
  public:
    void add(const TuneFile &file) {
        earlier_ = merged_.sections.size(); // sections of one file stay together
        for (const TuneSection &section : file.sections) {
            add(file, section);
        }
        while (!in_front_.empty()) {
            const auto place =
                std::find_if(merged_.sections.begin(), merged_.sections.end(),
                             [&](const TuneSection &known) { return known.op.text == in_front_.back().op.text; });
            merged_.sections.insert(place, std::move(in_front_.back()));
            in_front_.pop_back();
        }
    }
    TuneFile take() { return std::move(merged_); }

  private:
    void add(const TuneFile &file, const TuneSection &section) {
        const auto begin = merged_.sections.begin();
        const auto end = begin + static_cast<std::ptrdiff_t>(earlier_);
        const auto same =
            std::find_if(begin, end, [&](const TuneSection &known) { return same_but_pinned(known, section); });
        const auto pinning = std::find_if(begin, end, [&](const TuneSection &known) {
            return known.op.text == section.op.text && !known.pinned.empty();
        });
        if (same != end && same <= pinning) {
            return join_pinned(*same, section);
        }
        if (same == end) {
            refuse_rival(file, section);
        }
        // The first section that pins a call counts, but the later file must win.
        TuneSection rest = section;
        if (pinning != end && !section.pinned.empty()) {
            in_front_.push_back(pins_of(section));
            rest.pinned.clear();
        }
        if (same == end && (section.pinned.size() == rest.pinned.size() || !only_pins(rest))) {
            merged_.sections.push_back(std::move(rest));
        }
    }

    void refuse_rival(const TuneFile &file, const TuneSection &section) const {
        const auto end = merged_.sections.begin() + static_cast<std::ptrdiff_t>(earlier_);
        const auto rival = std::find_if(merged_.sections.begin(), end, [&](const TuneSection &known) {
            return is_for_same(known, section) && !only_pins(known) && !only_pins(section);
        });
        if (rival != end) {
            throw Error(OPDOCK_INVALID_TUNE_FILE,
                        text_of(file, {section.place, fmt::format("op '{}': an earlier file has other configs, "
                                                                  "heuristics or another key for the same; keep one",
                                                                  section.op.text)}));
        }
    }

    TuneFile merged_;
    size_t earlier_ = 0;                // number of sections of earlier files
    std::vector<TuneSection> in_front_; // to be put before those of their ops
};

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

std::string print_readable_tune_file(const TuneFile &file) {
    std::string text = print_tune_file(file);
    constexpr const char *remedy = "the output has more than a tune file may hold; split it into two files";
    try {
        const TuneFile again = parse_tune_file(text, "result");
        if (!again.problems.empty()) {
            throw Error(OPDOCK_INVALID_TUNE_FILE, text_of(again, again.problems.front()));
        }
    } catch (const Error &error) {
        throw Error(OPDOCK_INVALID_TUNE_FILE, fmt::format("{} ({})", remedy, error.what()));
    }
    return text;
}

TuneFile merge_tune_files(const std::vector<TuneFile> &files) {
    Merger merger;
    for (const TuneFile &file : files) {
        merger.add(file);
    }
    return merger.take();
}

} // namespace opdock::core
