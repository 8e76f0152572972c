#include "cli/exit.hpp"

#include <iostream>
#include <sstream>

#include <doctest/doctest.h>

using namespace opdock::cli;

namespace {

// Captures stderr during its lifetime.
class CaughtStderr {
  public:
    CaughtStderr() : before_(std::cerr.rdbuf(text_.rdbuf())) {}
    ~CaughtStderr() { std::cerr.rdbuf(before_); }
    CaughtStderr(const CaughtStderr &) = delete;
    CaughtStderr &operator=(const CaughtStderr &) = delete;

    std::string text() const { return text_.str(); }

  private:
    std::ostringstream text_;
    std::streambuf *before_;
};

} // namespace

TEST_CASE("a body's code is the tool's code") {
    CHECK(run_tool("tool", [] { return exit_fine; }) == 0);
    CHECK(run_tool("tool", [] { return exit_absent; }) == 1);
}

TEST_CASE("a usage error exits with 2 and points to the help") {
    const CaughtStderr caught;
    CHECK(run_tool("tool", []() -> int { throw UsageError("no such option"); }) == 2);
    CHECK(caught.text() == "tool: no such option\nTry 'tool --help'.\n");
}

TEST_CASE("any other exception exits with 1 and its message") {
    const CaughtStderr caught;
    CHECK(run_tool("tool", []() -> int { throw std::runtime_error("broken"); }) == 1);
    CHECK(caught.text() == "tool: broken\n");
}

TEST_CASE("output that cannot be written is a failure") {
    const CaughtStderr caught;
    const int code = run_tool("tool", [] {
        std::cout.setstate(std::ios::badbit);
        return exit_fine;
    });
    std::cout.clear();
    CHECK(code == 1);
    CHECK(caught.text().find("standard output") != std::string::npos);
}

TEST_CASE("a plugin's message cannot steer the terminal") {
    const CaughtStderr caught;
    CHECK(run_tool("tool", []() -> int { throw Failure("\x1b[2J"); }) == 1);
    CHECK(caught.text() == "tool: \\x1b[2J\n");
}
