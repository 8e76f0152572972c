#include "text/bounded_yaml.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <yaml-cpp/anchor.h>
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

// Conditions that must hold before yaml-cpp sees the text. Brackets are counted regardless of quotes: brackets in a
// quoted string only make the check less strict (the handler below checks the depth finally), and nobody balances more
// than 32 brackets inside strings.
// Throws if the character is not valid UTF-8 text; returns its number of bytes.
template<class Fail>
std::size_t check_character(std::string_view rest, const Fail &fail) {
    const auto byte = static_cast<unsigned char>(rest.front());
    if ((byte < 0x20 && byte != '\t' && byte != '\r' && byte != '\n') || byte == 0x7f) {
        fail("unexpected control character " + quote(rest.substr(0, 1)) + "; expected UTF-8 text");
    }
    const std::size_t bytes = character_bytes(rest);
    if (bytes == 0) {
        fail("unexpected byte " + quote(rest.substr(0, 1)) + "; expected UTF-8 text");
    }
    return bytes;
}

void check_text(std::string_view text, const Reporter &reporter) {
    std::size_t line = 1;
    std::size_t line_begin = 0;
    std::size_t depth = 0;
    std::size_t indicators = 0;
    bool in_comment = false;
    bool only_space = true; // so far in this line
    std::size_t character_end = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const std::size_t column = i - line_begin + 1;
        const auto fail = [&](const std::string &message) { reporter.fail(line, column, message); };
        if (i == most_yaml_bytes) {
            fail("the text is longer than " + std::to_string(most_yaml_bytes) + " bytes; shorten it");
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
        if (i >= character_end) {
            character_end = i + check_character(text.substr(i), fail);
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
                 " of [ ] { } , in one text; write long lists with one entry per line");
        }
    }
}

void check_encoding(std::string_view text, const Reporter &reporter) {
    using namespace std::string_view_literals;
    if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) {
        reporter.fail(1, 1, "the text is UTF-32; expected UTF-8");
    }
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
        reporter.fail(1, 1, "the text is UTF-16; expected UTF-8");
    }
}

// Builds the tree, and stops at the first construct that is not allowed in a configuration file.
class TreeBuilder : public YAML::EventHandler {
  public:
    explicit TreeBuilder(const Reporter &reporter) : reporter_(reporter) {}

    YamlNode take() {
        if (has_merges_) {
            merge(root_);
        }
        return std::move(root_);
    }

    void OnDocumentStart(const YAML::Mark &mark) override {
        if (++documents_ > 1) {
            reporter_.fail(mark, "a second document begins; expected one");
        }
    }
    void OnDocumentEnd() override {}

    void OnAlias(const YAML::Mark &mark, YAML::anchor_t anchor) override {
        const auto known = anchors_.find(anchor);
        if (known == anchors_.end()) {
            reporter_.fail(mark, "an alias (*name) inside the value that it names; write the value out");
        }
        const YamlNode &named = node_at(known->second);
        count(named, open_.size(), mark);
        YamlNode copy = named;
        add(std::move(copy), mark, YAML::NullAnchor);
    }
    void OnNull(const YAML::Mark &mark, YAML::anchor_t anchor) override {
        add(node(YamlNode::Type::null, mark, "?"), mark, anchor);
    }
    void OnScalar(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                  const std::string &value) override {
        YamlNode scalar = node(YamlNode::Type::scalar, mark, tag);
        scalar.text = value;
        scalar.is_quoted = tag == "!"; // yaml-cpp's mark of a scalar that is not plain
        add(std::move(scalar), mark, anchor);
    }
    void OnSequenceStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value /*style*/) override {
        open(node(YamlNode::Type::sequence, mark, tag), mark, anchor);
    }
    void OnMapStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value /*style*/) override {
        open(node(YamlNode::Type::map, mark, tag), mark, anchor);
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
        YAML::anchor_t anchor;
        bool has_key = false; // the next node is the value of entries.back()

        // Index of the next node among the children: in a sequence its position, in a map twice the entry's position,
        // plus one for the value.
        std::size_t next_child() const {
            return node.type == YamlNode::Type::sequence ? node.items.size()
                                                         : 2 * node.entries.size() - (has_key ? 1 : 0);
        }
    };
    // Location of a value in the tree: child indices from the root.
    using Path = std::vector<std::size_t>;

    void count_node(const YAML::Mark &mark) {
        if (++nodes_ > most_yaml_nodes) {
            reporter_.fail(mark, "more than " + std::to_string(most_yaml_nodes) + " values; shorten the text");
        }
    }

    // Counts a copy against the limits before it is made. `depth`: number of open levels around it.
    void count(const YamlNode &copied, std::size_t depth, const YAML::Mark &mark) {
        count_node(mark);
        copied_bytes_ += copied.text.size();
        if (copied_bytes_ > most_yaml_bytes) {
            reporter_.fail(mark, "aliases (*name) expand to more than " + std::to_string(most_yaml_bytes) +
                                     " bytes of text; shorten it");
        }
        const bool is_level = copied.type == YamlNode::Type::sequence || copied.type == YamlNode::Type::map;
        if (is_level && depth == most_yaml_depth) {
            reporter_.fail(mark, "nested deeper than " + std::to_string(most_yaml_depth) + " levels");
        }
        for (const YamlNode &item : copied.items) {
            count(item, depth + 1, mark);
        }
        for (const auto &[key, value] : copied.entries) {
            count(key, depth + 1, mark);
            count(value, depth + 1, mark);
        }
    }

    // A completed value. Enclosing values may still be open, and are not in the tree yet.
    const YamlNode &node_at(const Path &path) const {
        std::size_t opened = 0; // on the path, not counting the root
        const YamlNode *at = &open_.front().node;
        bool is_open = true;
        for (const std::size_t child : path) {
            if (is_open && opened + 1 < open_.size() && child == open_[opened].next_child()) {
                at = &open_[++opened].node;
                continue;
            }
            is_open = false;
            if (at->type == YamlNode::Type::sequence) {
                at = &at->items[child];
            } else {
                const YamlEntry &entry = at->entries[child / 2];
                at = child % 2 == 0 ? &entry.key : &entry.value;
            }
        }
        return *at;
    }

    YamlNode node(YamlNode::Type type, const YAML::Mark &mark, const std::string &tag) {
        count_node(mark);
        if (!tag.empty() && tag != "?" && tag != "!") {
            reporter_.fail(mark, "a tag is not allowed: remove " + quote(tag));
        }
        YamlNode result;
        result.type = type;
        result.line = static_cast<std::size_t>(mark.line) + 1;
        result.column = static_cast<std::size_t>(mark.column) + 1;
        return result;
    }

    void open(YamlNode started, const YAML::Mark &mark, YAML::anchor_t anchor) {
        if (open_.size() == most_yaml_depth) {
            reporter_.fail(mark, "nested deeper than " + std::to_string(most_yaml_depth) + " levels");
        }
        open_.push_back({std::move(started), mark, anchor});
    }

    void close() {
        Open done = std::move(open_.back());
        open_.pop_back();
        add(std::move(done.node), done.mark, done.anchor);
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

    void add(YamlNode finished, const YAML::Mark &mark, YAML::anchor_t anchor) {
        if (open_.empty()) {
            root_ = std::move(finished);
            return;
        }
        if (anchor != YAML::NullAnchor) {
            Path path;
            for (const Open &around : open_) {
                path.push_back(around.next_child());
            }
            anchors_.insert_or_assign(anchor, std::move(path));
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
            if (finished.text.size() > most_yaml_key_bytes) {
                reporter_.fail(mark,
                               "the key is longer than " + std::to_string(most_yaml_key_bytes) + " bytes; shorten it");
            }
            has_merges_ = has_merges_ || is_merge(finished);
            parent.node.entries.push_back({std::move(finished), {}});
            parent.has_key = true;
        }
    }

    static bool is_merge(const YamlNode &key) { return key.text == "<<" && !key.is_quoted; }

    // Replaces each "<<" by those entries of its map or maps whose keys the enclosing map lacks. Called when the tree
    // is complete, because paths of anchors count the entries as written.
    void merge(YamlNode &at) const {
        for (YamlNode &item : at.items) {
            merge(item);
        }
        for (auto &[key, value] : at.entries) {
            merge(value);
        }
        const auto merged = std::find_if(at.entries.begin(), at.entries.end(),
                                         [](const YamlEntry &entry) { return is_merge(entry.key); });
        if (merged == at.entries.end()) {
            return;
        }
        std::vector<YamlNode> maps;
        if (merged->value.type == YamlNode::Type::sequence) {
            maps = std::move(merged->value.items);
        } else {
            maps.push_back(std::move(merged->value));
        }
        const YamlNode place = std::move(merged->key);
        at.entries.erase(merged);
        std::set<std::string> names;
        for (const auto &[key, value] : at.entries) {
            names.insert(key.text);
        }
        for (YamlNode &map : maps) {
            if (map.type != YamlNode::Type::map) {
                reporter_.fail(place.line, place.column, "'<<' merges a map, or a list of maps");
            }
            for (YamlEntry &entry : map.entries) {
                if (names.insert(entry.key.text).second) {
                    at.entries.push_back(std::move(entry));
                }
            }
        }
    }

    const Reporter &reporter_;
    YamlNode root_;
    std::vector<Open> open_;
    std::map<YAML::anchor_t, Path> anchors_; // of completed values
    bool has_merges_ = false;
    std::size_t nodes_ = 0;
    std::size_t copied_bytes_ = 0; // bytes of text copied by aliases
    std::size_t documents_ = 0;
};

// Rewords yaml-cpp's messages for people who edit a file.
std::string explained(const std::string &message) {
    static constexpr std::pair<std::string_view, const char *> known[] = {
        {"end of sequence flow not found", "a list that begins with '[' does not end; expected ']'"},
        {"end of map flow not found", "a map that begins with '{' does not end; expected '}'"},
        {"illegal EOF in scalar", "a quoted text does not end; expected the closing quote"},
        {"illegal map value", "unexpected ':'; check the indentation (spaces, no tabs), or quote the text"},
        // yaml-cpp 0.8 appends the name.
        {"the referenced anchor is not defined", "an alias (*name) without its anchor (&name) before it"},
    };
    for (const auto &[theirs, ours] : known) {
        if (message.starts_with(theirs)) {
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
