#include "suspects.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"

using namespace opdock::plugin_bisect;

namespace {

Suspects three() {
    Suspects suspects;
    suspects.all = {{"gelu", "vendor.a"}, {"gelu", "vendor.b"}, {"silu", "vendor.a"}};
    suspects.others = {{"gelu", {"impl:reference.cpp", "impl:default.cpu"}}, {"silu", {"impl:reference.cpp"}}};
    return suspects;
}

} // namespace

TEST_CASE("who served is read from each form of the log's line") {
    const std::vector<Suspect> served = served_in(
        "[2026-11-23 02:40:11.123Z] [opdock] [info] [12:13] Op 'gelu' using 'default.cpu' (kind=default)\n"
        "[opdock] [info] Op 'silu' using 'vendor.acme' (kind=vendor, vendor=acme) after 'x.y': FAILED: 'it' "
        "(kind=odd)\n"
        "[opdock] [info] Op 'gelu' switched from 'default.cpu' to 'reference.cpp' (kind=reference)\n"
        "[opdock] [info] Op 'relu' switched 3 times since the last line about it, now to 'vendor.b' (kind=vendor)\n"
        "[opdock] [info] Op 'gelu' using 'default.cpu' (kind=default)\n"
        "[opdock] [warning] Op 'tanh': 'vendor.b' leaves the chain on cpu:0: why (kind=vendor)\n"
        "Op 'exp' using 'vendor.b' (kind=vendor)\n"
        "[opdock] [info] Op 'exp\n");
    CHECK(served ==
          std::vector<Suspect>{
              {"gelu", "default.cpu"}, {"gelu", "reference.cpp"}, {"relu", "vendor.b"}, {"silu", "vendor.acme"}});
}

TEST_CASE("an op has an order only when a suspect of it is replaced") {
    const Suspects suspects = three();
    CHECK(suspects.per_op({0, 1, 2}, "").empty());
    CHECK(suspects.per_op({0, 1}, "") == "silu=impl:reference.cpp");
    CHECK(suspects.per_op({1}, "") == "gelu=impl:vendor.b|impl:reference.cpp|impl:default.cpu;silu=impl:reference.cpp");
    CHECK(suspects.per_op({}, "") == "gelu=impl:reference.cpp|impl:default.cpu;silu=impl:reference.cpp");
}

TEST_CASE("orders that the user gave other ops stay, and those of replaced ones give way") {
    const Suspects suspects = three();
    const std::string before = "relu=default; silu = vendor:acme;dgelu=reference";
    CHECK(suspects.per_op({0, 1, 2}, before) == before);
    CHECK(suspects.per_op({0, 1}, before) == "relu=default;dgelu=reference;silu=impl:reference.cpp");
}

TEST_CASE("orders that are longer than a host reads are an error") {
    Suspects suspects;
    for (int i = 0; i < 700; ++i) {
        const std::string op = "acme.op" + std::to_string(i);
        suspects.all.push_back({op, "vendor.acme"});
        suspects.others[op] = {"impl:" + std::string(100, 'x')};
    }
    CHECK_THROWS_AS(suspects.per_op({}, ""), opdock::cli::Failure);
}
