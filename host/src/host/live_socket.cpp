#include "host/live_socket.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "files/own_folder.hpp"
#include "files/path_rules.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

constexpr std::size_t most_question_bytes = std::size_t{64} * 1024;
constexpr int patience_ms = 2000; // for a client that neither sends nor reads

[[noreturn]] void fail(const std::string &what, int reason = errno) {
    throw Error(OPDOCK_FAILED, what + ": " + std::generic_category().message(reason));
}

sockaddr_un address_of(const std::string &path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        fail("the path of a socket has at most " + std::to_string(sizeof address.sun_path - 1) + " bytes; '" + path +
                 "' is longer",
             ENAMETOOLONG);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

// True for a socket that nobody listens on any more: it is left from a killed process with the same id.
bool is_left_over(const sockaddr_un &address) {
    const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return probe.get() >= 0 &&
           ::connect(probe.get(), reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0 &&
           errno == ECONNREFUSED;
}

// Binds the socket. Returns 0 or an errno.
int bind_error(const Descriptor &listener, const sockaddr_un &address) {
    const auto *const generic = reinterpret_cast<const sockaddr *>(&address);
    return ::bind(listener.get(), generic, sizeof address) == 0 ? 0 : errno;
}

bool is_of_user(const Descriptor &client) {
    ucred peer = {};
    socklen_t size = sizeof peer;
    return ::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == ::geteuid() || peer.uid == 0);
}

void send_all(const Descriptor &client, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return; // the client is gone or does not read
        }
        text.remove_prefix(sent < 0 ? 0 : static_cast<std::size_t>(sent));
    }
}

} // namespace

LiveSocket::LiveSocket(const std::string &runtime, Answer answer) : answer_(std::move(answer)), process_(::getpid()) {
    listen_in(runtime);
    try {
        start();
    } catch (...) {
        ::unlink(path_.c_str());
        throw;
    }
}

void LiveSocket::end() {
    if (::getpid() != process_ || std::exchange(has_ended_, true)) {
        return;
    }
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one); // an eventfd accepts it
    ::pthread_join(thread_, nullptr);
    ::unlink(path_.c_str());
}

void LiveSocket::listen_in(const std::string &runtime) {
    const std::string folder = live_socket_folder(runtime, own_user());
    std::string fault = make_own_folder(folder);
    if (fault.empty()) {
        fault = fault_of_own_folder(folder);
    }
    if (!fault.empty()) {
        throw Error(OPDOCK_FAILED, fault);
    }
    listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (listener_.get() < 0) {
        fail("a socket cannot be created");
    }
    constexpr unsigned most_hosts = 64;
    for (unsigned nth = 1; path_.empty(); ++nth) {
        const std::string path =
            live_socket_path(folder, std::to_string(process_) + (nth == 1 ? "" : "." + std::to_string(nth)));
        const sockaddr_un address = address_of(path);
        int error = bind_error(listener_, address);
        if (error == EADDRINUSE && is_left_over(address) && ::unlink(path.c_str()) == 0) {
            error = bind_error(listener_, address);
        }
        if (error == 0) {
            path_ = path;
        } else if (error != EADDRINUSE || nth == most_hosts) {
            fail("a socket cannot be created at '" + path + "'", error);
        }
    }
    if (::listen(listener_.get(), 8) != 0) {
        const int reason = errno;
        ::unlink(path_.c_str());
        fail("nobody can connect to the socket '" + path_ + "'", reason);
    }
}

void LiveSocket::start() {
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC));
    if (wake_.get() < 0) {
        fail("an eventfd cannot be created");
    }
    // The program's signals are for its own threads.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const int reason = ::pthread_create(
        &thread_, nullptr,
        [](void *socket) -> void * {
            static_cast<const LiveSocket *>(socket)->serve();
            return nullptr;
        },
        this);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (reason != 0) {
        fail("a thread cannot be started", reason);
    }
}

void LiveSocket::serve() const noexcept {
    for (;;) {
        pollfd ends[] = {{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
        if (::poll(ends, 2, -1) < 0) {
            continue; // EINTR
        }
        if (ends[1].revents != 0) {
            return;
        }
        const Descriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client.get() >= 0 && is_of_user(client)) {
            answer_client(client);
        }
    }
}

void LiveSocket::answer_client(const Descriptor &client) const {
    const timeval patience = {patience_ms / 1000, 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (const std::string question = question_of(client); !question.empty()) {
        send_all(client, answer_(question));
    }
}

std::string LiveSocket::question_of(const Descriptor &client) const {
    std::string question;
    while (question.size() < most_question_bytes) {
        pollfd ends[] = {{client.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
        if (::poll(ends, 2, patience_ms) <= 0 || ends[1].revents != 0) {
            break;
        }
        char part[4096];
        const ssize_t size = ::recv(client.get(), part, sizeof part, 0);
        if (size <= 0) {
            break;
        }
        question.append(part, static_cast<std::size_t>(size));
        if (const std::size_t end = question.find('\n'); end != std::string::npos) {
            question.resize(end);
            return question;
        }
    }
    return {};
}

} // namespace opdock::core
