#include "inspect/manifest.hpp"

#include <string>

#include <doctest/doctest.h>

#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::thrown_by;

namespace {

const std::string path = "/opt/acme/plugin.json";

std::string refusal(const std::string &text) {
    return message_of([&] { parse_manifest(text, path); });
}

std::string repeated(const std::string &piece, std::size_t times) {
    std::string text;
    for (std::size_t i = 0; i < times; ++i) {
        text += piece;
    }
    return text;
}

} // namespace

TEST_CASE("paths in a manifest are relative to it") {
    const Manifest manifest = parse_manifest(
        R"({"library": "lib/libacme.so", "tune": "../share/acme.tune.yaml", "signature": "/keys/acme.sig"})", path);
    CHECK(manifest.library == "/opt/acme/lib/libacme.so");
    CHECK(manifest.tune == "/opt/share/acme.tune.yaml");
    CHECK(manifest.signature == "/keys/acme.sig");
    CHECK(manifest.warnings.empty());
}

TEST_CASE("only the library is required") {
    const Manifest manifest = parse_manifest(R"({"library": "libacme.so"})", path);
    CHECK(manifest.library == "/opt/acme/libacme.so");
    CHECK(manifest.tune.empty());
    CHECK(manifest.signature.empty());
    CHECK(refusal("{}") == path + ":1:1: expected a field 'library' with the path of the plugin");
}

TEST_CASE("an unknown field is a warning with its position and the nearest known one") {
    const Manifest manifest = parse_manifest("{\n  \"libary\": \"x\",\n  \"library\": \"libacme.so\",\n"
                                             "  \"notes\": {\"library\": [1, true, null, {\"tune\": 2.5}]}\n}",
                                             path);
    CHECK(manifest.library == "/opt/acme/libacme.so");
    CHECK(manifest.tune.empty());
    REQUIRE(manifest.warnings.size() == 2);
    CHECK(manifest.warnings[0] == path + ":2:10: unknown field 'libary'; did you mean 'library'?");
    CHECK(manifest.warnings[1] == path + ":4:9: unknown field 'notes'");
}

TEST_CASE("fields inside an unknown field are no fields of the manifest") {
    const Manifest manifest = parse_manifest(
        R"({"notes": {"library": "x", "tune": ["y", {"library": "z"}]}, "library": "libacme.so"})", path);
    CHECK(manifest.library == "/opt/acme/libacme.so");
    CHECK(manifest.tune.empty());
    CHECK(manifest.warnings.size() == 1);
}

TEST_CASE("every malformed manifest is an error with line and column") {
    const struct {
        const char *text, *message;
    } cases[] = {
        {"", ":1:1: this is not JSON: unexpected end of the file"},
        {"{\"library\": }", ":1:13: this is not JSON: unexpected '}'"},
        {"}", ":1:1: this is not JSON: unexpected '}'"},
        {"{\"library\"", ":1:10: this is not JSON: unexpected end of the file"},
        {"{\n]", ":2:1: this is not JSON: unexpected ']'"},
        {"{\"library\": \"a\",\n}", ":2:1: this is not JSON"},
        {"{\"library\": \"a\"} x", ":1:18: this is not JSON"},
        {"[\"libacme.so\"]", ":1:1: expected an object with a field 'library', found a list"},
        {"\"libacme.so\"", ":1:12: expected an object with a field 'library', found a string"},
        {"true", ":1:4: expected an object with a field 'library', found a switch"},
        {"{\"library\": 3 }", ":1:14: expected the path of a file for 'library', found a number"},
        {"{\"library\": [\"a\"]}", ":1:13: expected the path of a file for 'library', found a list"},
        {"{\"library\": null}", ":1:16: expected the path of a file for 'library', found null"},
        {"{\"library\": \"\"}", ":1:14: expected the path of a file for 'library', found ''"},
        {"{\"library\": \"a\\u0000b\"}", ":1:22: expected the path of a file for 'library', found 'a\\x00b'"},
        {"{\"library\": \"a\\nb\"}", ":1:18: expected the path of a file for 'library', found 'a\\x0ab'"},
        {"{\"tune\": \"a\\nb\"}", ":1:15: expected the path of a file for 'tune', found 'a\\x0ab'"},
        {"{\"signature\": \"a\\nb\"}", ":1:20: expected the path of a file for 'signature', found 'a\\x0ab'"},
        {"{\"library\": \"a\",\n \"library\": \"b\"}", ":2:10: field 'library' is given twice; keep one"},
        {"{\"library\": \"a\", \"x\": {\"y\": 1, \"y\": 2}}", ":1:34: field 'y' is given twice; keep one"},
    };
    for (const auto &[text, expected] : cases) {
        const auto &tried = text;
        CAPTURE(tried);
        const std::string message = refusal(text);
        CAPTURE(message);
        CHECK(message.starts_with(path + expected));
    }
}

TEST_CASE("a deep or endless manifest is an error with a position") {
    CHECK(refusal("{\"library\": \"a\", \"x\": " + repeated("[", 1 << 20)) ==
          path + ":1:54: nested deeper than 32 levels");
    CHECK(refusal(repeated("{\"x\":", 200'000)) == path + ":1:161: nested deeper than 32 levels");
    CHECK(refusal("{\"x\": [" + repeated("1,", 500'000)).find("more than 1000 values") != std::string::npos);
    CHECK(refusal("{" + repeated("\"x\":\"" + std::string(1000, 'a') + "\",", 2)).find("given twice") !=
          std::string::npos);
}

TEST_CASE("a wrong manifest has the status of a plugin that does not load") {
    CHECK(thrown_by([] { parse_manifest("{", path); }).status() == OPDOCK_LOAD_FAILED);
    CHECK(thrown_by([] { read_manifest("/none/plugin.json"); }).status() == OPDOCK_LOAD_FAILED);
}

TEST_CASE("a manifest has 1000 values and 32 levels, and no more") {
    const auto of_values = [](std::size_t numbers) { // plus the object, the library and the list
        return R"({"library": "a", "x": [0)" + repeated(",0", numbers - 1) + "]}";
    };
    CHECK(parse_manifest(of_values(997), path).library == "/opt/acme/a");
    CHECK(refusal(of_values(998)).ends_with(": more than 1000 values"));
    const auto of_levels = [](std::size_t lists) { // plus the object
        return R"({"library": "a", "x": )" + repeated("[", lists) + repeated("]", lists) + "}";
    };
    CHECK(parse_manifest(of_levels(31), path).library == "/opt/acme/a");
    CHECK(refusal(of_levels(32)).ends_with(": nested deeper than 32 levels"));
}
