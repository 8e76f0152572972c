#include "load.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "temporary_directory.hpp"

using namespace opdock::core;

namespace {

const std::filesystem::path fixtures = OPDOCK_FIXTURES;

Rejection rejection_of(const std::filesystem::path &path) {
    auto loaded = load(path);
    REQUIRE(std::holds_alternative<Rejection>(loaded));
    return std::get<Rejection>(loaded);
}

bool contains(const std::string &text, std::string_view words) {
    return text.find(words) != std::string::npos;
}

bool is_mapped(std::string_view name) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(name) != std::string::npos) {
            return true;
        }
    }
    return false;
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
    registry.register_op = [](opdock_registry *, const opdock_op *) -> opdock_status { return OPDOCK_OK; };
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

TEST_CASE("a plugin's symbols stay its own") {
    const auto first = load(fixtures / "libgood.so");
    const auto second = load(fixtures / "libsecond_vendor.so");
    REQUIRE(std::holds_alternative<Loaded>(first));
    REQUIRE(std::holds_alternative<Loaded>(second));
    CHECK((std::get<Loaded>(first).entry != std::get<Loaded>(second).entry));
}
