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

TEST_CASE("a check goes as far as opening the file") {
    const auto result = check_file(fixtures / "libunresolved_symbol.so");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E021");
    CHECK(result["note"]["id"] == "unresolved-symbol");
}

TEST_CASE("a file that is rejected before its note has none") {
    const auto result = check_file(fixtures / "libnowhere.so");
    CHECK(result["status"] == "rejected");
    CHECK(result["code"] == "OPDOCK-E001");
    CHECK(result["note"].is_null());
}
