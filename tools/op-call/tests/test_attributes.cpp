#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "op-call/arguments.hpp"
#include "opdock/abi/dtype.h"

using namespace opdock::op_call;
using opdock::cli::UsageError;

TEST_CASE("attributes take the type of their parameter") {
    const auto value = [](const char *type, const char *text) {
        return parse_attribute({"a", type, nullptr, false, ""}, text).value;
    };
    CHECK(std::get<int64_t>(value("int", "-7")) == -7);
    CHECK(std::get<double>(value("float", "1e-6")) == 1e-6);
    CHECK(std::get<double>(value("float", "2")) == 2.0);
    CHECK(std::get<bool>(value("bool", "yes")));
    CHECK_FALSE(std::get<bool>(value("bool", "0")));
    CHECK(std::get<std::string>(value("string", "a b")) == "a b");
    CHECK(opdock_dtype_pack(std::get<DLDataType>(value("dtype", "e4m3"))) == OPDOCK_E4M3);
    CHECK(std::get<std::vector<int64_t>>(value("int[]", "[1,-2]")) == std::vector<int64_t>{1, -2});
    CHECK(std::get<std::vector<int64_t>>(value("int[]", "3")) == std::vector<int64_t>{3});
}

TEST_CASE("a value of another type is a usage error") {
    const auto parse = [](const char *type, const char *text) {
        return parse_attribute({"a", type, nullptr, false, ""}, text);
    };
    CHECK_THROWS_WITH_AS(parse("int", "1.5"), "--attr a: '1.5' is not of type int", UsageError);
    CHECK_THROWS_AS(parse("float", "1e-6x"), UsageError);
    CHECK_THROWS_AS(parse("bool", "maybe"), UsageError);
    CHECK_THROWS_AS(parse("dtype", "f8"), UsageError);
    CHECK_THROWS_AS(parse("int[]", "1,,2"), UsageError);
}
