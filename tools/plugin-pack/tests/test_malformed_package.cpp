// Signed packages with a malformed manifest, list of members or contents.json.
#include <functional>
#include <optional>
#include <regex>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"
#include "package.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;
using nlohmann::json;

namespace {

Package sample() {
    Package package;
    package.device_type = "Acme_A1";
    package.tasks = {"inference", "train"};
    package.models = {"llama"};
    package.abi = Abi{{1, 2}, {1, 0}};
    Backend backend{"fw", "0.9", "sha1", {}};
    Changes &changes = backend.changes;
    changes.commit = changes.tree = std::string(40, 'a');
    changes.list = {{'R', "old", "new", 0100644, 0100755, changes.tree, changes.tree, "a patch"}};
    changes.converted = {{"converted", "its content"}};
    changes.crlf = {"crlf"};
    changes.submodules = {{"submodule", "sha1", {}}};
    changes.submodules[0].changes.commit = changes.submodules[0].changes.tree = changes.tree;
    package.backends = {backend};
    package.attachments = {{"plugin", "libacme/libacme.so", "a plugin"}, {"license", "LICENSE", "ours"}};
    return package;
}

// The documents of a package, for tests to change.
struct Parts {
    json manifest;            // a missing description of the payload is added
    std::optional<json> list; // nothing: the list of the actual members
    std::vector<Member> members;

    void say(const std::string &contents) { members.at(0).content = contents; }
};

json list_of(const std::vector<Member> &members) {
    json list = json::array();
    for (const Member &one : members) {
        list.push_back(
            {{"name", one.name}, {"bytes", one.content.size()}, {"sha256", core::hex(core::sha256_of(one.content))}});
    }
    return list;
}

Parts sample_parts() {
    const PackageFile file = parse_package(print(sample(), nullptr), "p.opdock");
    Parts parts{json::parse(file.manifest), std::nullopt, {}};
    parts.manifest.erase("payload");
    const size_t line = file.payload.find('\n');
    const size_t bytes = std::stoul(file.payload.substr(8, line - 8));
    Unpacker unpacker(std::string_view(file.payload).substr(line + 1 + bytes));
    for (const json &one : json::parse(file.payload.substr(line + 1, bytes))) {
        Member &member = parts.members.emplace_back(Member{one.at("name"), ""});
        ExpectedMember expected{member.name, one.at("bytes"), {}};
        REQUIRE(core::parse_hex(one.at("sha256").get<std::string>(), expected.sha256));
        unpacker.next(expected, [&](std::string_view piece) { member.content += piece; });
    }
    return parts;
}

std::string refusal(const Parts &parts) {
    const std::string list = parts.list.value_or(list_of(parts.members)).dump(1);
    const std::string payload = "members " + std::to_string(list.size()) + "\n" + list + pack(parts.members);
    json manifest = parts.manifest;
    if (manifest.is_object() && !manifest.contains("payload")) {
        manifest["payload"] = {
            {"bytes", payload.size()}, {"sha256", core::hex(core::sha256_of(payload))}, {"recipients", json::array()}};
    }
    Trust trust;
    trust.allow_unsigned = true;
    try {
        open(parse_package(print_package(manifest.dump(1), payload, nullptr), "p.opdock"), trust);
    } catch (const cli::Failure &failure) {
        CHECK(failure.code == exit_not_trusted);
        return failure.what();
    }
    return {};
}

// One of the documents, and a function that makes a package with another one in its place.
struct Document {
    const char *name;
    json text;
    std::function<void(Parts &, const json &)> put;
};

std::vector<Document> documents() {
    const Parts parts = sample_parts();
    json manifest = parts.manifest;
    manifest["payload"] = {{"bytes", 1},
                           {"sha256", std::string(64, '0')},
                           {"recipients", {{{"key", "0123456789abcdef"}, {"sealed", std::string(160, '0')}}}}};
    return {
        {"manifest", manifest, [](Parts &into, const json &text) { into.manifest = text; }},
        {"members", list_of(parts.members), [](Parts &into, const json &text) { into.list = text; }},
        {"contents.json", json::parse(parts.members.at(0).content),
         [](Parts &into, const json &text) { into.say(text.dump(1)); }},
    };
}

// The message for a package with `text` in the place of the document.
std::string refusal(const Document &document, const json &text) {
    Parts parts = sample_parts();
    document.put(parts, text);
    return refusal(parts);
}

// Finds the pointers to all values of a text.
void find_all(const json &text, const std::string &at, std::vector<std::string> &found) {
    found.push_back(at);
    if (text.is_structured()) {
        for (const auto &[key, value] : text.items()) {
            find_all(value, at + "/" + key, found);
        }
    }
}

std::vector<std::string> pointers(const json &text) {
    std::vector<std::string> found;
    find_all(text, "", found);
    return found;
}

// "p.opdock: NAME:LINE:COLUMN: /to/the/value: expected ..., found ...", for the value at the pointer, one in it or one
// around it.
void check_place(const std::string &message, const std::string &name, const std::string &at) {
    CAPTURE(message);
    CAPTURE(at);
    std::smatch parts;
    const std::regex form("p\\.opdock: " + name +
                          ":[0-9]+:[0-9]+: (((/[^ ]*): )?expected .*, found .*|nested deeper .*)");
    REQUIRE(std::regex_match(message, parts, form));
    const std::string way = parts[3].str() + "/";
    CHECK(((at + "/").starts_with(way) || way.starts_with(at + "/")));
    CHECK(message.find("exception") == std::string::npos);
}

} // namespace

TEST_CASE("whatever value of a package's lists is of another type, it is refused with its file, place and pointer") {
    CHECK(refusal(sample_parts()).empty());
    const json values[] = {nullptr, true, -1, 1.5, "\x01", json::array(), json::object()};
    for (const Document &document : documents()) {
        for (const std::string &at : pointers(document.text)) {
            for (const json &value : values) {
                json text = document.text;
                json &there = text[json::json_pointer(at)];
                const bool is_meant = std::string_view(value.type_name()) == there.type_name() && !value.is_object();
                if (is_meant || (at == "/abi" && value.is_null())) {
                    continue;
                }
                there = value;
                CAPTURE(value);
                check_place(refusal(document, text), document.name, at);
            }
        }
    }
}

TEST_CASE("whatever field a package's lists lack, it is named with its file and place") {
    for (const Document &document : documents()) {
        for (const std::string &at : pointers(document.text)) {
            const json::json_pointer pointer(at);
            json text = document.text;
            if (at.empty() || !text[pointer.parent_pointer()].is_object() || pointer.back() == "old_path") {
                continue;
            }
            text[pointer.parent_pointer()].erase(pointer.back());
            const bool is_added = at == "/payload"; // by the test
            if (!is_added) {
                const std::string message = refusal(document, text);
                check_place(message, document.name, at);
                CHECK(message.ends_with("expected a field '" + pointer.back() + "', found none"));
            }
        }
    }
}

TEST_CASE("what no package says is refused with what there may be in its place") {
    const struct {
        const char *document, *at;
        json value;
        const char *message;
    } cases[] = {
        {"manifest", "/schema", "opdock.package/2", ":37:29: /schema: expected 'opdock.package/1', the only schema "},
        {"manifest", "/device_type", "acme", ": /device_type: expected a device such as 'Acme_A1', found 'acme'"},
        {"manifest", "/serial", 0, ": /serial: expected an integer from 1 to 9007199254740992, found 0"},
        {"manifest", "/tasks", json::array(), ": /tasks: expected at least one task, found an empty list"},
        {"manifest", "/tasks/1", "mine", ": /tasks/1: expected 'inference', 'post_train' or 'train', found 'mine'"},
        {"manifest", "/tasks/1", "inference", ": /tasks/1: expected tasks in alphabetical order, each once, found "},
        {"manifest", "/abi/built_for", {1}, ": /abi/built_for: expected two numbers, found a list"},
        {"manifest", "/backends/0/name", "../up", ": /backends/0/name: expected a name of letters, digits and ._-, "},
        {"manifest", "/backends/0/commit", "main",
         ": /backends/0/commit: expected a full id of git's sha1, 40 digits of 0-9a-f, found 'main'"},
        {"manifest", "/backends/0/tree", std::string(64, '0'), "/tree: expected a full id of git's sha1, 40 digits of"},
        {"manifest", "/payload/sha256", "x", ": /payload/sha256: expected 64 digits of 0-9a-f, found 'x'"},
        {"manifest", "/payload/recipients/0/key", "x",
         "/key: expected the id of a key, 16 digits of 0-9a-f, found 'x'"},
        {"manifest", "/payload/recipients/0/sealed", "0", "/sealed: expected a sealed key, 160 digits of 0-9a-f, "},
        {"manifest", "/backends/0/format", "md5", ": /backends/0/format: expected 'sha1' or 'sha256', found 'md5'"},
        {"members", "", json::array(), ":1:1: expected a list that begins with 'contents.json', found an empty list"},
        {"members", "/0/name", "x", ": /0/name: expected 'contents.json', which comes first, found 'x'"},
        {"members", "/0/bytes", 1u << 30u, ": /0/bytes: expected at most 32.0 MiB of contents.json, found 1.0 GiB"},
        {"members", "/1/bytes", 1ull << 33u, ": /1/bytes: expected at most 4.0 GiB of all members, found more"},
        {"members", "/1/bytes", json::array(),
         ": /1/bytes: expected an integer from 0 to 18446744073709551615, found "},
        {"members", "/1/sha256", "x", ": /1/sha256: expected 64 digits of 0-9a-f, found 'x'"},
        {"members", "/2/name", "patches/0", ": /2/name: expected a name that no other member has, found "},
        {"contents.json", "/backends", json::array(), ": /backends: expected a list of 1, as in the manifest, found "},
        {"contents.json", "/attachments/0/kind", "evil",
         ": /attachments/0/kind: expected 'plugin', 'manifest', 'signature', 'tune', 'policy' or 'license', found "},
        {"contents.json", "/attachments/0/kind", 1, ": /attachments/0/kind: expected a text, found 1"},
        {"contents.json", "/attachments/0/name", "a/b/c", ": /attachments/0/name: expected a file's name, with at "},
        {"contents.json", "/attachments/1/name", "lib/zz.so",
         "/attachments/1/name: expected a name that no host takes for a plugin, found 'lib/zz.so'"},
        {"contents.json", "/attachments/0/name", "1.opdock/x",
         "not one of install's own names (opdock-installed.json, plugin.json, *.opdock), found '1.opdock/x'"},
        {"contents.json", "/attachments/0/name", "opdock-installed.json/x", "found 'opdock-installed.json/x'"},
        {"contents.json", "/attachments/0/name", "plugin.json/x", "found 'plugin.json/x'"},
        {"contents.json", "/attachments/0/name", "x/plugin.json", ": /attachments/0/name: expected another name than "},
        {"contents.json", "/attachments/1/name", "libacme/libacme.so", "/1/name: expected a name that no other file "},
        {"contents.json", "/attachments/0/name", "LICENSE/x", "/0/name: expected a folder whose name no file has, "},
        {"contents.json", "/attachments/0/member", "x", ": /attachments/0/member: expected the name of a member, "},
        {"contents.json", "/attachments/0/member", "contents.json", ": /attachments/0/member: expected the name of "},
        {"contents.json", "/attachments/0/member", "patches/0", ": /attachments/0/member: expected a member that no "},
        {"contents.json", "/backends/0/changes/0/status", "MM",
         "/changes/0/status: expected one of A, D, M, R and T, found 'MM'"},
        {"contents.json", "/backends/0/changes/0/status", "D",
         "/changes/0/status: expected the status that git gives for these modes and paths, found 'D'"},
        {"contents.json", "/backends/0/changes/0/blob", "z",
         "/changes/0/blob: expected a full id of git's sha1, 40 digits of 0-9a-f, found 'z'"},
        {"contents.json", "/backends/0/submodules/0/commit", std::string(64, '0'),
         "/submodules/0/commit: expected a full id of git's sha1, 40 digits of 0-9a-f, found "},
        {"contents.json", "/backends/0/changes/0/old_blob", "",
         "/changes/0/old_blob: expected a full id of git's sha1, 40 digits of 0-9a-f, found ''"},
        {"contents.json", "/backends/0/changes/0/mode", 0104755,
         "/changes/0/mode: expected the mode of a file, link or submodule of git, found 35309"},
        {"contents.json", "/backends/0/changes/0/mode", 1u << 20u, "/mode: expected an integer from 0 to 57344, "},
        {"contents.json", "/backends/0/changes/0/path", "../up", "/path: expected a path within a tree, found '../up'"},
        {"contents.json", "/backends/0/converted/0/path", {{"hex", "2f"}}, "expected a path within a tree, found '/'"},
        {"contents.json", "/backends/0/crlf/0", {{"hex", "2"}}, "/crlf/0/hex: expected pairs of 0-9a-f, found '2'"},
        {"contents.json", "/backends/0/crlf/0", "converted",
         "/crlf/0: expected a path that is not listed twice, found 'converted'"},
        {"contents.json", "/backends/0/submodules/0/path", "a\nb", "/path: expected a path without a line feed, "},
    };
    for (const auto &one : cases) {
        for (const Document &document : documents()) {
            if (document.name == std::string(one.document)) {
                json text = document.text;
                text[json::json_pointer(one.at)] = one.value;
                const std::string message = refusal(document, text);
                CAPTURE(message);
                check_place(message, document.name, one.at);
                CHECK(message.find(one.message) != std::string::npos);
            }
        }
    }
}

TEST_CASE("a change is of the status that its modes and paths have, and of a path that no other change has") {
    const auto refusal_of = [](char status, const std::string &old_path, uint32_t old_mode, uint32_t mode) {
        Package package = sample();
        package.backends[0].changes.list.push_back(package.backends[0].changes.list[0]);
        Change &change = package.backends[0].changes.list[1];
        change.path = "file";
        change.old_path = old_path;
        change.status = status;
        change.old_mode = old_mode;
        change.mode = mode;
        Trust trust;
        trust.allow_unsigned = true;
        try {
            open(parse_package(print(package, nullptr), "p.opdock"), trust);
        } catch (const cli::Failure &failure) {
            CHECK(failure.code == exit_not_trusted);
            return std::string(failure.what());
        }
        return std::string();
    };
    constexpr uint32_t none = 0, file = 0100644, program = 0100755, link = 0120000;
    const struct {
        std::string good; // the valid status, if any
        const char *old_path;
        uint32_t old_mode, mode;
    } cases[] = {
        {"A", "file", none, file},
        {"D", "file", file, none},
        {"M", "file", file, program},
        {"M", "file", file, file},
        {"T", "file", file, link},
        {"T", "file", submodule_mode, file},
        {"R", "moved", file, program},
        {"R", "moved", link, link},
        {"", "moved", none, file},
        {"", "moved", file, none},
        {"", "moved", file, link},
        {"", "file", none, none},
        {"M", "file", submodule_mode, submodule_mode},
    };
    for (const auto &one : cases) {
        for (const char status : std::string("ADMRT")) {
            CAPTURE(status);
            CAPTURE(one.old_path);
            CAPTURE(one.old_mode);
            CAPTURE(one.mode);
            const std::string message = refusal_of(status, one.old_path, one.old_mode, one.mode);
            const bool is_good = one.good.find(status) != std::string::npos;
            CHECK((message.find("/changes/1/status: expected the status that git gives") == std::string::npos) ==
                  is_good);
            CHECK(message.empty() == is_good);
        }
    }
    // The other change moves "old" to "new".
    for (const char *path : {"old", "new"}) {
        const std::string message = refusal_of('R', path, file, file);
        CHECK(message.ends_with(": /backends/0/changes/1/old_path: expected a path that is not listed twice, found '" +
                                std::string(path) + "'"));
    }
}

TEST_CASE("a package without files says so by an empty list, and null is none") {
    Parts parts = sample_parts();
    parts.members.resize(1);
    parts.manifest["backends"] = json::array();
    parts.say(R"({"backends": [], "attachments": []})");
    CHECK(refusal(parts).empty());
    parts.say(R"({"backends": [], "attachments": null})");
    CHECK(refusal(parts) == "p.opdock: contents.json:1:36: /attachments: expected a list, found null");
    parts.say(R"({"backends": null, "attachments": []})");
    CHECK(refusal(parts) == "p.opdock: contents.json:1:17: /backends: expected a list, found null");
}

TEST_CASE("a member that is listed, and that contents.json gives no place, is refused") {
    Parts parts = sample_parts();
    parts.members.push_back({"patches/1", "a stray one"});
    CHECK(refusal(parts) == "p.opdock: contents.json names no change or file for the member 'patches/1'");
}
