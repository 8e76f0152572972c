#include "cli/interrupt.hpp"

#include <doctest/doctest.h>

using opdock::cli::Interrupts;

namespace {

void (*handler_of(int signal))(int) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    return action.sa_handler;
}

} // namespace

TEST_CASE("the first signal is recorded, and what was in force before is in force again") {
    const auto before = handler_of(SIGTERM);
    {
        const Interrupts interrupts;
        CHECK(interrupts.signal() == 0);
        std::raise(SIGTERM);
        CHECK(interrupts.signal() == SIGTERM);
        CHECK(bool(handler_of(SIGTERM) == SIG_DFL)); // a second one ends the program
    }
    CHECK(bool(handler_of(SIGTERM) == before));
    CHECK(Interrupts().signal() == 0);
}

TEST_CASE("a signal that is ignored stays ignored") {
    const auto before = std::signal(SIGINT, SIG_IGN);
    {
        const Interrupts interrupts;
        std::raise(SIGINT);
        CHECK(interrupts.signal() == 0);
        CHECK(bool(handler_of(SIGINT) == SIG_IGN));
    }
    CHECK(bool(handler_of(SIGINT) == SIG_IGN));
    std::signal(SIGINT, before);
}
