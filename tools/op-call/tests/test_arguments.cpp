#include "op-call/arguments.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "op-call/tests/signatures.hpp"

using namespace opdock::op_call;
using opdock::cli::UsageError;

TEST_CASE("integers that nobody said anything about index any other input") {
    Arguments arguments;
    arguments.inputs = {{parse_shape_or_source("f32[8,100]")}, {parse_shape_or_source("i64[4]")}};
    guess_ranges(arguments);
    CHECK(std::get<MadeUp>(arguments.inputs[1][0]).range == std::pair(0.0, 8.0));
    arguments.inputs = {{parse_shape_or_source("f32[300]")}, {parse_shape_or_source("u8[4]")}};
    guess_ranges(arguments);
    CHECK(std::get<MadeUp>(arguments.inputs[1][0]).range == std::pair(0.0, 256.0));
    CHECK_FALSE(std::get<MadeUp>(arguments.inputs[0][0]).range);
    arguments.inputs = {{parse_shape_or_source("i32[4]")}};
    guess_ranges(arguments);
    CHECK(std::get<MadeUp>(arguments.inputs[0][0]).range == std::pair(0.0, 1.0));
}

TEST_CASE("what is wrong is said in the words of the tool's own options") {
    CHECK_THROWS_WITH_AS(
        match({{"grads", "f32[2]"}, {"noop", "i32[1]"}, {"noop", "i32[1]"}}, {}, sgd(), shapes_or_sources_spelling),
        "--shape noop was given twice, but is not a list", UsageError);
    try {
        match({{"grads", "f32[2]"}}, {}, sgd(), shapes_spelling);
        FAIL("nothing was missing");
    } catch (const UsageError &error) {
        const std::string text = error.what();
        CHECK(text.find("sgd needs 'params', 'momentum'\n") == 0);
        CHECK(text.find("  > --shape params=SOURCE") != std::string::npos);
        CHECK(text.find("--output") == std::string::npos);
        CHECK(text.ends_with("\n  SOURCE is DTYPE[DIMS], such as bf16[64,1024]"));
    }
}

TEST_CASE("only optional outputs are asked for, and each once") {
    const auto ask = [](const std::vector<std::string> &names) {
        return match_outputs(names, rmsnorm(), shapes_or_sources_spelling);
    };
    CHECK(ask({}).empty());
    CHECK(ask({"rsigma"}) == std::vector<std::string>{"rsigma"});
    CHECK_THROWS_WITH_AS(ask({"output"}), "--output output: it is not optional and is always computed", UsageError);
    CHECK_THROWS_WITH_AS(ask({"rsigma", "rsigma"}), "--output rsigma was given twice", UsageError);
    CHECK_THROWS_WITH_AS(ask({"input"}), doctest::Contains("--output 'input': rmsnorm_fwd has it as an input\n"),
                         UsageError);
    CHECK_THROWS_WITH_AS(ask({"eps"}), doctest::Contains("--output 'eps': rmsnorm_fwd has it as an attribute\n"),
                         UsageError);
    try {
        ask({"rsimga"});
        FAIL("there is no such output");
    } catch (const UsageError &error) {
        const std::string text = error.what();
        CHECK(text.find("--output 'rsimga': rmsnorm_fwd has no such argument; did you mean 'rsigma'?\n") == 0);
        CHECK(text.find("\n    --output rsigma ") != std::string::npos);
        CHECK(text.find("--output output") == std::string::npos);
    }
}

TEST_CASE("a name without a text, and a text without a name, are usage errors") {
    CHECK(parse_named({"a=b=c"}, "--shape", "X").at(0).text == "b=c");
    CHECK(parse_named({"a"}, "--output", "X", false).at(0).text.empty());
    CHECK_THROWS_WITH_AS(parse_named({"a"}, "--shape", "NAME=X"), "--shape 'a': expected NAME=X", UsageError);
    CHECK_THROWS_AS(parse_named({"=b"}, "--shape", "X"), UsageError);
    CHECK_THROWS_AS(parse_named({""}, "--output", "X", false), UsageError);
}
