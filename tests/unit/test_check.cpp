#include "check.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace opdock::core;

namespace {

const std::filesystem::path fixtures = OPDOCK_FIXTURES;

} // namespace

TEST_CASE("a sound plugin checks out, with what its note says") {
    const auto result = check_file(fixtures / "libgood.so");
    CHECK(result["path"] == (fixtures / "libgood.so").string());
    CHECK(result["status"] == "ok");
    CHECK(result["code"] == "");
    CHECK(result["reason"] == "");
    CHECK(result["note"]["id"] == "acme");
    CHECK(result["note"]["devices"] == nlohmann::json{"cpu"});
}

TEST_CASE("a check names the symbols that no library defines") {
    const auto result = check_file(fixtures / "libunresolved_symbol.so");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E021");
    CHECK(result["reason"].get<std::string>().find("'acme_forgotten_function'") != std::string::npos);
    CHECK(result["note"]["id"] == "unresolved-symbol");
}

TEST_CASE("a check names the libraries that are missing") {
    const auto result = check_file(fixtures / "libmissing_library.so");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E020");
    CHECK(result["reason"].get<std::string>().find("'libopdock_absent.so'") != std::string::npos);
}

TEST_CASE("a check finds that the entry is missing") {
    CHECK(check_file(fixtures / "libno_entry.so")["code"] == "OPDOCK-E025");
}

TEST_CASE("a check runs none of the plugin's code") {
    CHECK(check_file(fixtures / "libexits_when_opened.so")["status"] == "ok");
}

TEST_CASE("a file that is rejected before its note has none") {
    const auto result = check_file(fixtures / "libnowhere.so");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E001");
    CHECK(result["note"].is_null());
}
