#include "fault.hpp"

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>

#include <sys/socket.h>

#include "message.hpp"
#include "placed_tensor.hpp"

namespace opdock::plugin_check {
namespace {

// A line of text, composed without functions that a signal handler must not call.
class Line {
  public:
    void add(const char *text) {
        for (; *text != '\0' && size_ + 1 < text_.size(); ++text) {
            text_[size_++] = *text;
        }
    }
    void add_address(const void *address) {
        const auto number = reinterpret_cast<uintptr_t>(address);
        int shift = 8 * sizeof number - 4;
        while (shift > 0 && number >> shift == 0) {
            shift -= 4;
        }
        for (add("0x"); shift >= 0; shift -= 4) {
            const char digit[] = {"0123456789abcdef"[number >> shift & 15], '\0'};
            add(digit);
        }
    }
    void add(size_t number) {
        std::array<char, 24> digits{};
        size_t at = digits.size() - 1;
        do {
            digits[--at] = static_cast<char>('0' + number % 10);
            number /= 10;
        } while (number != 0);
        add(digits.data() + at);
    }
    void send() const {
        [[maybe_unused]] const ssize_t count = ::send(message_descriptor, text_.data(), size_, MSG_NOSIGNAL);
    }

  private:
    std::array<char, 512> text_{};
    size_t size_ = 0;
};

bool was_write(const void *context) {
#if defined(__x86_64__)
    constexpr uint64_t by_a_write = 2; // a bit of the processor's page fault code
    const auto *user = static_cast<const ucontext_t *>(context);
    return (static_cast<uint64_t>(user->uc_mcontext.gregs[REG_ERR]) & by_a_write) != 0;
#else
    static_cast<void>(context);
    return false;
#endif
}

// Processors report no address if an instruction for aligned data gets unaligned data.
bool may_be_alignment(int signal, const siginfo_t &info) {
    return signal == SIGBUS ? info.si_code == BUS_ADRALN : info.si_code == SI_KERNEL;
}

void add_place(Line &line, const GuardHit &hit) {
    if (hit.distance != 0) {
        line.add(hit.distance);
        line.add(hit.distance == 1 ? " byte " : " bytes ");
    }
    line.add(hit.is_before       ? "before the start of "
             : hit.distance == 0 ? "immediately past the end of "
                                 : "past the end of ");
    line.add(hit.name);
}

void tell(int signal, const siginfo_t &info, const void *context) {
    const GuardHit hit = find_guard(info.si_addr);
    Line line;
    line.add(hit.name != nullptr ? "{\"fault\": \"" : "{\"crash\": \"");
    if (may_be_alignment(signal, info)) {
        line.add("an instruction for aligned data got unaligned data or an invalid address. Declare the "
                 "`alignment` that the kernel needs if it is larger than the dtype's size");
    } else {
        line.add(was_write(context) ? "writes " : "reads ");
        if (hit.name != nullptr) {
            add_place(line, hit);
        } else {
            line.add("address ");
            line.add_address(info.si_addr);
            line.add(", which is not accessible");
        }
    }
    line.add("\"}");
    line.send();
}

extern "C" void tell_fault(int signal, siginfo_t *info, void *context) {
    if (info->si_code > 0) { // not sent by a process
        tell(signal, *info, context);
    }
    std::signal(signal, SIG_DFL); // NOLINT(cert-err33-c): the handler ends either way
    (void)raise(signal);
}

} // namespace

void watch_faults() {
    struct sigaction action = {};
    action.sa_sigaction = tell_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (const int signal : {SIGSEGV, SIGBUS}) {
        sigaction(signal, &action, nullptr);
    }
}

} // namespace opdock::plugin_check
