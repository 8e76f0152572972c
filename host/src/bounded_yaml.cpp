#include "bounded_yaml.hpp"

#include <sstream>
#include <unordered_set>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "error.hpp"
#include "spelling.hpp"

namespace opdock::core {
namespace {

class Reporter {
  public:
    Reporter(const std::string &name, opdock_status status) : name_(name), status_(status) {}

    [[noreturn]] void fail(std::size_t line, std::size_t column, const std::string &message) const {
        throw Error(status_, name_ + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + message);
    }
    [[noreturn]] void fail(const YAML::Mark &mark, const std::string &message) const {
        fail(static_cast<std::size_t>(mark.line + 1), static_cast<std::size_t>(mark.column + 1), message);
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
    void OnMapEnd() override { close(); }

  private:
    struct Open {
        YamlNode node;
        YAML::Mark mark;
        bool has_key = false; // the next node is the value of entries.back()
        std::unordered_set<std::string> keys = {};
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
        result.line = static_cast<std::size_t>(mark.line + 1);
        result.column = static_cast<std::size_t>(mark.column + 1);
        return result;
    }

    void open(YamlNode started, const YAML::Mark &mark) {
        if (open_.size() == most_yaml_depth) {
            reporter_.fail(mark, "nested deeper than " + std::to_string(most_yaml_depth) + " levels");
        }
        if (!open_.empty() && open_.back().node.type == YamlNode::Type::map && !open_.back().has_key) {
            reporter_.fail(mark, "expected a plain name as key, found a list or map");
        }
        open_.push_back({std::move(started), mark});
    }

    void close() {
        Open done = std::move(open_.back());
        open_.pop_back();
        add(std::move(done.node), done.mark);
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
            parent.node.entries.back().second = std::move(finished);
            parent.has_key = false;
        } else {
            if (finished.type != YamlNode::Type::scalar) {
                reporter_.fail(mark, "expected a plain name as key");
            }
            if (!parent.keys.insert(finished.text).second) {
                reporter_.fail(mark, "key " + quote(finished.text) + " is given twice; keep one");
            }
            parent.node.entries.emplace_back(std::move(finished), YamlNode());
            parent.has_key = true;
        }
    }

    const Reporter &reporter_;
    YamlNode root_;
    std::vector<Open> open_;
    std::size_t nodes_ = 0;
    std::size_t documents_ = 0;
};

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
        reporter.fail(error.mark, error.msg);
    }
    return builder.take();
}

} // namespace opdock::core
