// plugin-ls --pid on the process that runs the tests.
#include <cstdlib>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "opdock/opdock.hpp"
#include "tools.hpp"

using namespace opdock::test;

namespace {

class Variables {
  public:
    Variables(std::initializer_list<std::pair<const char *, const char *>> values) {
        for (const auto &[name, value] : values) {
            ::setenv(name, value, 1);
            names_.push_back(name);
        }
    }
    ~Variables() {
        for (const char *name : names_) {
            ::unsetenv(name);
        }
    }
    Variables(const Variables &) = delete;
    Variables &operator=(const Variables &) = delete;

  private:
    std::vector<const char *> names_;
};

opdock::Host host_of(const std::vector<std::string> &plugins) {
    opdock::Options options;
    options.modules = plugins;
    options.log = [](int32_t, std::string_view) {};
    return opdock::Host(options);
}

} // namespace

TEST_CASE("--pid shows what serves in a running process, as plugin-ls shows it of a host of its own") {
    const Variables variables{{"PLUGIN_LIVE", "1"},
                              {"PLUGIN_MODULES_ONLY", "1"},
                              {"PLUGIN_SCAN_CACHE", "off"},
                              {"PLUGIN_DEFAULT_PLUGINS", "opdock"},
                              {"PLUGIN_PREFER", "vendor"}};
    const opdock::Host host = host_of({fixture("good"), fixture("default_adder")});
    const PluginLs tool({});
    const std::string pid = std::to_string(::getpid());
    const Finished screen = tool.run({"--pid", pid});
    CHECK(screen.code == 0);
    CHECK(screen.err.empty());
    CHECK(contains(screen.out, "fixture.add  cpu  vendor.acme > default.adder\n"));
    CHECK(contains(tool.run({"--pid", pid, "--policy"}).out, "PLUGIN_PREFER"));
    CHECK(contains(tool.run({"--pid", pid, "--why", "fixture.add", "--dtype", "f32"}).out, "vendor.acme"));
    CHECK(contains(tool.run({"--pid", pid, "--devices"}).out, "cpu"));
    const nlohmann::json document = nlohmann::json::parse(tool.run({"--pid", pid, "--json"}).out);
    CHECK(document.at("process").at("pid") == ::getpid());
    CHECK(contains(tool.run({"--pid", pid, "--reset-health", "all"}).out,
                   "tries failed implementations again, for every op"));

    ::setenv("PLUGIN_PREFER", "default", 1);
    CHECK(contains(tool.run({"--pid", pid, "--reload"}).out, "process " + pid + " has read its policy again\n"));
    CHECK(contains(tool.run({"--pid", pid}).out, "fixture.add  cpu  default.adder > vendor.acme\n"));
}

TEST_CASE("--pid says why a process cannot be asked, and what it refuses") {
    const PluginLs tool({});
    const std::string pid = std::to_string(::getpid());
    CHECK(contains(tool.run({"--pid", pid}).err, "only if the process was started with PLUGIN_LIVE=1"));
    CHECK(tool.run({"--pid", pid}).code == 1);
    CHECK(contains(tool.run({"--pid", "4194305"}).err, "there is no process 4194305"));
    CHECK(tool.run({"--pid", "me"}).code == 2);
    CHECK(tool.run({"--pid", "12."}).code == 2);
    CHECK(tool.run({"--reload"}).code == 2);
    CHECK(tool.run({"--pid", pid, "--check", "x.so"}).code == 2);

    const Variables variables{{"PLUGIN_LIVE", "1"}, {"PLUGIN_MODULES_ONLY", "1"}, {"PLUGIN_SCAN_CACHE", "off"}};
    const opdock::Host host = host_of({fixture("good")});
    CHECK(contains(tool.run({"--pid", pid, "--reset-health", "no.such"}).err, "process " + pid + ": "));
    CHECK(contains(tool.run({"--pid", pid, "--why", "no.such"}).err, "no.such"));
}
