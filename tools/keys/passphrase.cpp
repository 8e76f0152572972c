#include "keys/passphrase.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "cli/text_file.hpp"
#include "files/descriptor.hpp"

namespace opdock::keys {
namespace {

constexpr std::size_t longest = 1024;

volatile std::sig_atomic_t interrupted = 0;

// Signals that would end the process end the reading instead, so that the terminal's echo is restored. They are blocked
// outside of wait(): neither read would notice one that came between two reads.
class CatchSignals {
  public:
    CatchSignals() {
        struct sigaction action {};
        action.sa_handler = [](int) { interrupted = 1; };
        sigset_t blocked;
        ::sigemptyset(&blocked);
        for (std::size_t i = 0; i < signals.size(); ++i) {
            ::sigaction(signals.at(i), &action, &before_.at(i));
            ::sigaddset(&blocked, signals.at(i));
        }
        ::sigprocmask(SIG_BLOCK, &blocked, &mask_);
    }
    ~CatchSignals() {
        ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
        for (std::size_t i = 0; i < signals.size(); ++i) {
            ::sigaction(signals.at(i), &before_.at(i), nullptr);
        }
    }
    CatchSignals(const CatchSignals &) = delete;
    CatchSignals &operator=(const CatchSignals &) = delete;

    // Waits for input. Throws cli::Failure after a signal.
    void wait(int terminal) const {
        pollfd readable = {terminal, POLLIN, 0};
        while (::ppoll(&readable, 1, nullptr, &mask_) < 0 || interrupted != 0) {
            if (interrupted != 0) {
                throw cli::Failure("the terminal: input was cancelled");
            }
        }
    }

  private:
    static constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    std::array<struct sigaction, signals.size()> before_{};
    sigset_t mask_{};
};

class WithoutEcho {
  public:
    explicit WithoutEcho(int terminal) : terminal_(terminal) {
        if (::tcgetattr(terminal_, &before_) != 0) {
            throw cli::Failure("cannot stop the terminal from showing the passphrase");
        }
        termios silent = before_;
        silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
        silent.c_lflag |= ECHONL | ICANON;
        if (::tcsetattr(terminal_, TCSAFLUSH, &silent) != 0) {
            throw cli::Failure("cannot stop the terminal from showing the passphrase");
        }
    }
    ~WithoutEcho() { ::tcsetattr(terminal_, TCSAFLUSH, &before_); }
    WithoutEcho(const WithoutEcho &) = delete;
    WithoutEcho &operator=(const WithoutEcho &) = delete;

  private:
    int terminal_;
    termios before_{};
};

// Reads to the end of the line or of the input. `read_byte` returns 0 at the end.
template<class Read>
Secret read_line(const std::string &where, Read read_byte) {
    Secret line(longest);
    for (std::size_t size = 0; size < longest;) {
        if (read_byte(line.data() + size) == 0 || line.data()[size] == '\n') {
            line.shorten(size);
            return line;
        }
        ++size;
    }
    throw cli::Failure(fmt::format("{}: a passphrase must have fewer than {} characters", where, longest));
}

Secret ask(int terminal, const std::string &question, const CatchSignals &signals) {
    const std::string shown = cli::printable(question);
    if (::write(terminal, shown.data(), shown.size()) < 0) {
        throw cli::Failure("cannot write to the terminal");
    }
    return read_line("the terminal", [&](unsigned char *into) {
        signals.wait(terminal);
        ssize_t got = 0;
        do {
            got = ::read(terminal, into, 1);
        } while (got < 0 && errno == EINTR);
        if (got < 0) {
            throw cli::Failure(std::string("the terminal: ") + std::strerror(errno));
        }
        return static_cast<std::size_t>(got);
    });
}

Secret not_empty(Secret passphrase, const std::string &where) {
    if (passphrase.size() == 0) {
        throw cli::Failure(where + ": the passphrase is empty; --no-passphrase makes a key without one");
    }
    return passphrase;
}

} // namespace

Secret passphrase_from_file(const std::string &path) {
    cli::Input file(path);
    struct stat status = {};
    if (::fstat(file.descriptor(), &status) != 0) {
        throw cli::Failure(path + ": " + std::strerror(errno));
    }
    if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) {
        throw cli::Failure(path + ": expected a file or a pipe with the passphrase; this is neither");
    }
    if (S_ISREG(status.st_mode) && (status.st_mode & (S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH)) != 0) {
        throw cli::Failure(
            fmt::format("{}: other users may read or change this passphrase (mode {:04o}); run `chmod 600`", path,
                        status.st_mode & 07777u));
    }
    return not_empty(read_line(path, [&](unsigned char *into) { return file.read(into, 1); }), path);
}

Secret passphrase_from_terminal(const std::string &what_for, Times times) {
    const core::Descriptor terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
    if (terminal.get() < 0) {
        throw cli::Failure("there is no terminal to ask for the passphrase of " + what_for +
                           "; use --passphrase-file FILE" +
                           (times == Times::twice ? ", or --no-passphrase for a key without one" : ""));
    }
    const CatchSignals signals;
    const WithoutEcho silent(terminal.get());
    Secret passphrase = not_empty(ask(terminal.get(), "Passphrase of " + what_for + ": ", signals), "the terminal");
    if (times == Times::twice) {
        const Secret again = ask(terminal.get(), "Repeat the passphrase: ", signals);
        if (again.size() != passphrase.size() ||
            sodium_memcmp(again.data(), passphrase.data(), passphrase.size()) != 0) {
            throw cli::Failure("the two passphrases differ; nothing was written");
        }
    }
    return passphrase;
}

} // namespace opdock::keys
