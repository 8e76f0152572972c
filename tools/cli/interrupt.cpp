#include "cli/interrupt.hpp"

#include <csignal>

namespace opdock::cli {
namespace {

volatile std::sig_atomic_t came = 0;

extern "C" void remember(int signal) {
    came = signal;
}

void handle(int signal, void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART; // a second signal has its default effect
    sigaction(signal, &action, nullptr);
}

} // namespace

Interrupts::Interrupts() {
    came = 0;
    handle(SIGINT, remember);
    handle(SIGTERM, remember);
}

Interrupts::~Interrupts() {
    handle(SIGINT, SIG_DFL);
    handle(SIGTERM, SIG_DFL);
}

int Interrupts::signal() const {
    return came;
}

} // namespace opdock::cli
