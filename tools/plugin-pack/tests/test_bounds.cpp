// Bounds on the cost of reading a package, whatever its contents.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "commands.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;
using nlohmann::json;

namespace {

Trust trust_in_anybody() {
    Trust trust;
    trust.allow_unsigned = true;
    return trust;
}

Package small_package() {
    Package package;
    package.device_type = "Acme_A1";
    package.tasks = {"train"};
    return package;
}

json sample_manifest() {
    return json::parse(parse_package(print(small_package(), nullptr), "p.opdock").manifest);
}

std::string package_of(const std::string &manifest) {
    return print_package(manifest, "", nullptr);
}

// The header of a member of a tar archive.
std::string header_of(const std::string &name, uint64_t bytes, char type = '0') {
    std::string header(512, '\0');
    char size[24] = {};
    (void)std::snprintf(size, sizeof size, "%011llo", static_cast<unsigned long long>(bytes));
    header.replace(0, name.size(), name);
    header.replace(124, 11, size, 11);
    header[156] = type;
    header.replace(257, 5, "ustar");
    return header;
}

json listed(const std::string &name, uint64_t bytes, const std::string &content) {
    return {{"name", name}, {"bytes", bytes}, {"sha256", core::hex(core::sha256_of(content))}};
}

std::string package_with_payload(const std::string &payload) {
    json manifest = sample_manifest();
    manifest["payload"] = {
        {"bytes", payload.size()}, {"sha256", core::hex(core::sha256_of(payload))}, {"recipients", json::array()}};
    return print_package(manifest.dump(), payload, nullptr);
}

std::string package_with_list(const std::string &list, const std::string &archive = {}) {
    return package_with_payload("members " + std::to_string(list.size()) + "\n" + list + archive);
}

std::string package_with_contents(const std::string &contents) {
    return package_with_list(json::array({listed("contents.json", contents.size(), contents)}).dump(),
                             pack({{"contents.json", contents}}));
}

// A package with a plugin as a member of this size, whose part of the archive is `plugin`.
std::string package_with_plugin(uint64_t bytes, const std::string &plugin) {
    const json file = {{"kind", "plugin"}, {"name", "libacme/libacme.so"}, {"member", "attachments/0"}};
    std::string contents = json{{"backends", json::array()}, {"attachments", {file}}}.dump();
    contents.resize(512, ' ');
    return package_with_list(
        json::array({listed("contents.json", contents.size(), contents), listed("attachments/0", bytes, "")}).dump(),
        header_of("contents.json", contents.size()) + contents + plugin);
}

std::string refusal(const std::string &text) {
    try {
        open(parse_package(text, "p.opdock"), trust_in_anybody());
    } catch (const cli::Failure &failure) {
        CHECK(failure.code == exit_not_trusted);
        return failure.what();
    }
    return {};
}

// The result of `body`, or its exception, if the process may take this much more memory than it has. Not under
// sanitizers, which map more than any limit allows.
std::string within([[maybe_unused]] size_t bytes, const std::function<std::string()> &body) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        uint64_t size = 0, resident = 0, shared = 0, code = 0, library = 0, data = 0; // in pages
        std::ifstream("/proc/self/statm") >> size >> resident >> shared >> code >> library >> data;
        rlimit limit = {};
        getrlimit(RLIMIT_DATA, &limit);
        limit.rlim_cur = data * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + bytes;
        setrlimit(RLIMIT_DATA, &limit);
#endif
        std::string text;
        try {
            text = body();
        } catch (const std::exception &error) {
            text = error.what();
        }
        const bool is_said = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
        _exit(is_said ? 0 : 1);
    }
    close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<size_t>(got));
    }
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    return text;
}

std::string repeated(const std::string &text, size_t times) {
    std::string all;
    for (size_t i = 0; i < times; ++i) {
        all += text;
    }
    return all;
}

constexpr size_t little = size_t{16} << 20;

} // namespace

TEST_CASE("a manifest that is deep, large or has a key twice is refused with the package's name and the place") {
    const std::string good = sample_manifest().dump();
    const std::string begin = good.substr(0, good.size() - 1);
    const auto place = [&](size_t behind) { return "p.opdock: manifest:1:" + std::to_string(begin.size() + behind); };
    const std::string nested = repeated("[", 100'000) + repeated("]", 100'000);
    CHECK(refusal(package_of(begin + ",\"x\":" + nested + "}")) == place(13) + ": nested deeper than 8 levels");
    CHECK(refusal(package_of(begin + ",\"device_type\":\"Evil_E1\"}")) ==
          place(14) + ": field 'device_type' is given twice; keep one");
    CHECK(refusal(package_of(begin + ",\"x\":{\"y\":1,\"y\":2}}")) ==
          place(15) + ": field 'y' is given twice; keep one");
    CHECK(refusal(package_of("\xef\xbb\xbf" + good)) ==
          "p.opdock: manifest:1:1: this is not JSON: unexpected byte order mark; save it as UTF-8 without one");
    CHECK(refusal(package_of(begin + ",}")) == place(2) + ": this is not JSON: unexpected '}'");
    CHECK(refusal(package_of(begin + ",\"x\":[" + repeated("1,", 200'000) + "1]}")).find("more than 200000 values") !=
          std::string::npos);

    const std::string head = "opdock.package/1\nkey -\nsignature -\nmanifest ";
    CHECK(refusal(head + "6000000\n" + begin + ",\"x\":" + repeated("[", 6'000'000)) ==
          "p.opdock: its manifest has 5.7 MiB, but may have at most 1.0 MiB");
    Package package = small_package();
    package.message.assign(size_t{1} << 20, 'x'); // its manifest would be too large to read
    CHECK_THROWS_WITH_AS(print(package, nullptr), doctest::Contains("but a manifest may have at most 1.0 MiB"),
                         cli::Failure);
}

TEST_CASE("what a payload says of itself is within the same bounds") {
    const auto refused = [](const std::string &text, const std::string &message) {
        CHECK(refusal(text) == "p.opdock: " + message);
    };
    const std::string nested = repeated("[", 100'000) + repeated("]", 100'000);
    refused(package_with_list(nested), "members:1:4: nested deeper than 3 levels");
    for (const char *bytes : {"1000000000000000000000000000000", "18446744073709551616", "-1", "x", "10", ""}) {
        refused(package_with_payload("members " + std::string(bytes) + "\n[]"), "the payload has an invalid beginning");
    }
    refused(package_with_list("\xef\xbb\xbf[]"),
            "members:1:1: this is not JSON: unexpected byte order mark; save it as UTF-8 without one");
    refused(package_with_list(R"([{"name": "a", "name": "b"}])"),
            "members:1:21: field 'name' is given twice; keep one");
    refused(package_with_list(std::string((size_t{8} << 20) + 1, ' ')),
            "its list of members has 8.0 MiB, but may have at most 8.0 MiB");
    CHECK(refusal(package_with_list("[" + repeated("{},", 200'001) + "{}]")).find("more than 200001 values") !=
          std::string::npos);
    refused(package_with_contents(nested), "contents.json:1:65: nested deeper than 64 levels");
    refused(package_with_contents(R"({"backends": [], "attachments": [], "backends": []})"),
            "contents.json:1:46: field 'backends' is given twice; keep one");
    CHECK(refusal(package_with_contents("[" + repeated("1,", 600'000) + "1]")).find("more than 600000 values") !=
          std::string::npos);
    refused(package_with_list(json::array({listed("contents.json", uint64_t{3} << 30, "")}).dump(),
                              header_of("contents.json", uint64_t{3} << 30)),
            "members:1:21: /0/bytes: expected at most 32.0 MiB of contents.json, found 3.0 GiB");
    refused(package_with_list("[]"),
            "members:1:1: expected a list that begins with 'contents.json', found an empty list");
}

TEST_CASE("a package that unpacks to much is verified, inspected and installed in little memory") {
    const test::TemporaryDirectory folder;
    const std::string file = (folder.path() / "p.opdock").string(), plugins = (folder.path() / "plugins").string();
    constexpr size_t bytes = 3 * little;
    {
        Package package = small_package();
        package.attachments = {{"license", "LICENSE", std::string(bytes, '\0')}, {"license", "empty", ""}};
        Backend backend{"fw", "", "sha1", {}};
        const std::string id(40, 'a');
        backend.changes.commit = backend.changes.tree = id;
        backend.changes.list.push_back({'M', "a", "a", 0100644, 0100644, id, id, std::string(bytes, '\0')});
        backend.changes.converted = {{"b", std::string(bytes, '\0')}};
        package.backends = {backend};
        folder.write("p.opdock", print(package, nullptr));
    }
    CHECK(std::filesystem::file_size(file) < 100'000);
    for (const char *command : {"verify", "inspect", "install"}) {
        CAPTURE(command);
        std::vector<std::string> arguments = {command, file, "--allow-unsigned", "--json"};
        if (command == std::string("install")) {
            arguments.insert(arguments.end(), {"--folder", plugins});
        }
        CHECK(within(little, [&] { return std::to_string(tool.run(arguments)); }) == "0");
    }
    const std::filesystem::path installed = std::filesystem::path(plugins) / "Acme_A1-train-fw";
    CHECK(std::filesystem::file_size(installed / "LICENSE") == bytes);
    CHECK(std::filesystem::file_size(installed / "empty") == 0);
    CHECK(std::filesystem::status(installed / "LICENSE").permissions() == std::filesystem::perms(0644));
}

TEST_CASE("a member that does not hold what the package says is named, with what it has, in little memory") {
    constexpr uint64_t much = uint64_t{2} << 30;
    const std::string some(1024, 'x'), zeros(1024, '\0');
    const std::pair<std::string, std::string> cases[] = {
        {package_with_plugin(much, header_of("attachments/0", much) + some),
         "the member attachments/0 of the package ends after 1024 of its 2147483648 bytes"},
        {package_with_plugin(much, header_of("attachments/0", 1024) + some + zeros),
         "the member attachments/0 of the package has 1024 bytes, but the package lists 2147483648"},
        {package_with_plugin(512, header_of("attachments/0", much) + some),
         "the member attachments/0 of the package has 2147483648 bytes, but the package lists 512"},
        {package_with_plugin(1024, header_of("attachments/0", 1024) + some + zeros),
         "the member attachments/0 is not the one that was signed"},
        {package_with_plugin(much, ""), "the package ends before its member attachments/0"},
        {package_with_plugin(much, zeros), "the package ends before its member attachments/0"},
        {package_with_plugin(0, header_of("attachments/0", 0) + some),
         "the package holds more than its manifest lists"},
        {package_with_plugin(0, header_of("attachments/0", 0) + std::string(20'000, '\0')),
         "the package holds more than its manifest lists"},
    };
    for (const auto &one : cases) {
        CHECK(within(little, [&] { return refusal(one.first); }) == "p.opdock: " + one.second);
    }
    CHECK(refusal(package_with_plugin(0, header_of("attachments/0", 0) + zeros)).empty());
}

TEST_CASE("headers of an archive that would have a reader do more than read a file are refused") {
    // A map of the holes in a sparse file, in a header of its own: each hole takes memory.
    const std::string sparse = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n";
    for (const char type : {'x', 'g', 'L', 'S', '1', '2', '5', '6'}) {
        CAPTURE(type);
        std::string block = sparse;
        block.resize(512);
        const std::string own = header_of("attachments/0", sparse.size(), type) + block;
        CHECK(refusal(package_with_plugin(0, own + header_of("attachments/0", 0))) ==
              "p.opdock: the content of the package differs from its manifest: expected attachments/0");
    }
    std::string elsewhere = header_of("attachments/0", 0); // with a prefix of the name in another field
    elsewhere[345] = 'x';
    CHECK_FALSE(refusal(package_with_plugin(0, elsewhere)).empty());
    std::string gnu = header_of("attachments/0", 0);
    gnu.replace(257, 8, "ustar  \0", 8);
    CHECK(refusal(package_with_plugin(0, gnu)) ==
          "p.opdock: the content of the package differs from its manifest: expected attachments/0");
    std::string negative = header_of("attachments/0", 0);
    negative[124] = '-';
    CHECK(refusal(package_with_plugin(0, negative)) ==
          "p.opdock: the member attachments/0 of the package has no number of bytes, but the package lists 0");
}

TEST_CASE("a member is one change or file, and each of these has one") {
    const auto contents_with = [](const std::vector<std::string> &members) {
        json files = json::array();
        for (const std::string &member : members) {
            files.push_back({{"kind", "license"}, {"name", "L" + std::to_string(files.size())}, {"member", member}});
        }
        return json{{"backends", json::array()}, {"attachments", files}}.dump();
    };
    // With the members "0" and "1".
    const auto refusal_of = [&](const std::vector<std::string> &members) {
        const std::string contents = contents_with(members);
        return refusal(package_with_list(
            json::array({listed("contents.json", contents.size(), contents), listed("0", 1, "x"), listed("1", 1, "y")})
                .dump(),
            pack({{"contents.json", contents}, {"0", "x"}, {"1", "y"}})));
    };
    CHECK(refusal_of({"1", "0"}).empty());
    CHECK(refusal_of({"2"}) == "p.opdock: contents.json:1:46: /attachments/0/member: expected the name of a member "
                               "that the package lists, found '2'");
    CHECK(refusal_of({"0", "0"}) == "p.opdock: contents.json:1:90: /attachments/1/member: expected a member that no "
                                    "other change or file has, found '0'");
    CHECK(refusal_of({"0"}) == "p.opdock: contents.json names no change or file for the member '1'");
    CHECK(refusal_of({"0", "1", "2"}) ==
          "p.opdock: contents.json:1:16: /attachments: expected no more changes and files "
          "than the package has members, found more");
}
