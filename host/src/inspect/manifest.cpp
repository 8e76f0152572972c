#include "inspect/manifest.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "files/bounded_file.hpp"
#include "text/bounded_json.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::size_t most_depth = 32;
constexpr std::size_t most_values = 1000; // only three are known
constexpr std::array<std::string_view, 3> fields = {"library", "tune", "signature"};

class ManifestReader : public BoundedJson {
  public:
    ManifestReader(std::string_view text, const std::string &path, Manifest &manifest)
        : BoundedJson(text, path, OPDOCK_LOAD_FAILED, {most_depth, most_values}), path_(path), manifest_(manifest) {}

  private:
    void take_key(const std::string &name) override {
        if (depth() != 1) {
            return;
        }
        key_ = name;
        if (std::find(fields.begin(), fields.end(), name) == fields.end()) {
            manifest_.warnings.push_back(position() + ": unknown field " + quote(name) + did_you_mean(name, fields));
        }
    }

    void take_text(const std::string &text) override {
        if (depth() == 0) {
            fail("expected an object with a field 'library', found a string");
        }
        std::string *field = depth() == 1 ? known_field() : nullptr;
        if (field == nullptr) {
            return;
        }
        if (text.empty() || text.find_first_of(std::string_view("\0\n", 2)) != std::string::npos) {
            fail("expected the path of a file for " + quote(key_) + ", found " + quote(text));
        }
        *field = (std::filesystem::path(path_).parent_path() / text).lexically_normal().string();
    }

    void take_object() override {
        if (depth() != 0) {
            take_other("an object");
        }
    }

    void take_other(const char *what) override {
        if (depth() == 0) {
            fail(std::string("expected an object with a field 'library', found ") + what);
        }
        if (depth() == 1 && known_field() != nullptr) {
            fail("expected the path of a file for " + quote(key_) + ", found " + what);
        }
    }

    std::string *known_field() {
        return key_ == "library"     ? &manifest_.library
               : key_ == "tune"      ? &manifest_.tune
               : key_ == "signature" ? &manifest_.signature
                                     : nullptr;
    }

    const std::string &path_;
    Manifest &manifest_;
    std::string key_;
};

} // namespace

Manifest parse_manifest(std::string_view text, const std::string &path) {
    Manifest manifest;
    ManifestReader(text, path, manifest).read();
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
