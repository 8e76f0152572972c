#include "inspect/manifest.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <set>

#include <nlohmann/json.hpp>

#include "files/bounded_file.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::size_t most_depth = 32;
constexpr std::size_t most_values = 1000; // three are known
constexpr std::array<std::string_view, 3> fields = {"library", "tune", "signature"};

// nlohmann's events carry no positions: this iterator counts the characters it has handed out.
class Counting {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char *;
    using reference = char;

    Counting(const char *at, std::size_t *count) : at_(at), count_(count) {}

    char operator*() const { return *at_; }
    Counting &operator++() {
        ++at_;
        ++*count_;
        return *this;
    }
    bool operator==(const Counting &other) const { return at_ == other.at_; }

  private:
    const char *at_;
    std::size_t *count_;
};

class ManifestReader : public nlohmann::json_sax<nlohmann::json> {
  public:
    ManifestReader(std::string_view text, const std::string &path, const std::size_t &consumed, Manifest &manifest)
        : text_(text), path_(path), consumed_(consumed), manifest_(manifest) {}

    bool null() override { return other("null"); }
    bool boolean(bool /*value*/) override { return other("a switch"); }
    bool number_integer(number_integer_t /*value*/) override { return other("a number"); }
    bool number_unsigned(number_unsigned_t /*value*/) override { return other("a number"); }
    bool number_float(number_float_t /*value*/, const string_t & /*text*/) override { return other("a number"); }
    bool binary(binary_t & /*value*/) override { return other("binary data"); }

    bool string(string_t &value) override {
        count();
        if (depth_ == 0) {
            fail(consumed_, "expected an object with a field 'library', found a string");
        }
        std::string *field = depth_ == 1 ? known_field() : nullptr;
        if (field == nullptr) {
            return true;
        }
        if (value.empty() || value.find_first_of(std::string_view("\0\n", 2)) != std::string::npos) {
            fail(consumed_, "expected the path of a file for " + quote(key_) + ", found " + quote(value));
        }
        *field = (std::filesystem::path(path_).parent_path() / value).lexically_normal().string();
        return true;
    }

    bool start_object(std::size_t /*size*/) override {
        if (depth_ == 0) {
            nest();
            return true;
        }
        other("an object");
        return nest();
    }
    bool start_array(std::size_t /*size*/) override {
        other("a list");
        return nest();
    }
    bool end_object() override { return leave(); }
    bool end_array() override { return leave(); }

    bool key(string_t &name) override {
        if (!keys_.back().insert(name).second) {
            fail(consumed_, "field " + quote(name) + " is given twice; keep one");
        }
        if (depth_ != 1) {
            return true;
        }
        key_ = name;
        if (std::find(fields.begin(), fields.end(), name) == fields.end()) {
            manifest_.warnings.push_back(position(consumed_) + ": unknown field " + quote(name) +
                                         did_you_mean(name, fields));
        }
        return true;
    }

    bool parse_error(std::size_t offset, const std::string & /*token*/,
                     const nlohmann::json::exception & /*error*/) override {
        const bool ended = offset == 0 || offset > text_.size();
        fail(offset,
             "this is not JSON: unexpected " + (ended ? "end of the file" : quote(text_.substr(offset - 1, 1))));
    }

  private:
    std::string *known_field() {
        return key_ == "library"     ? &manifest_.library
               : key_ == "tune"      ? &manifest_.tune
               : key_ == "signature" ? &manifest_.signature
                                     : nullptr;
    }

    bool other(const char *what) {
        count();
        if (depth_ == 0) {
            fail(consumed_, std::string("expected an object with a field 'library', found ") + what);
        }
        if (depth_ == 1 && known_field() != nullptr) {
            fail(consumed_, "expected the path of a file for " + quote(key_) + ", found " + what);
        }
        return true;
    }

    bool nest() {
        if (++depth_ > most_depth) {
            fail(consumed_, "nested deeper than " + std::to_string(most_depth) + " levels");
        }
        keys_.emplace_back();
        return true;
    }

    bool leave() {
        --depth_;
        keys_.pop_back();
        return true;
    }

    void count() {
        if (++values_ > most_values) {
            fail(consumed_, "more than " + std::to_string(most_values) + " values");
        }
    }

    // `consumed` characters were read when it came up: the position of the last of them.
    std::string position(std::size_t consumed) const {
        const std::string_view before = text_.substr(0, consumed == 0 ? 0 : std::min(consumed, text_.size()) - 1);
        const auto line = std::count(before.begin(), before.end(), '\n') + 1;
        const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1; // npos + 1 is 0
        return path_ + ":" + std::to_string(line) + ":" + std::to_string(column);
    }

    [[noreturn]] void fail(std::size_t consumed, const std::string &message) const {
        throw Error(OPDOCK_LOAD_FAILED, position(consumed) + ": " + message);
    }

    std::string_view text_;
    const std::string &path_;
    const std::size_t &consumed_;
    Manifest &manifest_;
    std::string key_;
    std::vector<std::set<std::string>> keys_; // of each object that is open
    std::size_t depth_ = 0;
    std::size_t values_ = 0;
};

} // namespace

Manifest parse_manifest(std::string_view text, const std::string &path) {
    Manifest manifest;
    std::size_t consumed = 0;
    ManifestReader reader(text, path, consumed, manifest);
    nlohmann::json::sax_parse(Counting(text.data(), &consumed), Counting(text.data() + text.size(), &consumed),
                              &reader);
    if (manifest.library.empty()) {
        throw Error(OPDOCK_LOAD_FAILED, path + ":1:1: expected a field 'library' with the path of the plugin");
    }
    manifest.digest = sha256_of(text);
    return manifest;
}

Manifest read_manifest(const std::string &path) {
    return parse_manifest(read_bounded_file(path, OPDOCK_LOAD_FAILED), path);
}

} // namespace opdock::core
