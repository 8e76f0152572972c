#include "cli/interrupt.hpp"

namespace opdock::cli {
namespace {

volatile std::sig_atomic_t came = 0;

extern "C" void remember(int signal) {
    came = signal;
}

void record(int signal, struct sigaction *before) {
    sigaction(signal, nullptr, before);
    if (before->sa_handler == SIG_IGN) {
        return;
    }
    struct sigaction action = {};
    action.sa_handler = remember;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART; // a second signal has its default effect
    sigaction(signal, &action, nullptr);
}

} // namespace

Interrupts::Interrupts() {
    came = 0;
    record(SIGINT, &interrupt_before_);
    record(SIGTERM, &terminate_before_);
}

Interrupts::~Interrupts() {
    sigaction(SIGINT, &interrupt_before_, nullptr);
    sigaction(SIGTERM, &terminate_before_, nullptr);
}

int Interrupts::signal() const {
    return came;
}

} // namespace opdock::cli
