#include "text/bounded_yaml.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

class Reporter {
  public:
    Reporter(const std::string &name, opdock_status status) : name_(name), status_(status) {}

    [[noreturn]] void fail(std::size_t line, std::size_t column, const std::string &message) const {
        throw Error(status_, name_ + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + message);
    }
    [[noreturn]] void fail(const YAML::Mark &mark, const std::string &message) const {
        fail(static_cast<std::size_t>(mark.line) + 1, static_cast<std::size_t>(mark.column) + 1, message);
    }

  private:
    const std::string &name_;
    opdock_status status_;
};

// What must hold before yaml-cpp sees the text. Brackets are counted without regard to quotes: what hides in a quoted
// string only makes the count less strict (the handler below has the last word on depth), and nobody balances more than
// 32 brackets inside strings.
void check_text(std::string_view text, const Reporter &reporter) {
    std::size_t line = 1;
    std::size_t line_begin = 0;
    std::size_t depth = 0;
    std::size_t indicators = 0;
    bool in_comment = false;
    bool only_space = true; // so far in this line
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const std::size_t column = i - line_begin + 1;
        const auto fail = [&](const std::string &message) { reporter.fail(line, column, message); };
        if (i == most_yaml_bytes) {
            fail("the text goes on after " + std::to_string(most_yaml_bytes) + " bytes; shorten it");
        }
        if (column > most_yaml_line_bytes) {
            fail("the line is longer than " + std::to_string(most_yaml_line_bytes) + " bytes; break it");
        }
        if (c == '\n') {
            if (++line > most_yaml_lines) {
                fail("the text has more than " + std::to_string(most_yaml_lines) + " lines; shorten it");
            }
            line_begin = i + 1;
            in_comment = false;
            only_space = true;
            continue;
        }
        if (c == '\r' && (i + 1 == text.size() || text[i + 1] != '\n')) { // yaml-cpp would end the line here
            fail("a carriage return without a line feed; expected lines that end in LF or CR LF");
        }
        const auto byte = static_cast<unsigned char>(c);
        if ((byte < 0x20 && c != '\t' && c != '\r') || byte == 0x7f) {
            fail("unexpected control character " + quote(text.substr(i, 1)) + "; expected UTF-8 text");
        }
        if (c == '%' && column == 1) {
            fail("directives (%YAML, %TAG) are not allowed; remove the line");
        }
        in_comment = in_comment || (only_space && c == '#');
        only_space = only_space && (c == ' ' || c == '\t');
        if (in_comment) {
            continue;
        }
        if (c == '[' || c == '{') {
            if (++depth > most_yaml_depth) {
                fail("nested deeper than " + std::to_string(most_yaml_depth) + " levels");
            }
        } else if (c == ']' || c == '}') {
            depth -= depth > 0 ? 1 : 0;
        } else if (c != ',') {
            continue;
        }
        if (++indicators > most_yaml_flow_indicators) {
            fail("more than " + std::to_string(most_yaml_flow_indicators) +
                 " of [ ] { } , in one text; write long lists with one entry on a line");
        }
    }
}

void check_encoding(std::string_view text, const Reporter &reporter) {
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
        reporter.fail(1, 1, "the text is UTF-16; expected UTF-8");
    }
}

// Builds the tree, and stops at the first thing that has no place in a configuration file.
class TreeBuilder : public YAML::EventHandler {
  public:
    explicit TreeBuilder(const Reporter &reporter) : reporter_(reporter) {}

    YamlNode take() { return std::move(root_); }

    void OnDocumentStart(const YAML::Mark &mark) override {
        if (++documents_ > 1) {
            reporter_.fail(mark, "a second document begins; expected one");
        }
    }
    void OnDocumentEnd() override {}

    void OnAlias(const YAML::Mark &mark, YAML::anchor_t /*anchor*/) override {
        reporter_.fail(mark, "aliases (*name) are not allowed; write the value out");
    }
    void OnAnchor(const YAML::Mark &mark, const std::string &name) override {
        reporter_.fail(mark, "anchors (&" + name + ") are not allowed; write the value out where it is used");
    }
    void OnNull(const YAML::Mark &mark, YAML::anchor_t /*anchor*/) override {
        add(node(YamlNode::Type::null, mark, "?"), mark);
    }
    void OnScalar(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t /*anchor*/,
                  const std::string &value) override {
        YamlNode scalar = node(YamlNode::Type::scalar, mark, tag);
        scalar.text = value;
        scalar.is_quoted = tag == "!"; // yaml-cpp's mark of a scalar that is not plain
        add(std::move(scalar), mark);
    }
    void OnSequenceStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t /*anchor*/,
                         YAML::EmitterStyle::value /*style*/) override {
        open(node(YamlNode::Type::sequence, mark, tag), mark);
    }
    void OnMapStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t /*anchor*/,
                    YAML::EmitterStyle::value /*style*/) override {
        open(node(YamlNode::Type::map, mark, tag), mark);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapEnd() override {
        check_keys(open_.back().node);
        close();
    }

  private:
    struct Open {
        YamlNode node;
        YAML::Mark mark;
        bool has_key = false; // the next node is the value of entries.back()
    };

    YamlNode node(YamlNode::Type type, const YAML::Mark &mark, const std::string &tag) {
        if (++nodes_ > most_yaml_nodes) {
            reporter_.fail(mark, "more than " + std::to_string(most_yaml_nodes) + " values; shorten the text");
        }
        if (!tag.empty() && tag != "?" && tag != "!") {
            reporter_.fail(mark, "tags (" + tag + ") are not allowed; remove it");
        }
        YamlNode result;
        result.type = type;
        result.line = static_cast<std::size_t>(mark.line) + 1;
        result.column = static_cast<std::size_t>(mark.column) + 1;
        return result;
    }

    void open(YamlNode started, const YAML::Mark &mark) {
        if (open_.size() == most_yaml_depth) {
            reporter_.fail(mark, "nested deeper than " + std::to_string(most_yaml_depth) + " levels");
        }
        open_.push_back({std::move(started), mark});
    }

    void close() {
        Open done = std::move(open_.back());
        open_.pop_back();
        add(std::move(done.node), done.mark);
    }

    void check_keys(const YamlNode &map) const {
        std::vector<const YamlNode *> keys;
        for (const auto &[key, value] : map.entries) {
            keys.push_back(&key);
        }
        std::stable_sort(keys.begin(), keys.end(), [](auto *a, auto *b) { return a->text < b->text; });
        const auto twice =
            std::adjacent_find(keys.begin(), keys.end(), [](auto *a, auto *b) { return a->text == b->text; });
        if (twice != keys.end()) {
            const YamlNode &second = **std::next(twice);
            reporter_.fail(second.line, second.column, "key " + quote(second.text) + " is given twice; keep one");
        }
    }

    void add(YamlNode finished, const YAML::Mark &mark) {
        if (open_.empty()) {
            root_ = std::move(finished);
            return;
        }
        Open &parent = open_.back();
        if (parent.node.type == YamlNode::Type::sequence) {
            parent.node.items.push_back(std::move(finished));
        } else if (parent.has_key) {
            auto &[key, value] = parent.node.entries.back();
            if (finished.type == YamlNode::Type::null) { // "key:" without a value; yaml-cpp's mark is on the next line
                finished.line = key.line;
                finished.column = key.column;
            }
            value = std::move(finished);
            parent.has_key = false;
        } else {
            if (finished.type != YamlNode::Type::scalar) {
                reporter_.fail(mark, "expected a plain name as key, found a list, a map or nothing");
            }
            parent.node.entries.push_back({std::move(finished), {}});
            parent.has_key = true;
        }
    }

    const Reporter &reporter_;
    YamlNode root_;
    std::vector<Open> open_;
    std::size_t nodes_ = 0;
    std::size_t documents_ = 0;
};

// yaml-cpp's messages in the words of somebody who edits a file.
std::string explained(const std::string &message) {
    static constexpr std::pair<std::string_view, const char *> known[] = {
        {"end of sequence flow not found", "a list that begins with '[' does not end; expected ']'"},
        {"end of map flow not found", "a map that begins with '{' does not end; expected '}'"},
        {"illegal EOF in scalar", "a quoted text does not end; expected the closing quote"},
        {"illegal map value", "unexpected ':'; check the indentation (spaces, no tabs), or quote the text"},
        {"the referenced anchor is not defined", "aliases (*name) are not allowed; write the value out"},
    };
    for (const auto &[theirs, ours] : known) {
        if (message == theirs) {
            return ours;
        }
    }
    return "this is not YAML: " + message;
}

} // namespace

YamlNode parse_bounded_yaml(std::string_view text, const std::string &name, opdock_status status) {
    const Reporter reporter(name, status);
    check_encoding(text, reporter);
    check_text(text, reporter);
    std::istringstream stream{std::string(text)};
    TreeBuilder builder(reporter);
    try {
        YAML::Parser parser(stream);
        while (parser.HandleNextDocument(builder)) {
        }
    } catch (const YAML::Exception &error) {
        reporter.fail(error.mark, explained(error.msg));
    }
    return builder.take();
}

} // namespace opdock::core
