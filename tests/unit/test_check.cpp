#include "host/check.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "made_host.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;

namespace {

const std::filesystem::path fixtures = OPDOCK_FIXTURES;

} // namespace

TEST_CASE("a sound plugin checks out, with what its note says") {
    const auto result = check_file(fixtures / "libgood.so", "");
    CHECK(result["path"] == (fixtures / "libgood.so").string());
    CHECK(result["status"] == "ok");
    CHECK(result["code"] == "");
    CHECK(result["reason"] == "");
    CHECK(result["note"]["id"] == "acme");
    CHECK(result["note"]["devices"] == nlohmann::json{"cpu"});
}

TEST_CASE("a check names the symbols that no library defines") {
    const auto result = check_file(fixtures / "libunresolved_symbol.so", "");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E021");
    CHECK(result["reason"].get<std::string>().find("'acme_forgotten_function'") != std::string::npos);
    CHECK(result["note"]["id"] == "unresolved-symbol");
}

TEST_CASE("a check names the libraries that are missing") {
    const auto result = check_file(fixtures / "libmissing_library.so", "");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E020");
    CHECK(result["reason"].get<std::string>().find("'libopdock_absent.so'") != std::string::npos);
}

TEST_CASE("a check finds that the entry is missing") {
    CHECK(check_file(fixtures / "libno_entry.so", "")["code"] == "OPDOCK-E025");
}

TEST_CASE("a check runs none of the plugin's code") {
    CHECK(check_file(fixtures / "libexits_when_opened.so", "")["status"] == "ok");
}

TEST_CASE("a check does not run what a file names for the loader to run with it") {
    const opdock::test::TemporaryDirectory folder;
    const std::filesystem::path ran = folder.write("ran", "");
    setenv("OPDOCK_FIXTURE_COUNTER", ran.c_str(), 1);
    for (const char *fixture : {"libnames_auditor.so", "libnames_auditor_of_needed.so"}) {
        const auto result = check_file(fixtures / fixture, "");
        CHECK(result["status"] == "ok");
        REQUIRE(result["warnings"].size() == 1);
        CHECK(opdock::test::contains(result["warnings"][0].get<std::string>(), "DT_AUDIT"));
        CHECK(std::filesystem::file_size(ran) == 0);
    }
    unsetenv("OPDOCK_FIXTURE_COUNTER");
}

TEST_CASE("a file that is rejected before its note has none") {
    const auto result = check_file(fixtures / "libnowhere.so", "");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E001");
    CHECK(result["note"].is_null());
}

TEST_CASE("a check tells what hosts learnt of the file") {
    const opdock::test::TemporaryDirectory cache, folder;
    const std::filesystem::path file = folder.path() / "libacme.so";
    const auto warnings = [&] { return check_file(file, cache.path().string())["warnings"]; };
    const auto put = [&](const char *fixture) {
        std::filesystem::copy_file(fixtures / fixture, folder.path() / "new");
        std::filesystem::rename(folder.path() / "new", file);
    };
    const auto open_host = [&] {
        HostOptions options;
        options.environment = make_environment("PLUGIN_", {}, false);
        options.modules = {file.string()};
        options.standard_directories = std::vector<SearchDirectory>{};
        options.cache_folder = cache.path().string();
        options.log = Log([](void *, int32_t, const char *) {}, nullptr);
        const Host host(std::move(options));
    };
    put("libgood.so");
    CHECK(warnings().empty());
    open_host();
    CHECK(warnings().empty());
    put("libaborts_in_entry.so");
    REQUIRE(warnings().size() == 1);
    CHECK(opdock::test::contains(warnings()[0].get<std::string>(), "'libacme.so' was changed since a host scanned it"));
    open_host();
    REQUIRE(warnings().size() == 1);
    CHECK(opdock::test::contains(warnings()[0].get<std::string>(), "hosts do not try it again (OPDOCK-E050): "));
}

TEST_CASE("a check reads the tune file that a plugin.json names, and else the one beside the library") {
    const opdock::test::TemporaryDirectory folder;
    std::filesystem::create_directories(folder.path() / "lib");
    std::filesystem::copy_file(fixtures / "libgood.so", folder.path() / "lib" / "libacme.so");
    const auto warnings = [&] { return check_file(folder.path() / "lib" / "libacme.so", "")["warnings"]; };
    CHECK(warnings().empty());
    folder.write("lib/acme.tune.yaml", "schema: opdock.tune/1\nbeside: 1\n");
    REQUIRE(warnings().size() == 1);
    CHECK(opdock::test::contains(warnings()[0].get<std::string>(), "lib/acme.tune.yaml:2:1: unknown field 'beside'"));
    folder.write("share.yaml", "schema: opdock.tune/1\nnamed: 1\n");
    folder.write("plugin.json", R"({"library": "lib/libacme.so", "tune": "share.yaml"})");
    REQUIRE(warnings().size() == 1);
    CHECK(opdock::test::contains(warnings()[0].get<std::string>(), "share.yaml:2:1: unknown field 'named'"));
    folder.write("plugin.json", R"({"library": "lib/libother.so", "tune": "share.yaml"})");
    REQUIRE(warnings().size() == 1);
    CHECK(opdock::test::contains(warnings()[0].get<std::string>(), "'beside'"));
}
