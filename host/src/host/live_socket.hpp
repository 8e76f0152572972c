// Lets other processes of the same user ask a running host: a socket of the user's own, and a thread that answers on
// it.
#pragma once

#include <functional>
#include <string>

#include <pthread.h>
#include <sys/types.h>

#include "files/descriptor.hpp"

namespace opdock::core {

// The folder of the sockets of a user's processes. `runtime`: $XDG_RUNTIME_DIR; empty where it is not set.
inline std::string live_socket_folder(const std::string &runtime, uid_t user) {
    return runtime.empty() ? "/tmp/opdock-" + std::to_string(user) : runtime + "/opdock";
}

// `name`: a process's number, "1204"; with ".2" behind it that of its second host.
inline std::string live_socket_path(const std::string &folder, const std::string &name) {
    return folder + "/" + name + ".sock";
}

class LiveSocket {
  public:
    // What a client asks, and what it is told. Called on the socket's thread, for one client at a time.
    using Answer = std::function<std::string(const std::string &question)>;

    // Throws Error where the socket or the thread cannot be made.
    LiveSocket(const std::string &runtime, Answer answer);
    ~LiveSocket() { end(); }
    LiveSocket(const LiveSocket &) = delete;
    LiveSocket &operator=(const LiveSocket &) = delete;

    // Waits until the question that is being answered is, and removes the socket. In the child of a fork it leaves both
    // to the parent.
    void end();

    const std::string &path() const { return path_; }

  private:
    void listen_in(const std::string &runtime);
    void start();
    void serve() const noexcept;
    void answer_client(const Descriptor &client) const;
    // Up to its line feed; empty where the client sends none.
    std::string question_of(const Descriptor &client) const;

    const Answer answer_;
    const pid_t process_;
    bool has_ended_ = false;
    std::string path_;
    Descriptor listener_;
    Descriptor wake_; // an eventfd: the thread is to end
    pthread_t thread_ = {};
};

} // namespace opdock::core
