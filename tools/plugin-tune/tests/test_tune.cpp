#include "tune.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "tune_files.hpp"

using namespace opdock::plugin_tune;

TEST_CASE("shapes share evenly what is left of the total, and none gets more than its own budget") {
    Request request;
    request.budget = 10;
    CHECK(budget_of_next(request, 1e6, 3) == 10);
    request.total_budget = 12;
    CHECK(budget_of_next(request, 0, 3) == 4);
    CHECK(budget_of_next(request, 2, 2) == 5);
    CHECK(budget_of_next(request, 0, 1) == 10);
    CHECK(budget_of_next(request, 13, 1) == 0);
}

TEST_CASE("ops whose names no op may have are left out, unless they are renamed") {
    const std::string head = "schema: opdock.tune/1\nops:\n";
    const std::string yaml =
        head + "  _softmax:\n    - configs:\n        - {B: 1}\n  relu:\n    - {}\n  Mul:\n    - {}\n";
    std::vector<std::string> nameless;
    CHECK(rename_ops(yaml, {}, &nameless) == head + "  relu:\n    - {}\n");
    CHECK(nameless == std::vector<std::string>{"_softmax", "Mul"});
    nameless.clear();
    const std::string every_op = head + "  '*':\n    - {}\n  relu:\n    - {}\n";
    CHECK(rename_ops(every_op, {}, &nameless) == every_op);
    CHECK(nameless.empty());
    CHECK(rename_ops(yaml, {{"_softmax", "softmax"}, {"Mul", "mul"}}, &nameless) ==
          head + "  softmax:\n    - configs:\n        - {B: 1}\n  relu:\n    - {}\n  mul:\n    - {}\n");
    CHECK(nameless.empty());
}

TEST_CASE("renaming touches the names of ops alone") {
    const std::string yaml =
        "schema: opdock.tune/1\nops:\n  gelu:\n    - configs:\n        - {gelu: 1}\n  relu:\n    - {}\n";
    const auto rename_ops = [](const std::string &text, const std::vector<Named> &renames) {
        std::vector<std::string> nameless;
        const std::string result = opdock::plugin_tune::rename_ops(text, renames, &nameless);
        CHECK(nameless.empty());
        return result;
    };
    CHECK(rename_ops(yaml, {{"gelu", "acme.gelu"}}) ==
          "schema: opdock.tune/1\nops:\n  acme.gelu:\n    - configs:\n        - {gelu: 1}\n  relu:\n    - {}\n");
    CHECK_THROWS_WITH_AS(rename_ops(yaml, {{"gleu", "x"}}),
                         "--rename gleu=x: the file has no op 'gleu'; did you mean 'gelu'?", opdock::cli::Failure);
    CHECK_THROWS_WITH_AS(rename_ops(yaml, {{"gelu", "relu"}}), "--rename: two ops of the file would be called 'relu'",
                         opdock::cli::Failure);
}
