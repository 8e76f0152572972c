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

// A line of text, put together without what a signal handler may not call.
class Line {
  public:
    void add(const char *text) {
        for (; *text != '\0' && size_ + 1 < text_.size(); ++text) {
            text_[size_++] = *text;
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
    constexpr uint64_t by_a_write = 2; // of the processor's page fault code
    const auto *user = static_cast<const ucontext_t *>(context);
    return (static_cast<uint64_t>(user->uc_mcontext.gregs[REG_ERR]) & by_a_write) != 0;
#else
    static_cast<void>(context);
    return false;
#endif
}

extern "C" void tell_fault(int signal, siginfo_t *info, void *context) {
    const GuardHit hit = find_guard(info->si_addr);
    if (hit.name != nullptr) {
        Line line;
        line.add("{\"fault\": \"it ");
        line.add(was_write(context) ? "writes " : "reads ");
        line.add(hit.distance);
        line.add(hit.is_before ? " bytes before the beginning of " : " bytes past the end of ");
        line.add(hit.name);
        line.add("\"}");
        line.send();
    }
    std::signal(signal, SIG_DFL); // NOLINT(cert-err33-c): the handler ends either way
    raise(signal);
}

} // namespace

void watch_faults() {
    struct sigaction action = {};
    action.sa_sigaction = tell_fault;
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_NODEFER);
    for (const int signal : {SIGSEGV, SIGBUS}) {
        sigaction(signal, &action, nullptr);
    }
}

} // namespace opdock::plugin_check
