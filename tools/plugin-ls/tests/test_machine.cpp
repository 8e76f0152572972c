#include "machine.hpp"

#include <doctest/doctest.h>

using namespace opdock::plugin_ls;
using Variables = std::vector<std::pair<std::string, std::string>>;

TEST_CASE("a report shows opdock's variables, sorted, and leaves all others out") {
    CHECK(reported_variables({"PLUGIN_STRICT=1", "AWS_SECRET=x", "LD_PRELOAD=a=b", "PLUGIN_MODULES="}) ==
          Variables{{"LD_PRELOAD", "a=b"}, {"PLUGIN_MODULES", ""}, {"PLUGIN_STRICT", "1"}});
}

TEST_CASE("a variable that is not opdock's is named without its value") {
    const Variables variables = reported_variables({"PLUGIN_PASSWORD=hunter2"});
    REQUIRE(variables.size() == 1);
    CHECK(variables[0].first == "PLUGIN_PASSWORD");
    CHECK(variables[0].second.find("hunter2") == std::string::npos);
}

TEST_CASE("this machine has a kernel, a processor and a library") {
    const Machine machine = look_at_machine(reinterpret_cast<const void *>(&look_at_machine));
    CHECK(machine.kernel.find("Linux") == 0);
    CHECK(machine.processor.find("threads") != std::string::npos);
    CHECK(machine.library.find("plugin-ls-tests") != std::string::npos);
}
