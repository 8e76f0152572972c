#include "load/load.hpp"

#include <doctest/doctest.h>

#include "inspect/elf_notes.hpp"
#include "mappings.hpp"
#include "paths.hpp"
#include "signer.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::is_mapped;

namespace {

const std::filesystem::path fixtures = opdock::test::fixtures_folder();

HeldDirectoryPtr directory_of(const std::filesystem::path &path) {
    HeldDirectories directories;
    return directories.of(path);
}

FileIdentity identity_of_file(const std::filesystem::path &path) {
    struct stat status = {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    return identity_of(status);
}

std::variant<Loaded, Rejection> load(const std::filesystem::path &path) {
    return opdock::core::load(*directory_of(path), path.filename().string(), identity_of_file(path));
}

Rejection rejection_of(const std::filesystem::path &path) {
    auto loaded = load(path);
    REQUIRE(std::holds_alternative<Rejection>(loaded));
    return std::get<Rejection>(loaded);
}

bool contains(const std::string &text, std::string_view words) {
    return text.find(words) != std::string::npos;
}

} // namespace

TEST_CASE("a plugin is opened and its entry found") {
    const auto loaded = load(fixtures / "libgood.so");
    REQUIRE(std::holds_alternative<Loaded>(loaded));
    CHECK((std::get<Loaded>(loaded).entry != nullptr));
    CHECK(is_mapped("/libgood.so"));
}

TEST_CASE("a plugin that is let go is unmapped") {
    { const auto loaded = load(fixtures / "libsecond_vendor.so"); }
    CHECK_FALSE(is_mapped("/libsecond_vendor.so"));
}

TEST_CASE("a plugin that is kept stays mapped, and its entry stays callable") {
    opdock_entry entry = nullptr;
    {
        auto loaded = load(fixtures / "libreturns_error.so");
        REQUIRE(std::holds_alternative<Loaded>(loaded));
        entry = std::get<Loaded>(loaded).entry;
        keep_mapped(std::move(std::get<Loaded>(loaded)));
    }
    CHECK(is_mapped("/libreturns_error.so"));
    opdock_registry registry{};
    registry.register_op = [](opdock_registry *, const opdock_op_declaration *) -> opdock_status { return OPDOCK_OK; };
    registry.register_impl = [](opdock_registry *, const opdock_impl *) -> opdock_status { return OPDOCK_OK; };
    registry.fail = [](opdock_registry *, opdock_status status, const char *) { return status; };
    CHECK(entry(&registry) == OPDOCK_FAILED);
}

TEST_CASE("a library that is missing is named, with what to do") {
    const Rejection rejection = rejection_of(fixtures / "libmissing_library.so");
    CHECK(rejection.code == RejectCode::library_missing);
    CHECK(rejection.path == fixtures / "libmissing_library.so");
    CHECK(contains(rejection.message, "'libmissing_library.so' does not load: libopdock_absent.so: "));
    CHECK(contains(rejection.message, "LD_LIBRARY_PATH"));
}

TEST_CASE("a symbol that nobody defines is found when the plugin is opened, and named") {
    const Rejection rejection = rejection_of(fixtures / "libunresolved_symbol.so");
    CHECK(rejection.code == RejectCode::symbol_unresolved);
    CHECK(contains(rejection.message, "acme_forgotten_function"));
    CHECK(contains(rejection.message, "Link the plugin with every library it uses"));
}

TEST_CASE("thread-local memory for which the program has no room left is told, with what to do") {
    const Rejection rejection = rejection_of(fixtures / "libstatic_tls.so");
    CHECK(rejection.code == RejectCode::no_static_tls);
    CHECK(contains(rejection.message, "-ftls-model=initial-exec"));
    CHECK_FALSE(is_mapped("/libstatic_tls.so"));
}

TEST_CASE("a shared object without the entry is rejected and unmapped") {
    const Rejection rejection = rejection_of(fixtures / "libno_entry.so");
    CHECK(rejection.code == RejectCode::entry_missing);
    CHECK(contains(rejection.message, "opdock_register"));
    CHECK_FALSE(is_mapped("/libno_entry.so"));
}

TEST_CASE("what the dynamic loader refuses for other reasons comes with its own words") {
    const opdock::test::TemporaryDirectory directory;
    const Rejection rejection = rejection_of(directory.write("libtext.so", "not a library at all"));
    CHECK(rejection.code == RejectCode::load_failed);
    CHECK(contains(rejection.message, "'libtext.so' does not load: "));
    CHECK_FALSE(contains(rejection.message, "dlerror"));
}

TEST_CASE("the loader's sentences are told apart by what there is to do about them") {
    const auto code_of = [](const char *sentence) {
        const Rejection rejection = explain_refusal("/opt/libacme.so", sentence);
        CHECK(contains(rejection.message, std::string("'libacme.so' does not load: ") + sentence));
        return rejection.code;
    };
    CHECK(code_of("/opt/libacme.so: undefined symbol: acme_start") == RejectCode::symbol_unresolved);
    CHECK(code_of("libacme_rt.so.2: cannot open shared object file: No such file or directory") ==
          RejectCode::library_missing);
    CHECK(code_of("/lib/libc.so.6: version `GLIBC_2.99' not found (required by /opt/libacme.so)") ==
          RejectCode::version_missing);
    CHECK(code_of("/opt/libacme.so: cannot allocate memory in static TLS block") == RejectCode::no_static_tls);
    CHECK(code_of("/opt/libacme.so: file too short") == RejectCode::load_failed);
}

TEST_CASE("a folder is held under the name it was asked for, and one that is not there is told") {
    const opdock::test::TemporaryDirectory directory;
    directory.write("file", "");
    HeldDirectories held;
    const auto code_of = [&](const std::filesystem::path &file) {
        try {
            held.of(file);
            return RejectCode::load_failed;
        } catch (const Rejected &rejected) {
            CHECK(contains(rejected.what(), "the folder '" + file.parent_path().string() + "' cannot be opened: "));
            return rejected.code();
        }
    };
    CHECK(code_of(directory.path() / "none" / "libacme.so") == RejectCode::not_found);
    CHECK(code_of(directory.path() / "file" / "libacme.so") == RejectCode::not_found);
    CHECK(code_of(directory.path() / std::string(300, 'x') / "libacme.so") == RejectCode::unreadable);
    CHECK(held.of("libacme.so")->path() == std::filesystem::current_path().string());
    CHECK(held.of(directory.path() / "liba.so") == held.of(directory.path() / "libb.so"));
}

TEST_CASE("a link to a name that ends a line is not followed, and the message is one line") {
    const opdock::test::TemporaryDirectory directory;
    std::filesystem::create_symlink("a\nb.so", directory.path() / "liba.so");
    try {
        HeldDirectories().follow(directory.path() / "liba.so");
        FAIL("nothing was thrown");
    } catch (const Rejected &rejected) {
        CHECK(rejected.code() == RejectCode::bad_name);
        CHECK(std::string(rejected.what()) ==
              "'liba.so' is a link to 'a\\x0ab.so', a name that contains a line break; rename it.");
    }
}

TEST_CASE("links are followed as far as the kernel would, and no further") {
    const opdock::test::TemporaryDirectory directory;
    directory.write("link0", "");
    for (int i = 1; i <= 41; ++i) {
        std::filesystem::create_symlink("link" + std::to_string(i - 1),
                                        directory.path() / ("link" + std::to_string(i)));
    }
    HeldDirectories held;
    CHECK(held.follow(directory.path() / "link40").name == "link0");
    CHECK(std::filesystem::exists(directory.path() / "link40"));
    std::error_code error;
    CHECK_FALSE(std::filesystem::exists(directory.path() / "link41", error));
    try {
        held.follow(directory.path() / "link41");
        FAIL("nothing was thrown");
    } catch (const Rejected &rejected) {
        CHECK(rejected.code() == RejectCode::unreadable);
        CHECK(contains(rejected.what(), "'link1' is a link that leads through more than 40 other links"));
    }
}

TEST_CASE("a folder that is kept for good serves every host, with one descriptor") {
    const opdock::test::TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libacme.so";
    const HeldDirectoryPtr held = directory_of(file);
    CHECK(directory_of(file) != held);
    KeptDirectory(held).keep();
    const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    const auto before = descriptors();
    CHECK(directory_of(file) == held);
    KeptDirectory(directory_of(file)).keep();
    CHECK(descriptors() == before);
}

TEST_CASE("a folder that is kept for good serves nobody who asks for another of its name, or for it by another") {
    const opdock::test::TemporaryDirectory directory;
    const std::filesystem::path plugins = directory.path() / "plugins", moved = directory.path() / "moved";
    std::filesystem::create_directory(plugins);
    const HeldDirectoryPtr first = directory_of(plugins / "libacme.so");
    KeptDirectory(first).keep();
    std::filesystem::rename(plugins, moved);
    std::filesystem::create_directory(plugins);
    const HeldDirectoryPtr second = directory_of(plugins / "libacme.so");
    CHECK(second != first);
    CHECK(directory_of(moved / "libacme.so") != first); // otherwise messages would name the wrong folder
    KeptDirectory(second).keep();
    CHECK(directory_of(plugins / "libacme.so") == second);
    std::filesystem::remove(plugins);
    std::filesystem::rename(moved, plugins);
    CHECK(directory_of(plugins / "libacme.so") == first);
}

TEST_CASE("a plugin's symbols stay its own") {
    const auto first = load(fixtures / "libgood.so");
    const auto second = load(fixtures / "libsecond_vendor.so");
    REQUIRE(std::holds_alternative<Loaded>(first));
    REQUIRE(std::holds_alternative<Loaded>(second));
    CHECK((std::get<Loaded>(first).entry != std::get<Loaded>(second).entry));
}

TEST_CASE("a file that was replaced after it was judged is not loaded") {
    const opdock::test::TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libacme.so";
    std::filesystem::copy_file(fixtures / "libgood.so", file);
    const FileIdentity judged = identity_of_file(file);
    std::filesystem::copy_file(fixtures / "libthrows.so", directory.path() / "new.so");
    std::filesystem::rename(directory.path() / "new.so", file);
    const auto loaded = opdock::core::load(*directory_of(file), "libacme.so", judged);
    REQUIRE(std::holds_alternative<Rejection>(loaded));
    CHECK(std::get<Rejection>(loaded).code == RejectCode::file_changed);
    CHECK(contains(std::get<Rejection>(loaded).message, "'libacme.so' was changed or replaced after it was checked"));
    CHECK_FALSE(is_mapped("/libacme.so"));
}

TEST_CASE("a file that is replaced while it is opened is not used, and one that is gone is told") {
    const opdock::test::TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libacme.so", other = directory.path() / "other.so";
    std::filesystem::copy_file(fixtures / "libreplaces_itself_when_opened.so", file);
    std::filesystem::copy_file(fixtures / "libgood.so", other);
    const FileIdentity judged = identity_of_file(file);
    setenv("OPDOCK_FIXTURE_FILE", file.c_str(), 1);
    setenv("OPDOCK_FIXTURE_OTHER", other.c_str(), 1);
    const auto replaced = opdock::core::load(*directory_of(file), "libacme.so", judged);
    unsetenv("OPDOCK_FIXTURE_FILE");
    unsetenv("OPDOCK_FIXTURE_OTHER");
    REQUIRE(std::holds_alternative<Rejection>(replaced));
    CHECK(std::get<Rejection>(replaced).code == RejectCode::file_changed);
    CHECK_FALSE(is_mapped("/libacme.so"));
    std::filesystem::remove(file);
    const auto gone = opdock::core::load(*directory_of(file), "libacme.so", judged);
    REQUIRE(std::holds_alternative<Rejection>(gone));
    CHECK(std::get<Rejection>(gone).code == RejectCode::file_changed);
}

TEST_CASE("links to a file are followed once: whoever changes one of them later changes nothing") {
    const opdock::test::TemporaryDirectory directory;
    const auto folder = [&](const char *name) {
        std::filesystem::create_directory(directory.path() / name);
        return directory.path() / name;
    };
    const std::filesystem::path real = folder("real"), links = folder("links"), more = folder("more");
    std::filesystem::copy_file(fixtures / "libgood.so", real / "libfollowed.so.1");
    std::filesystem::copy_file(fixtures / "libsecond_vendor.so", real / "libother.so.1");
    std::filesystem::create_symlink("../more/again.so", links / "libacme.so");
    std::filesystem::create_symlink(real / "libfollowed.so.1", more / "again.so");
    HeldDirectories directories;
    const HeldFile held = directories.follow(links / "libacme.so");
    CHECK(held.name == "libfollowed.so.1");
    CHECK(held.directory->path() == real.string());
    const FileIdentity judged = identity_of_file(real / "libfollowed.so.1");
    std::filesystem::create_symlink(real / "libother.so.1", more / "new");
    std::filesystem::rename(more / "new", more / "again.so");
    const auto loaded = opdock::core::load(*held.directory, held.name, judged);
    REQUIRE(std::holds_alternative<Loaded>(loaded));
    CHECK(is_mapped("/libfollowed.so.1"));
    CHECK_FALSE(is_mapped("/libother.so.1"));
    std::filesystem::create_symlink("circle", links / "circle");
    CHECK_THROWS_AS(directories.follow(links / "circle"), Rejected);
    CHECK(directories.follow(links / "absent.so").name == "absent.so");
}

TEST_CASE("a link in place of the file that was judged is another file, wherever it leads") {
    const opdock::test::TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libacme.so", other = directory.path() / "libother.so";
    std::filesystem::copy_file(fixtures / "libgood.so", file);
    const FileIdentity judged = identity_of_file(file);
    const HeldDirectoryPtr held = directory_of(file);
    std::filesystem::create_hard_link(file, other);
    const FileIdentity linked = identity_of_file(file); // the number of its links changed
    std::filesystem::remove(file);
    std::filesystem::create_symlink(other, file);
    for (const FileIdentity &identity : {judged, linked, identity_of_file(other)}) {
        const auto loaded = opdock::core::load(*held, "libacme.so", identity);
        REQUIRE(std::holds_alternative<Rejection>(loaded));
        CHECK(std::get<Rejection>(loaded).code == RejectCode::file_changed);
    }
    CHECK_THROWS_AS(PluginFile(*held, "libacme.so"), Rejected);
}

TEST_CASE("a library whose name is the path of a plugin is not taken for the plugin") {
    const opdock::test::TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libacme.so";
    std::filesystem::copy_file(fixtures / "libgood.so", file);
    const HeldDirectoryPtr held = directory_of(file);
    std::string bytes = opdock::test::content_of(fixtures / "libnamed_as_path.so");
    constexpr std::string_view name = "/opt/opdock/fixtures/a/path/that/is/long/enough/for/another/libacme.so";
    const std::size_t at = bytes.find(name);
    REQUIRE(at != std::string::npos);
    const std::string path = held->name_for_loader("libacme.so");
    REQUIRE(path.size() < name.size());
    bytes.replace(at, path.size() + 1, path + '\0');
    const auto impostor = load(directory.write("libimpostor.so", bytes));
    REQUIRE(std::holds_alternative<Loaded>(impostor));
    const auto loaded = opdock::core::load(*held, "libacme.so", identity_of_file(file));
    REQUIRE(std::holds_alternative<Loaded>(loaded));
    CHECK((std::get<Loaded>(loaded).entry != std::get<Loaded>(impostor).entry));
    CHECK(std::get<Loaded>(loaded).warning.empty()); // no symbol was replaced
}

TEST_CASE("a file that was renamed into the place of a plugin is opened beside it, as often as that happens") {
    const opdock::test::TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libacme.so";
    const HeldDirectoryPtr held = directory_of(file);
    std::vector<Loaded> opened;
    for (const char *build : {"libgood.so", "libgood_newer.so", "libgood.so"}) {
        CAPTURE(build);
        std::filesystem::copy_file(fixtures / build, directory.path() / "new");
        std::filesystem::rename(directory.path() / "new", file);
        for (int time = 0; time < 2; ++time) { // the second time it is already mapped
            auto loaded = opdock::core::load(*held, "libacme.so", identity_of_file(file));
            REQUIRE(std::holds_alternative<Loaded>(loaded));
            opened.push_back(std::move(std::get<Loaded>(loaded)));
        }
        CHECK((opened.back().entry == opened[opened.size() - 2].entry));
    }
    CHECK((opened[0].entry != opened[2].entry));
    CHECK((opened[0].entry != opened[4].entry)); // the same code, from another file
    CHECK(opened[1].warning.empty());
    const std::string old = read_build_id(fixtures / "libgood.so"),
                      newer = read_build_id(fixtures / "libgood_newer.so");
    REQUIRE(old.size() >= 16);
    CHECK(opened[2].warning == "'" + file.string() + "' was replaced after this process first opened it: build " +
                                   newer + " is used from now on, and build " + old +
                                   " stays in memory until the process ends");
    CHECK(contains(opened[4].warning, "build " + old + " is used from now on, and build " + newer + " stays"));
}

TEST_CASE("a newer build is not opened beside an older one with which it would share symbols") {
    const opdock::test::TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libacme.so";
    const HeldDirectoryPtr held = directory_of(file);
    const auto load_as = [&](const char *build) {
        std::filesystem::copy_file(fixtures / build, directory.path() / "new");
        std::filesystem::rename(directory.path() / "new", file);
        return opdock::core::load(*held, "libacme.so", identity_of_file(file));
    };
    const auto first = load_as("libunique_symbol.so");
    REQUIRE(std::holds_alternative<Loaded>(first));
    const auto newer = load_as("libunique_symbol_newer.so");
    REQUIRE(std::holds_alternative<Rejection>(newer));
    CHECK(std::get<Rejection>(newer).code == RejectCode::file_changed);
    CHECK(contains(std::get<Rejection>(newer).message, "Restart the process to use the new file."));
    CHECK(std::holds_alternative<Loaded>(load_as("libunique_symbol.so"))); // the same build
}

TEST_CASE("words of the dynamic loader name a file that was replaced by its path") {
    const Rejection rejection =
        explain_refusal("/opt/libacme.so", "/proc/self/fd/9/././libacme.so: undefined symbol: acme_start");
    CHECK(contains(rejection.message, "does not load: /opt/libacme.so: undefined symbol: acme_start."));
    CHECK(contains(
        explain_refusal("/opt/libacme.so", "in /proc/self/fd/9/libacme.so: /proc/self/fd/9/libb.so: odd").message,
        "does not load: in /opt/libacme.so: /opt/libb.so: odd."));
}

TEST_CASE("a plugin that cannot be opened is not taken for a library that is missing") {
    const Rejection rejection = explain_refusal(
        "/opt/libacme.so", "/proc/self/fd/9/libacme.so: cannot open shared object file: Permission denied");
    CHECK(rejection.code == RejectCode::unreadable);
    CHECK(contains(rejection.message, "/opt/libacme.so: cannot open shared object file: Permission denied"));
    CHECK_FALSE(contains(rejection.message, "Install that library"));
}

TEST_CASE("a link that is put in place of the folder leads nowhere: the folder that was judged is held") {
    const opdock::test::TemporaryDirectory directory;
    std::filesystem::create_directory(directory.path() / "plugins");
    std::filesystem::create_directory(directory.path() / "evil");
    std::filesystem::copy_file(fixtures / "libgood.so", directory.path() / "plugins" / "libacme.so");
    std::filesystem::copy_file(fixtures / "libsecond_vendor.so", directory.path() / "evil" / "libacme.so");
    const FileIdentity judged = identity_of_file(directory.path() / "plugins" / "libacme.so");
    const HeldDirectoryPtr held = directory_of(directory.path() / "plugins" / "libacme.so");
    std::filesystem::rename(directory.path() / "plugins", directory.path() / "moved");
    std::filesystem::create_directory_symlink("evil", directory.path() / "plugins");
    const auto loaded = opdock::core::load(*held, "libacme.so", judged);
    REQUIRE(std::holds_alternative<Loaded>(loaded));
    CHECK(is_mapped("/moved/libacme.so"));
    CHECK_FALSE(is_mapped("/evil/libacme.so"));
}
