#include "bug_report.hpp"

#include <doctest/doctest.h>

#include "documents.hpp"

using namespace opdock::plugin_ls;

static const Machine machine = {
    "Debian 12", "Linux 6.1 x86_64", "A CPU, 4 threads", "/usr/lib/libopdock.so.1", {{"PLUGIN_STRICT", "1"}}};

TEST_CASE("a bug report has machine, environment, paths, policy and decisions") {
    const std::string text = render_bug_report(machine, small_document(), "");
    for (const char *part :
         {"Debian 12", "A CPU, 4 threads", "/usr/lib/libopdock.so.1", "PLUGIN_STRICT  1", "PLUGIN_PREFER",
          "/usr/lib/opdock/plugins", "OPDOCK-E012", "vendor.acme > reference.cpp"}) {
        INFO(part);
        CHECK(text.find(part) != std::string::npos);
    }
    CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("a bug report is written even when the host does not open") {
    const std::string text = render_bug_report(machine, nullptr, "PLUGIN_STRICT: 'maybe' is not a switch");
    CHECK(text.find("THE HOST DID NOT OPEN\n  PLUGIN_STRICT: 'maybe' is not a switch\n") != std::string::npos);
    CHECK(text.find("Debian 12") != std::string::npos);
}
