#include "host/check.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "dynamic_elf_file.hpp"
#include "inspect/dependencies.hpp"
#include "inspect/linkage.hpp"
#include "made_host.hpp"
#include "paths.hpp"
#include "signer.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::DynamicElfFile;
using opdock::test::Signer;
using opdock::test::TemporaryDirectory;
using opdock::test::write_file;

namespace {

const std::filesystem::path fixtures = opdock::test::fixtures_folder();

nlohmann::json check(const std::filesystem::path &file, const RawEnvironment &variables = {},
                     const std::string &cache = "") {
    CheckSettings settings = check_settings(make_environment("PLUGIN_", variables, false), "/nonexistent");
    settings.cache_folder = cache;
    return check_file(file, settings);
}

void open_host(const std::filesystem::path &file, const std::string &cache) {
    HostOptions options;
    options.environment = make_environment("PLUGIN_", {}, false);
    options.modules = {file.string()};
    options.standard_directories = std::vector<SearchDirectory>{};
    options.cache_folder = cache;
    options.log = Log([](void *, int32_t, const char *) {}, nullptr);
    const Host host(std::move(options));
}

const RawEnvironment strict = {{"PLUGIN_STRICT", "1"}};

} // namespace

TEST_CASE("a sound plugin checks out, with what its note says") {
    const auto result = check(fixtures / "libgood.so");
    CHECK(result["path"] == (fixtures / "libgood.so").string());
    CHECK(result["status"] == "ok");
    CHECK(result["code"] == "");
    CHECK(result["reason"] == "");
    CHECK(result["note"]["id"] == "acme");
    CHECK(result["note"]["devices"] == nlohmann::json{"cpu"});
}

TEST_CASE("a check tells what a file shows and asks of the dynamic loader") {
    const auto good = check(fixtures / "libgood.so")["linkage"];
    CHECK(good["exports"] == nlohmann::json{"opdock_register"});
    CHECK(good["search_paths"].empty());
    CHECK(good["relocates_text"] == false);
    CHECK(good["versions"].contains("GLIBC"));
    CHECK(check(fixtures / "libsearch_path.so")["linkage"]["search_paths"] == nlohmann::json{"/opt/acme/lib"});
    CHECK(check(fixtures / "libgood.so.absent")["linkage"] == nullptr);
}

TEST_CASE("a name in a file that holds line feeds stays one line of a check") {
    const TemporaryDirectory directory;
    std::ifstream file(fixtures / "libsearch_path.so", std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at = bytes.find("/opt/acme/lib");
    REQUIRE(at != std::string::npos);
    bytes.replace(at, 9, "/opt\nok\x1b\n");
    write_file(directory.path() / "libforged.so", bytes);
    CHECK(check(directory.path() / "libforged.so")["linkage"]["search_paths"] ==
          nlohmann::json{R"(/opt\x0aok\x1b\x0a/lib)"});
}

TEST_CASE("versions are compared number by number") {
    CHECK(is_older("2.9", "2.34"));
    CHECK(is_older("2.2", "2.2.5"));
    CHECK_FALSE(is_older("2.34", "2.9"));
    CHECK_FALSE(is_older("3.4.29", "3.4.29"));
}

TEST_CASE("a check names the symbols that no library defines") {
    const auto result = check(fixtures / "libunresolved_symbol.so");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E021");
    CHECK(result["reason"].get<std::string>().find("'acme_forgotten_function'") != std::string::npos);
    CHECK(result["note"]["id"] == "unresolved-symbol");
}

TEST_CASE("a check names the libraries that are missing") {
    const auto result = check(fixtures / "libmissing_library.so");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E020");
    CHECK(result["reason"].get<std::string>().find("'libopdock_absent.so'") != std::string::npos);
}

TEST_CASE("a check finds libraries where the environment has the loader look for them") {
    const TemporaryDirectory folder;
    const std::filesystem::path plugin = folder.path() / "libneeds.so";
    std::filesystem::copy_file(fixtures / "libneeds_library_beside.so", plugin);
    CHECK(check(plugin)["code"] == "OPDOCK-E020");
    const char *given = std::getenv("LD_LIBRARY_PATH");
    const std::string before = given != nullptr ? given : "";
    setenv("LD_LIBRARY_PATH", (fixtures / "libraries").c_str(), 1);
    const auto found = check(plugin);
    given != nullptr ? setenv("LD_LIBRARY_PATH", before.c_str(), 1) : unsetenv("LD_LIBRARY_PATH");
    CHECK(found["code"] == "");
}

TEST_CASE("a check does not wait for ever for a library that is a pipe") {
    const TemporaryDirectory folder;
    std::filesystem::copy_file(fixtures / "libneeds_library_beside.so", folder.path() / "libneeds.so");
    REQUIRE(mkfifo((folder.path() / "libneeds_another.so").c_str(), 0600) == 0);
    CHECK(check(folder.path() / "libneeds.so").contains("status"));
    CHECK((waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));
}

TEST_CASE("a check reads what the dynamic loader lists to its end, also when that is more than a pipe holds") {
    constexpr size_t libraries = 400;
    const std::string name = "lib" + std::string(180, 'n');
    std::vector<Elf64_Dyn> entries;
    std::string names(1, '\0');
    for (size_t i = 0; i < libraries; ++i) {
        entries.push_back({DT_NEEDED, {names.size()}});
        names += name + std::to_string(i) + ".so" + '\0';
    }
    entries.push_back({DT_STRTAB, {DynamicElfFile::address_of_tables(libraries + 3)}});
    entries.push_back({DT_STRSZ, {names.size()}});
    entries.push_back({DT_NULL, {0}});
    const TemporaryDirectory folder;
    const auto rejection = judge_dependencies(folder.write("libneedy.so", DynamicElfFile(entries, names).bytes()));
    REQUIRE(rejection.has_value());
    CHECK(rejection->code == RejectCode::library_missing);
    CHECK(contains(rejection->message, "'libneedy.so' needs '" + name + "0.so', '"));
    CHECK(contains(rejection->message, "', '" + name + "399.so', which is not found"));
}

TEST_CASE("a check leaves no descriptor open") {
    const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    check(fixtures / "libgood.so");
    const auto before = descriptors();
    for (const char *file : {"libgood.so", "libmissing_library.so", "libunresolved_symbol.so", "libno_note.so"}) {
        check(fixtures / file);
        CHECK(descriptors() == before);
    }
}

TEST_CASE("signals that arrive during a check change nothing, and no process of it is left") {
    struct sigaction before = {};
    struct sigaction ignoring = {};
    ignoring.sa_handler = [](int) {}; // without SA_RESTART: blocking calls are interrupted
    REQUIRE(sigaction(SIGALRM, &ignoring, &before) == 0);
    const itimerval often = {{0, 500}, {0, 500}};
    REQUIRE(setitimer(ITIMER_REAL, &often, nullptr) == 0);
    int found = 0;
    for (int round = 0; round < 20; ++round) {
        found += check(fixtures / "libmissing_library.so")["code"] == "OPDOCK-E020" ? 1 : 0;
    }
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before, nullptr);
    CHECK(found == 20);
    CHECK((waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));
}

TEST_CASE("a check finds that the entry is missing") {
    CHECK(check(fixtures / "libno_entry.so")["code"] == "OPDOCK-E025");
}

TEST_CASE("a check runs none of the plugin's code") {
    CHECK(check(fixtures / "libexits_when_opened.so")["status"] == "ok");
}

TEST_CASE("a check does not run what a file names for the loader to run with it") {
    const opdock::test::TemporaryDirectory folder;
    const std::filesystem::path ran = folder.write("ran", "");
    setenv("OPDOCK_FIXTURE_COUNTER", ran.c_str(), 1);
    for (const char *fixture : {"libnames_auditor.so", "libnames_auditor_of_needed.so"}) {
        const auto result = check(fixtures / fixture);
        CHECK(result["status"] == "ok");
        REQUIRE(result["warnings"].size() == 1);
        CHECK(opdock::test::contains(result["warnings"][0].get<std::string>(), "DT_AUDIT"));
        CHECK(std::filesystem::file_size(ran) == 0);
    }
    unsetenv("OPDOCK_FIXTURE_COUNTER");
}

TEST_CASE("a file that is rejected before its note has none") {
    const auto result = check(fixtures / "libnowhere.so");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E001");
    CHECK(result["note"].is_null());
}

TEST_CASE("a check tells what hosts learnt of the file") {
    const TemporaryDirectory cache, folder;
    const std::filesystem::path file = folder.path() / "libacme.so";
    const auto result = [&] { return check(file, {}, cache.path().string()); };
    const auto put = [&](const char *fixture) {
        std::filesystem::copy_file(fixtures / fixture, folder.path() / "new");
        std::filesystem::rename(folder.path() / "new", file);
    };
    put("libgood.so");
    CHECK(result()["warnings"].empty());
    open_host(file, cache.path().string());
    CHECK(result()["warnings"].empty());
    put("libaborts_in_entry.so");
    CHECK(result()["status"] == "ok");
    REQUIRE(result()["warnings"].size() == 1);
    CHECK(contains(result()["warnings"][0], "'libacme.so' was changed since a host scanned it"));
    open_host(file, cache.path().string());
    CHECK(result()["status"] == "quarantined");
    CHECK(result()["code"] == "OPDOCK-E050");
    CHECK(contains(result()["reason"], "'libacme.so'"));
    CHECK(result()["note"]["id"] == "misbehaves");
    CHECK(result()["warnings"].empty());
}

TEST_CASE("a check tells what hosts leave out of a file that one of them tried") {
    const TemporaryDirectory cache;
    const std::filesystem::path file = fixtures / "libunknown_flag.so";
    CHECK(check(file, {}, cache.path().string())["warnings"].empty());
    open_host(file, cache.path().string());
    const auto result = check(file, {}, cache.path().string());
    CHECK(result["status"] == "ok");
    REQUIRE(result["warnings"].size() == 1);
    CHECK(contains(result["warnings"][0], "implementation 'vendor.faulty' for op 'fixture.faulty' is left out"));
}

TEST_CASE("a check reads what a host remembers of an entry that speaks to its host") {
    const TemporaryDirectory cache;
    const std::filesystem::path file = fixtures / "libregisters_everything.so";
    open_host(file, cache.path().string());
    CHECK(check(file, {}, cache.path().string())["status"] == "ok");
}

TEST_CASE("a check judges the place of a file as a host does") {
    const TemporaryDirectory folder;
    const std::filesystem::path file = folder.path() / "libacme.so";
    std::filesystem::copy_file(fixtures / "libgood.so", file);
    CHECK(check(file, strict)["status"] == "ok");
    REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
    const auto lenient = check(file);
    CHECK(lenient["status"] == "ok");
    REQUIRE(lenient["warnings"].size() == 1);
    CHECK(contains(lenient["warnings"][0], "'libacme.so' is used, though somebody else could put code into it"));
    for (const RawEnvironment &environment : {strict, RawEnvironment{{"PLUGIN_TRUST", "require"}}}) {
        const auto refused = check(file, environment);
        CHECK(refused["status"] == "rejected");
        CHECK(refused["code"] == "OPDOCK-E060");
        CHECK(contains(refused["reason"], "Run `chmod o-w '" + folder.path().string() + "'`"));
    }
}

TEST_CASE("a check judges who signed a file as a host does") {
    const TemporaryDirectory folder, config;
    const std::filesystem::path file = folder.path() / "libacme.so";
    std::filesystem::copy_file(fixtures / "libgood.so", file);
    const auto with = [&](const char *trust) {
        return check(file, {{"PLUGIN_TRUST", trust}, {"XDG_CONFIG_HOME", config.path().string()}});
    };
    const Signer signer("acme");
    CHECK(with("require")["code"] == "OPDOCK-E061");
    CHECK(contains(with("require")["reason"], "Trust is decided by PLUGIN_TRUST."));
    CHECK(with("warn")["status"] == "ok");
    REQUIRE(with("warn")["warnings"].size() == 1);
    CHECK(contains(with("warn")["warnings"][0], "'libacme.so' is not signed"));
    write_file(file.string() + ".sig", print(std::vector{signer.sign_file(file)}));
    CHECK(with("require")["code"] == "OPDOCK-E063");
    config.write("opdock/trust.d/acme.pub", print(signer.key()));
    CHECK(with("require")["status"] == "ok");
    CHECK(with("warn")["warnings"].empty());
    const std::filesystem::path broken = config.write("opdock/trust.d/broken.pub", "no key");
    REQUIRE(with("warn")["warnings"].size() == 1);
    CHECK(contains(with("warn")["warnings"][0], "A key is not used: " + broken.string()));
    std::filesystem::remove(broken);
    std::filesystem::copy_file(fixtures / "libscaler.so", file, std::filesystem::copy_options::overwrite_existing);
    CHECK(with("require")["code"] == "OPDOCK-E062");
    CHECK(with("off")["status"] == "ok");
    // If a plugin is found through a plugin.json, the signature covers that file too.
    write_file(file.string() + ".sig", print(std::vector{signer.sign_file(file)}));
    CHECK(with("require")["status"] == "ok");
    folder.write("plugin.json", R"({"library": "libacme.so"})");
    CHECK(with("require")["code"] == "OPDOCK-E062");
}

TEST_CASE("a policy that keeps a host from opening is an error of a check") {
    CHECK_THROWS_WITH(check(fixtures / "libgood.so", {{"PLUGIN_STRICT", "perhaps"}}),
                      doctest::Contains("PLUGIN_STRICT"));
}

TEST_CASE("in strict mode a check refuses what makes attacks easier, and a wrong tune file") {
    const TemporaryDirectory folder;
    const std::filesystem::path weak = folder.path() / "libweak.so";
    std::filesystem::copy_file(fixtures / "libexecutable_stack.so", weak);
    CHECK(check(weak)["status"] == "ok");
    REQUIRE(check(weak)["warnings"].size() == 1);
    CHECK(contains(check(weak)["warnings"][0], "'libweak.so'"));
    CHECK(contains(check(weak, strict)["reason"], check(weak)["warnings"][0].get<std::string>()));
    CHECK(check(weak, strict)["code"] == "OPDOCK-E009");
    std::filesystem::copy_file(fixtures / "libgood.so", folder.path() / "libacme.so");
    folder.write("acme.tune.yaml", "schema: opdock.tune/1\nbeside: 1\n");
    const auto faulty = check(folder.path() / "libacme.so");
    CHECK(faulty["status"] == "faulty");
    CHECK(faulty["code"] == "OPDOCK-E042");
    CHECK(contains(faulty["reason"], "acme.tune.yaml:2:1: unknown field 'beside'"));
    CHECK(contains(faulty["reason"], "unknown field 'beside'.\nHosts take the plugin and leave these entries out."));
    const auto unread = check(folder.path() / "libacme.so", {{"PLUGIN_TUNE", "off"}});
    CHECK(unread["status"] == "ok");
    CHECK(contains(unread["warnings"].dump(), "acme.tune.yaml:2:1: unknown field 'beside'"));
    const auto refused = check(folder.path() / "libacme.so", strict);
    CHECK(refused["code"] == "OPDOCK-E042");
    CHECK(refused["status"] == "rejected");
    CHECK(contains(refused["reason"], "acme.tune.yaml:2:1: unknown field 'beside'"));
    CHECK(contains(refused["reason"], "\nStrict mode refuses a plugin whose tune file is wrong."));
    CHECK(check(folder.path() / "libacme.so", {{"PLUGIN_STRICT", "1"}, {"PLUGIN_TUNE", "off"}})["status"] == "ok");
    folder.write("acme.tune.yaml", "schema: opdock.tune/1\n");
    CHECK(check(folder.path() / "libacme.so", strict)["status"] == "ok");
}

TEST_CASE("a check reads the tune file that a plugin.json names, and else the one beside the library") {
    const TemporaryDirectory folder;
    std::filesystem::create_directories(folder.path() / "lib");
    std::filesystem::copy_file(fixtures / "libgood.so", folder.path() / "lib" / "libacme.so");
    const auto judged = [&] { return check(folder.path() / "lib" / "libacme.so"); };
    CHECK(judged()["status"] == "ok");
    CHECK(judged()["warnings"].empty());
    folder.write("lib/acme.tune.yaml", "schema: opdock.tune/1\nbeside: 1\n");
    CHECK(contains(judged()["reason"], "lib/acme.tune.yaml:2:1: unknown field 'beside'"));
    REQUIRE(judged()["warnings"].size() == 1);
    CHECK(contains(judged()["warnings"][0], "the tune file's knobs and ops were not checked, because no host has "
                                            "scanned this plugin yet; run `plugin-ls --modules "));
    folder.write("share.yaml", "schema: opdock.tune/1\nnamed: 1\n");
    folder.write("plugin.json", R"({"library": "lib/libacme.so", "tune": "share.yaml"})");
    CHECK(contains(judged()["reason"], "share.yaml:2:1: unknown field 'named'"));
    folder.write("plugin.json", R"({"library": "lib/libother.so", "tune": "share.yaml"})");
    CHECK(contains(judged()["reason"], "'beside'"));
    folder.write("lib/acme.tune.yaml", "schema: opdock.tune/1\ntune: [\n");
    CHECK(judged()["status"] == "faulty");
    CHECK(contains(judged()["reason"], "lib/acme.tune.yaml:"));
}

TEST_CASE("versions of symbols are compared number by number") {
    const std::vector<std::string> ascending = {"GLIBC_2.2.5", "GLIBC_2.3",  "GLIBC_2.3.4",
                                                "GLIBC_2.4",   "GLIBC_2.17", "GLIBC_2.34"};
    for (size_t a = 0; a < ascending.size(); ++a) {
        for (size_t b = 0; b < ascending.size(); ++b) {
            CHECK(is_older(ascending[a], ascending[b]) == (a < b));
        }
    }
}
