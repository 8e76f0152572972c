// Plugins that a host accepts, depending on their location and their signatures.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access_list.hpp"
#include "made_host.hpp"
#include "paths.hpp"
#include "signer.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::content_of;
using opdock::test::MadeHost;
using opdock::test::message_of;
using opdock::test::Signer;
using opdock::test::TemporaryDirectory;
using opdock::test::write_file;

namespace {

using opdock::test::fixtures_folder;
namespace fs = std::filesystem;

// A machine with plugins in the user's folder, keys of the system and of the user, and a counter of the times that a
// plugin's code ran.
class Machine {
  public:
    Machine() {
        write_file(counter_, "");
        setenv("OPDOCK_FIXTURE_COUNTER", counter_.c_str(), 1);
        set_mode(directory_.path() / "data/opdock/plugins", 0755);
    }
    ~Machine() { unsetenv("OPDOCK_FIXTURE_COUNTER"); }
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;

    fs::path folder() const { return directory_.path() / "data/opdock/plugins"; }
    fs::path install(const std::string &fixture = "libcounts_tries.so", const std::string &name = "libacme.so") const {
        const fs::path file = folder() / name;
        write_file(file.string() + ".new", content_of(fixtures_folder() / fixture));
        fs::rename(file.string() + ".new", file);
        return file;
    }
    fs::path manifest(const std::string &text) const {
        write_file(folder() / "plugin.json", text);
        return folder() / "plugin.json";
    }
    void trust(const Signer &signer) const {
        write_file(directory_.path() / "system.trust" / (signer.key().name + ".pub"), print(signer.key()));
    }
    void trust_as_user(const Signer &signer) const {
        write_file(directory_.path() / "config/opdock/trust.d" / (signer.key().name + ".pub"), print(signer.key()));
    }
    fs::path key_file(const Signer &signer) const {
        return directory_.path() / "system.trust" / (signer.key().name + ".pub");
    }
    void system_policy(const std::string &text) const { write_file(directory_.path() / "policy.yaml", text); }

    MadeHost host(RawEnvironment environment = {}) const {
        environment.emplace("XDG_DATA_HOME", (directory_.path() / "data").string());
        environment.emplace("XDG_CONFIG_HOME", (directory_.path() / "config").string());
        environment.emplace("PLUGIN_LOG_LEVEL", "DEBUG");
        return MadeHost(environment, (directory_.path() / "policy.yaml").string(), {}, {}, {}, false,
                        (directory_.path() / "system.trust").string());
    }
    std::uintmax_t tries() const { return fs::file_size(counter_); }
    std::string cache() const { return (directory_.path() / "cache").string(); }

    static void set_mode(const fs::path &path, mode_t mode) {
        fs::create_directories(path);
        REQUIRE(::chmod(path.c_str(), mode) == 0);
    }

  private:
    TemporaryDirectory directory_;
    fs::path counter_ = directory_.path() / "tries";
};

const RawEnvironment required = {{"PLUGIN_TRUST", "require"}};

nlohmann::json plugin(MadeHost &host, std::size_t index = 0) {
    return host->describe()["plugins"].at(index);
}

// "loaded", or the rejection's code.
std::string verdict(MadeHost &host, std::size_t index = 0) {
    const nlohmann::json record = plugin(host, index);
    return record["status"] == "loaded" ? "loaded" : record["code"].get<std::string>();
}

std::string verdict(const Machine &machine, const RawEnvironment &environment = required) {
    MadeHost host = machine.host(environment);
    return verdict(host);
}

std::string reason(const Machine &machine) {
    MadeHost host = machine.host(required);
    return plugin(host)["reason"];
}

void write_signatures(const fs::path &library, const std::vector<FileSignature> &signatures) {
    write_file(library.string() + ".sig", print(signatures));
}

} // namespace

// --- where it lies
// ------------------------------------------------------------------------------------------------------

TEST_CASE("plugins in a folder of the user's own are taken without a word") {
    const Machine machine;
    machine.install();
    for (const char *strict : {"0", "1"}) {
        MadeHost host = machine.host({{"PLUGIN_STRICT", strict}});
        CHECK(verdict(host) == "loaded");
        CHECK(host.logged("somebody else") == 0);
    }
}

TEST_CASE("a folder that everybody may write to is one warning for all plugins in it") {
    const Machine machine;
    machine.install("libgood.so", "libgood.so");
    machine.install("libsecond_vendor.so", "libsecond_vendor.so");
    Machine::set_mode(machine.folder(), 0777);
    MadeHost host = machine.host();
    CHECK(verdict(host, 0) == "loaded");
    CHECK(verdict(host, 1) == "loaded");
    CHECK(host.logged("everybody may write to the folder '" + machine.folder().string() + "' (mode 0777)") == 1);
    CHECK(host.logged("Run `chmod o-w '" + machine.folder().string() + "'`") == 1);
}

TEST_CASE("strict mode rejects what lies where others may write, and runs none of it") {
    const Machine machine;
    machine.install();
    Machine::set_mode(machine.folder().parent_path(), 0777);
    MadeHost host = machine.host({{"PLUGIN_STRICT", "1"}});
    CHECK(verdict(host) == "OPDOCK-E060");
    CHECK(machine.tries() == 0);
    CHECK(plugin(host)["id"] == ""); // not even its note was read
    const std::string text = plugin(host)["reason"];
    CHECK(text.starts_with(
        "'libacme.so' is not used, because somebody else could put code into it: everybody may write to the folder '" +
        machine.folder().parent_path().string() + "' (mode 0777).\nExpected that only root and"));
}

TEST_CASE("a library that everybody may write to has a warning of its own, and is rejected in strict mode") {
    const Machine machine;
    const fs::path file = machine.install();
    REQUIRE(::chmod(file.c_str(), 0646) == 0);
    {
        MadeHost host = machine.host();
        CHECK(verdict(host) == "loaded");
        REQUIRE(plugin(host)["warnings"].size() == 1);
        CHECK(contains(plugin(host)["warnings"][0], "everybody may write to the file '" + file.string() + "'"));
        CHECK(host.logged("everybody may write to the file") == 1);
    }
    CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}}) == "OPDOCK-E060");
}

TEST_CASE("a library behind a link is judged where it really lies") {
    const Machine machine;
    const TemporaryDirectory elsewhere;
    const fs::path file = elsewhere.write("lib/libbehind_a_link.so.1", content_of(fixtures_folder() / "libgood.so"));
    fs::create_symlink(file, machine.folder() / "libacme.so");
    CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}}) == "loaded");
    Machine::set_mode(file.parent_path(), 0777);
    CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}}) == "OPDOCK-E060");
}

TEST_CASE("an access list that lets somebody write is as bad as a mode that does") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install();
    write_signatures(file, {acme.sign_file(file)});
    for (const fs::path &place : {file, machine.folder()}) {
        CAPTURE(place.string());
        CHECK(verdict(machine) == "loaded");
        opdock::test::let_write(place.string(), ACL_USER, 4242);
        CHECK(verdict(machine) == "OPDOCK-E060");
        REQUIRE(::chmod(place.c_str(), 0755) == 0);
    }
    opdock::test::let_write(machine.key_file(acme).string(), ACL_GROUP, 4242);
    CHECK(verdict(machine) == "OPDOCK-E063");
}

TEST_CASE("a manifest that everybody may write to is as bad as a library") {
    const Machine machine;
    machine.install();
    const fs::path manifest = machine.manifest(R"({"library": "libacme.so"})");
    REQUIRE(::chmod(manifest.c_str(), 0666) == 0);
    CHECK(verdict(machine, {}) == "loaded");
    CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}}) == "OPDOCK-E060");
}

TEST_CASE("a plugin of a stranger is used with a warning, and rejected in strict mode") {
    if (::geteuid() != 0) {
        return; // only root may give files away
    }
    const Machine machine;
    REQUIRE(::chown(machine.install().c_str(), 4242, 0) == 0);
    CHECK(verdict(machine, {}) == "loaded");
    CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}}) == "OPDOCK-E060");
}

TEST_CASE("a plugin that the program loads late is judged by its place as well") {
    const Machine machine;
    const TemporaryDirectory open_to_all;
    const fs::path file = open_to_all.write("libgood.so", content_of(fixtures_folder() / "libgood.so"));
    Machine::set_mode(open_to_all.path(), 0777);
    MadeHost strict = machine.host({{"PLUGIN_STRICT", "1"}});
    CHECK(contains(message_of([&] { strict->load(file.string()); }), "OPDOCK-E060"));
    MadeHost lenient = machine.host();
    lenient->load(file.string());
    CHECK(lenient.logged("everybody may write to the folder") == 1);
}

TEST_CASE("what was found out of a folder is not believed when a plugin is loaded late from it") {
    const Machine machine;
    machine.install("libgood.so", "libgood.so");
    MadeHost host = machine.host({{"PLUGIN_STRICT", "1"}});
    CHECK(verdict(host) == "loaded");
    const fs::path late = machine.install("libscaler.so", "libscaler.so");
    Machine::set_mode(machine.folder(), 0777);
    CHECK(contains(message_of([&] { host->load(late.string()); }), "OPDOCK-E060"));
    Machine::set_mode(machine.folder(), 0755);
    host->load(late.string());
}

// --- the libraries it needs
// ------------------------------------------------------------------------------------------------------

TEST_CASE(
    "a plugin that takes libraries from the working directory is used with a warning, and rejected in strict mode") {
    for (const char *fixture : {"libneeds_library_in_working_directory.so", "libneeds_library_after_colon.so",
                                "libneeds_library_by_path.so"}) {
        CAPTURE(fixture);
        const Machine machine;
        const Signer acme("acme");
        machine.trust(acme);
        const fs::path file = machine.install(fixture);
        fs::copy_file(fixtures_folder() / "libraries/libdependency.so", machine.folder() / "libdependency.so");
        write_signatures(file, {acme.sign_file(file)});
        CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}}) == "OPDOCK-E064");
        CHECK(verdict(machine, required) == "OPDOCK-E064");
        MadeHost host = machine.host();
        CHECK(host.logged("are used, though it would load libraries from the working directory") == 1);
    }
}

TEST_CASE("where trust is required, a signed plugin does not bring a library that others may write to") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install("libneeds_library_beside.so");
    write_signatures(file, {acme.sign_file(file)});
    const auto library = [&](const char *name) {
        fs::copy_file(fixtures_folder() / "libraries" / name, machine.folder() / name);
        REQUIRE(::chmod((machine.folder() / name).c_str(), 0644) == 0);
        return machine.folder() / name;
    };
    library("libneeds_another.so");
    const fs::path last = library("libdependency.so");
    for (const RawEnvironment &environment : {required, RawEnvironment{{"PLUGIN_STRICT", "1"}}}) {
        CHECK(verdict(machine, environment) == "loaded");
    }
    REQUIRE(::chmod(last.c_str(), 0666) == 0);
    for (const RawEnvironment &environment : {required, RawEnvironment{{"PLUGIN_STRICT", "1"}}}) {
        CHECK(verdict(machine, environment) == "OPDOCK-E065");
    }
    CHECK(contains(reason(machine), "everybody may write to the file '" + last.string() + "'"));
    {
        MadeHost host = machine.host();
        CHECK(verdict(host) == "loaded");
        CHECK(host.logged("everybody may write to the file '" + last.string() + "'") == 1);
    }
    if (::geteuid() == 0) { // only root may give files away
        REQUIRE(::chmod(last.c_str(), 0644) == 0);
        REQUIRE(::chown(last.c_str(), 65534, 65534) == 0);
        CHECK(verdict(machine) == "OPDOCK-E065");
    }
}

TEST_CASE("what the scan cache remembers of a plugin does not vouch for its libraries") {
    const Machine machine;
    machine.install("libneeds_library_beside.so");
    for (const char *name : {"libneeds_another.so", "libdependency.so"}) {
        fs::copy_file(fixtures_folder() / "libraries" / name, machine.folder() / name);
        REQUIRE(::chmod((machine.folder() / name).c_str(), 0644) == 0);
    }
    const RawEnvironment strict = {{"XDG_CACHE_HOME", machine.cache()}, {"PLUGIN_STRICT", "1"}};
    CHECK(verdict(machine, strict) == "loaded");
    REQUIRE(::chmod((machine.folder() / "libdependency.so").c_str(), 0666) == 0);
    CHECK(verdict(machine, strict) == "OPDOCK-E065");
}

TEST_CASE("LD_LIBRARY_PATH counts where libraries are judged") {
    const Machine machine;
    const TemporaryDirectory open_to_all;
    machine.install("libneeds_library_beside.so");
    for (const char *name : {"libneeds_another.so", "libdependency.so"}) {
        fs::copy_file(fixtures_folder() / "libraries" / name, machine.folder() / name);
        REQUIRE(::chmod((machine.folder() / name).c_str(), 0644) == 0);
    }
    Machine::set_mode(open_to_all.path(), 0777);
    CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}, {"LD_LIBRARY_PATH", open_to_all.path().string()}}) ==
          "OPDOCK-E065");
    CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}, {"LD_LIBRARY_PATH", ":"}}) == "OPDOCK-E064");
    CHECK(verdict(machine, {{"PLUGIN_STRICT", "1"}, {"LD_LIBRARY_PATH", ""}}) == "loaded");
}

TEST_CASE("a plugin whose name as a library is a path is rejected, and none of its code runs") {
    const Machine machine;
    machine.install("libnamed_as_path.so");
    CHECK(verdict(machine, {}) == "OPDOCK-E066");
}

TEST_CASE("a plugin that has the name of a library which another plugin needs is said, whichever comes first") {
    for (const bool is_first : {true, false}) {
        const Machine machine;
        machine.install("libnamed_as_library.so", is_first ? "liba.so" : "libz.so");
        machine.install("libneeds_library_after_colon.so", "libn.so");
        fs::copy_file(fixtures_folder() / "libraries/libdependency.so", machine.folder() / "libdependency.so");
        MadeHost host = machine.host();
        CHECK(host.logged("The library with the name 'libdependency.so' (DT_SONAME) is ") == 1);
        CHECK(host.logged("the name of the host's own") == 0);
    }
}

TEST_CASE("a library of one plugin that goes by the name of another plugin's library is said, whichever comes first") {
    for (const bool is_first : {true, false}) {
        const Machine machine;
        const fs::path dependency = fixtures_folder() / "libraries/libdependency.so";
        machine.install("libneeds_other_library.so", is_first ? "liba.so" : "libz.so");
        machine.install("libneeds_library_beside.so", "libn.so");
        fs::copy_file(dependency.parent_path() / "libneeds_another.so", machine.folder() / "libneeds_another.so");
        fs::copy_file(dependency, machine.folder() / "libdependency.so");
        fs::copy_file(dependency, machine.folder() / "libother.so");
        MadeHost host = machine.host();
        CHECK(host.logged("if both are opened, each gets the library that was opened first") == 1);
        CHECK(host.logged("the name of the host's own") == 0); // no library is called libopdock.so
        fs::remove(machine.folder() / "libother.so");
        fs::create_hard_link(machine.folder() / "libdependency.so", machine.folder() / "libother.so");
        MadeHost same = machine.host();
        CHECK(same.logged("if both are opened") == 0);
    }
}

TEST_CASE("a plugin that has the name of the host's own library is said") {
    const Machine machine;
    machine.install("libnamed_as_host.so");
    for (int round = 0; round < 2; ++round) { // the second time from the cache
        MadeHost host = machine.host();
        CHECK(verdict(host) == "loaded");
        CHECK(host.logged("has the library name 'libopdock.so.1' (DT_SONAME), the name of the host's own") == 1);
    }
}

TEST_CASE("a library of a plugin that has the name of the host's own library is said") {
    const Machine machine;
    machine.install("libneeds_library_beside.so", "libn.so");
    fs::copy_file(fixtures_folder() / "libraries/libneeds_another.so", machine.folder() / "libneeds_another.so");
    fs::copy_file(fixtures_folder() / "libnamed_as_host.so", machine.folder() / "libdependency.so");
    MadeHost host = machine.host();
    CHECK(host.logged("libdependency.so', whose name is 'libopdock.so.1' (DT_SONAME), the name of the host's own") ==
          1);
}

TEST_CASE("the host's own library is none of another name, wherever a plugin would take it from") {
    const Machine machine;
    machine.install("libneeds_library_beside.so", "libn.so");
    const fs::path libraries = fixtures_folder() / "libraries";
    // Replaces the needed library's name in the file with that of the host's library, which has the same length.
    std::string needing = content_of(libraries / "libneeds_another.so");
    const std::string other = "libdependency.so";
    const std::string own = "libopdock.so.001";
    REQUIRE(other.size() == own.size());
    REQUIRE(needing.find(other) != std::string::npos);
    needing.replace(needing.find(other), other.size(), own);
    write_file(machine.folder() / "libneeds_another.so", needing);
    SUBCASE("the system's") {}
    SUBCASE("one beside it") {
        fs::copy_file(libraries / "libdependency.so", machine.folder() / own);
    }
    MadeHost host = machine.host();
    CHECK(host.logged("the name of the host's own") == 0);
}

TEST_CASE("symbols that there is one of in the process are said, and kept out by no mode") {
    const Machine machine;
    machine.install("libunique_symbol.so");
    const RawEnvironment strict = {{"XDG_CACHE_HOME", machine.cache()}, {"PLUGIN_STRICT", "1"}};
    for (int round = 0; round < 2; ++round) { // the second time from the cache
        MadeHost host = machine.host(strict);
        CHECK(verdict(host) == "loaded");
        CHECK(host.logged("(STB_GNU_UNIQUE), such as 'fixture_unique_symbol'") == 1);
    }
}

TEST_CASE("a plugin behind a link is opened by the folder that it really lies in") {
    const Machine machine;
    const TemporaryDirectory elsewhere;
    for (const char *name : {"libneeds_another.so", "libdependency.so"}) {
        elsewhere.write(name, content_of(fixtures_folder() / "libraries" / name));
    }
    const fs::path file =
        elsewhere.write("libbehind_a_link.so.1", content_of(fixtures_folder() / "libneeds_library_beside.so"));
    fs::create_symlink(file, machine.folder() / "libacme.so");
    MadeHost host = machine.host({{"PLUGIN_STRICT", "1"}});
    CHECK(verdict(host) == "loaded"); // it finds the library beside it
    CHECK(plugin(host)["path"] == (machine.folder() / "libacme.so").string());
    opdock::test::Rows rows;
    CHECK(host.op("fixture.add").try_call({rows.x, rows.x}, {rows.y}) == OPDOCK_OK);
}

TEST_CASE("where /proc is not mounted a plugin is rejected with that reason") {
    const Machine machine;
    machine.install("libgood.so");
    const pid_t child = ::fork();
    if (child == 0) {
        const unsigned own_user = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
        if (::unshare(static_cast<int>(CLONE_NEWNS | own_user)) != 0 ||
            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
            ::_exit(77);
        }
        MadeHost host = machine.host();
        ::_exit(verdict(host) == "OPDOCK-E067" && contains(plugin(host)["reason"], "/proc is not mounted") ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        MESSAGE("not tried: this machine lets nobody here hide /proc");
        return;
    }
    CHECK(WEXITSTATUS(status) == 0);
}

// --- who signed it
// ------------------------------------------------------------------------------------------------------

TEST_CASE("without PLUGIN_TRUST nobody looks at signatures") {
    const Machine machine;
    write_file(machine.install().string() + ".sig", "nonsense");
    MadeHost host = machine.host();
    CHECK(verdict(host) == "loaded");
    CHECK(host.logged("sign") == 0);
}

TEST_CASE("where trust is required, an unsigned plugin is rejected before any of its code runs") {
    const Machine machine;
    const fs::path file = machine.install();
    MadeHost host = machine.host(required);
    CHECK(verdict(host) == "OPDOCK-E061");
    CHECK(machine.tries() == 0);
    CHECK(host->find_op("badco.next") == nullptr);
    CHECK(plugin(host)["reason"] ==
          "'libacme.so' is not signed: expected its signature in '" + file.string() +
              ".sig', but there is no such file.\nAsk its vendor for a signature. opdock's own plugins have none: sign "
              "them, and what you built yourself, with a key of your own (docs/trust.md). Or, if you know that this is "
              "the file it should be, list its SHA-256 under trusted_sha256 of a policy file: " +
              hex(sha256_of(content_of(file))) + "\nTrust is decided by PLUGIN_TRUST.");
}

TEST_CASE("what the scan cache remembers of a plugin does not make it trusted") {
    const Machine machine;
    machine.install();
    CHECK(verdict(machine, {{"XDG_CACHE_HOME", machine.cache()}}) == "loaded");
    CHECK(machine.tries() == 1);
    CHECK(verdict(machine, {{"XDG_CACHE_HOME", machine.cache()}, {"PLUGIN_TRUST", "require"}}) == "OPDOCK-E061");
}

TEST_CASE("PLUGIN_TRUST=warn uses an unsigned plugin and says so, in strict mode as well") {
    const Machine machine;
    machine.install();
    for (const char *strict : {"0", "1"}) {
        MadeHost host = machine.host({{"PLUGIN_TRUST", "warn"}, {"PLUGIN_STRICT", strict}});
        CHECK(verdict(host) == "loaded");
        CHECK(host.logged("'libacme.so' is not signed") == 1);
        CHECK(contains(plugin(host)["warnings"][0], "Trust is decided by PLUGIN_TRUST."));
    }
    machine.install("libreturns_error.so");
    MadeHost host = machine.host({{"PLUGIN_TRUST", "warn"}});
    CHECK(plugin(host)["status"] == "rejected");
    CHECK(plugin(host)["warnings"].empty()); // warnings concern only plugins that are used
}

TEST_CASE("a plugin signed with a trusted key of the system or of the user is taken") {
    const Signer acme("acme");
    for (const bool of_user : {false, true}) {
        const Machine machine;
        const fs::path file = machine.install();
        write_signatures(file, {Signer("other").sign_file(file), acme.sign_file(file)});
        CHECK(verdict(machine) == "OPDOCK-E063");
        of_user ? machine.trust_as_user(acme) : machine.trust(acme);
        MadeHost host = machine.host(required);
        CHECK(verdict(host) == "loaded");
        CHECK(host.logged("is trusted: signed with " + acme.key().text() + " of '") == 1);
        CHECK(plugin(host)["warnings"].empty());
    }
}

TEST_CASE("a signature by a key nobody trusts says which key that is and where keys belong") {
    const Machine machine;
    const Signer acme("acme");
    const fs::path file = machine.install();
    write_signatures(file, {acme.sign_file(file)});
    machine.trust(Signer("somebody-else"));
    CHECK(verdict(machine) == "OPDOCK-E063");
    CHECK(reason(machine).starts_with("'libacme.so' is signed with key " + acme.key().id() +
                                      ", but none of the 1 trusted keys matches.\nExpected a key in "));
    CHECK(machine.tries() == 0);
}

TEST_CASE("a key of the same name is not the same key") {
    const Machine machine;
    const fs::path file = machine.install();
    write_signatures(file, {Signer("acme").sign_file(file)});
    machine.trust(Signer("acme"));
    CHECK(verdict(machine) == "OPDOCK-E063");
}

TEST_CASE("a trusted key in a file that others may write to is not trusted") {
    const Machine machine;
    const Signer acme("acme");
    const fs::path file = machine.install();
    write_signatures(file, {acme.sign_file(file)});
    machine.trust(acme);
    REQUIRE(::chmod(machine.key_file(acme).c_str(), 0666) == 0);
    MadeHost host = machine.host(required);
    CHECK(verdict(host) == "OPDOCK-E063");
    CHECK(host.logged("The key '" + machine.key_file(acme).string() + "' is not used: everybody may write") == 1);
}

TEST_CASE("a library that was replaced after it was signed is rejected") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install();
    const std::string before = hex(sha256_of(content_of(file)));
    write_signatures(file, {acme.sign_file(file)});
    machine.install("libgood.so");
    CHECK(verdict(machine) == "OPDOCK-E062");
    CHECK(reason(machine).starts_with("'libacme.so' is not the file that " + acme.key().text() + " signed (" +
                                      file.string() + ".sig:1).\nExpected SHA-256 " + before + ", found " +
                                      hex(sha256_of(content_of(file)))));
}

TEST_CASE("one byte more or another byte makes it another library") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install();
    const std::string library = content_of(file);
    write_signatures(file, {acme.sign_file(file)});
    CHECK(verdict(machine) == "loaded");
    write_file(file, library + '\0');
    CHECK(verdict(machine) == "OPDOCK-E062");
    std::string turned = library;
    turned.back() = static_cast<char>(turned.back() ^ 1);
    write_file(file, turned);
    CHECK(verdict(machine) == "OPDOCK-E062");
}

TEST_CASE("a broken signature file is told from none, with its line") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install();
    const std::string text = print({acme.sign_file(file)});
    for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{100}, text.size() - 1}) {
        write_file(file.string() + ".sig", text.substr(0, size));
        CHECK(verdict(machine) == "OPDOCK-E062");
        CHECK(contains(reason(machine), "the signature of 'libacme.so' cannot be read: " + file.string() + ".sig:"));
    }
    std::string turned = text;
    turned[text.size() - 5] = turned[text.size() - 5] == 'a' ? 'b' : 'a';
    write_file(file.string() + ".sig", turned);
    CHECK(verdict(machine) == "OPDOCK-E062");
    CHECK(contains(reason(machine), "the signature of " + acme.key().text() + " is wrong"));
    write_file(file.string() + ".sig", std::string(most_signature_bytes + 1, '\n'));
    CHECK(verdict(machine) == "OPDOCK-E062");
    CHECK(machine.tries() == 0);
}

TEST_CASE("a plugin found through a manifest needs a signature of both") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install();
    const fs::path manifest = machine.manifest(R"({"library": "libacme.so", "signature": "signed/by-acme.sig"})");
    const fs::path signature = machine.folder() / "signed/by-acme.sig";
    CHECK(verdict(machine) == "OPDOCK-E061");
    write_file(signature, print({acme.sign_file(file)}));
    CHECK(verdict(machine) == "OPDOCK-E062");
    CHECK(contains(reason(machine),
                   "was found through a plugin.json, but " + acme.key().text() + " signed only the library"));
    write_file(signature, print({acme.sign_files(file, manifest)}));
    CHECK(verdict(machine) == "loaded");
    machine.manifest(R"({"library": "libacme.so", "signature": "signed/by-acme.sig", "tune": "other.yaml"})");
    CHECK(verdict(machine) == "OPDOCK-E062");
    CHECK(contains(reason(machine),
                   "was found through a plugin.json other than the one that " + acme.key().text() + " signed"));
}

TEST_CASE("a manifest that nobody signed takes no trusted plugin away, wherever it is found before it") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install();
    write_signatures(file, {acme.sign_file(file)});
    const fs::path other = machine.folder() / "../manifest/plugin.json";
    write_file(other, R"({"library": ")" + file.string() + R"("})");
    RawEnvironment environment = required;
    environment.emplace("PLUGIN_MODULES", other.lexically_normal().string());
    MadeHost host = machine.host(environment);
    CHECK(verdict(host, 0) == "OPDOCK-E062");
    CHECK(verdict(host, 1) == "loaded");
    CHECK(host->describe()["plugins"].size() == 2);
    MadeHost trusting = machine.host({{"PLUGIN_MODULES", other.lexically_normal().string()}}); // accepted, once
    CHECK(verdict(trusting, 0) == "loaded");
    CHECK(trusting->describe()["plugins"].size() == 1);
}

TEST_CASE("a library that was signed with its manifest may be named alone") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install();
    write_signatures(file, {acme.sign(sha256_of(content_of(file)), sha256_of(std::string_view("a manifest")))});
    CHECK(verdict(machine) == "loaded");
}

TEST_CASE("a plugin whose SHA-256 is listed needs no signature, until it changes") {
    const Machine machine;
    const fs::path file = machine.install();
    std::string digest = hex(sha256_of(content_of(file)));
    digest[0] = static_cast<char>(std::toupper(digest[0]));
    machine.system_policy("trust: require\ntrusted_sha256:\n  - " + std::string(64, '0') + "\n  - '" + digest + "'\n");
    MadeHost host = machine.host();
    CHECK(verdict(host) == "loaded");
    CHECK(host.logged("is trusted: its SHA-256 is listed by ") == 1);
    machine.install("libgood.so");
    CHECK(verdict(machine, {}) == "OPDOCK-E061");
}

TEST_CASE("an enforced trust is above PLUGIN_TRUST, one that is not enforced is below") {
    const Machine machine;
    machine.install();
    machine.system_policy("trust: require\n");
    CHECK(verdict(machine, {}) == "OPDOCK-E061");
    CHECK(verdict(machine, {{"PLUGIN_TRUST", "off"}}) == "loaded");
    machine.system_policy("enforce:\n  trust: require\n");
    CHECK(verdict(machine, {{"PLUGIN_TRUST", "off"}}) == "OPDOCK-E061");
}

TEST_CASE("where trust is required, a place that others may write to is refused without strict") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install();
    write_signatures(file, {acme.sign_file(file)});
    Machine::set_mode(machine.folder(), 0777);
    CHECK(verdict(machine) == "OPDOCK-E060");
}

TEST_CASE("a plugin that is loaded late is judged by the keys of that moment") {
    const Machine machine;
    const Signer acme("acme");
    const TemporaryDirectory elsewhere;
    const fs::path file = elsewhere.write("libgood.so", content_of(fixtures_folder() / "libgood.so"));
    MadeHost host = machine.host(required);
    CHECK(contains(message_of([&] { host->load(file.string()); }), "OPDOCK-E061"));
    write_signatures(file, {acme.sign_file(file)});
    CHECK(contains(message_of([&] { host->load(file.string()); }), "OPDOCK-E063"));
    machine.trust(acme);
    host->load(file.string());
    CHECK(host->find_op("fixture.add") != nullptr);
}

TEST_CASE("what is opened is the file that was judged") {
    const Machine machine;
    const Signer acme("acme");
    machine.trust(acme);
    const fs::path file = machine.install("libgood.so");
    write_signatures(file, {acme.sign_file(file)});
    MadeHost host = machine.host(required);
    REQUIRE(verdict(host) == "loaded");
    machine.install("libsecond_vendor.so"); // after it was judged but before it is first chosen
    opdock::test::Rows rows;
    CHECK(host.op("fixture.add").try_call({rows.x, rows.x}, {rows.y}) != OPDOCK_OK);
    CHECK(host.logged("OPDOCK-E054") >= 1);
}

TEST_CASE("the policy in force shows trust and where it came from") {
    const Machine machine;
    const std::string digest(64, 'a');
    machine.system_policy("trusted_sha256: [" + digest + "]\n");
    MadeHost host = machine.host({{"PLUGIN_TRUST", "Warn"}});
    const nlohmann::json policy = host->describe()["policy"];
    CHECK(policy["trust"] == "warn");
    CHECK(policy["sources"]["trust"] == "PLUGIN_TRUST");
    CHECK(policy["trusted_sha256"] == nlohmann::json{digest});
    CHECK(contains(policy["sources"]["trusted_sha256"], "policy.yaml:1:1"));
    MadeHost plain = Machine().host();
    CHECK(plain->describe()["policy"]["trust"] == "off");
    CHECK(plain->describe()["policy"]["trusted_sha256"].is_null());
    CHECK(plain->describe()["policy"]["sources"]["trust"] == "built-in");
}

TEST_CASE("trust is no setting of a program or a thread: plugins are judged before there is one") {
    const Machine machine;
    MadeHost host = machine.host();
    CHECK(contains(message_of([&] { (void)host.policy("trust", "require"); }),
                   "setting 'trust' cannot be set by a program: plugins are judged when the host opens"));
}

TEST_CASE("a wrong value of trust is an error of opening the host") {
    const Machine machine;
    CHECK(message_of([&] {
              machine.host({{"PLUGIN_TRUST", "requires"}});
          }) ==
          "PLUGIN_TRUST, column 1: expected 'off', 'warn' or 'require', found 'requires'; did you mean 'require'?");
    machine.system_policy("trusted_sha256: [12ab]\n");
    CHECK(contains(message_of([&] { machine.host(); }),
                   "policy.yaml:1:18: expected the SHA-256 of a library (64 hexadecimal digits, from `plugin-sign "
                   "digest`), found '12ab'"));
    machine.system_policy("trusted_sha256: 12ab\n");
    CHECK(contains(message_of([&] { machine.host(); }), "expected a list of SHA-256 digests, found '12ab'"));
    machine.system_policy("devices: {cuda: {trust: require}}\n");
    MadeHost host = machine.host();
    CHECK(host.logged("unknown key 'trust'; it applies to the whole process and belongs beside 'devices'") == 1);
}
