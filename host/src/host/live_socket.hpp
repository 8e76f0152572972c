// Lets other processes of the same user query a running host: a socket owned by the user, and a thread
// that answers on it.
#pragma once

#include <functional>
#include <string>

#include <pthread.h>
#include <sys/types.h>

#include "files/descriptor.hpp"

namespace opdock::core {

// The folder for the sockets of a user's processes. `runtime`: $XDG_RUNTIME_DIR; empty if unset.
inline std::string live_socket_folder(const std::string &runtime, uid_t user) {
    return runtime.empty() ? "/tmp/opdock-" + std::to_string(user) : runtime + "/opdock";
}

// `name`: a process id, "1204"; with the suffix ".2" for the second host of that process.
inline std::string live_socket_path(const std::string &folder, const std::string &name) {
    return folder + "/" + name + ".sock";
}

class LiveSocket {
  public:
    // Maps a client's question to the answer. Called on the socket's thread, for one client at a time.
    using Answer = std::function<std::string(const std::string &question)>;

    // Throws Error if the socket or the thread cannot be created.
    LiveSocket(const std::string &runtime, Answer answer);
    ~LiveSocket() { end(); }
    LiveSocket(const LiveSocket &) = delete;
    LiveSocket &operator=(const LiveSocket &) = delete;

    // Waits until the question being answered is done, and removes the socket. In a forked child it
    // leaves both to the parent.
    void end();

    const std::string &path() const { return path_; }

  private:
    void listen_in(const std::string &runtime);
    void start();
    void serve() const noexcept;
    void answer_client(const Descriptor &client) const;
    // The text before the line feed; empty if the client sends none.
    std::string question_of(const Descriptor &client) const;

    const Answer answer_;
    const pid_t process_;
    bool has_ended_ = false;
    std::string path_;
    Descriptor listener_;
    Descriptor wake_; // an eventfd that tells the thread to end
    pthread_t thread_ = {};
};

} // namespace opdock::core
