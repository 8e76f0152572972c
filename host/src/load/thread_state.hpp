// Per-thread state of the host, reached through the only thread-local pointer of the library.
//
// All dlopen'ed libraries share 1.6 KB of static TLS, and other models than initial-exec cost a call. So there is one
// pointer, and everything else hangs off it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "opdock/opdock.h"

namespace opdock::core {

// The base of CallThread (dispatch/call_thread.hpp), which every instance is; other stages see only this part.
struct ThreadState {
    static constexpr uint32_t scoped = 1;      // the thread has pushed a policy scope
    static constexpr uint32_t nested = 2;      // in a kernel that called another op
    static constexpr uint32_t registering = 4; // runs code of a plugin that is being loaded
    static constexpr uint32_t spoken_to = 8;   // a plugin left a message since the host last called a plugin
    static constexpr uint32_t closing = 16;    // closes a host, which runs code of its plugins

    // If any flag is set, calls take the slow path.
    uint32_t flags = 0;
    uint32_t n_asking = 0; // nested availability queries of implementations on this thread
    std::string error;     // opdock_last_error
    std::string message;   // left by a plugin with fail() since it was last taken or cleared

    // Stores a message as fail() does. The next call takes the slow path, because the fast path clears no messages.
    void leave_message(std::string text) {
        message = std::move(text);
        flags |= spoken_to;
    }
    void forget_message() {
        message.clear();
        flags &= ~spoken_to;
    }
};

// Sets a flag of ThreadState for its lifetime.
template<uint32_t flag>
class Flagged {
  public:
    explicit Flagged(ThreadState &thread) : thread_(thread), before_(thread.flags & flag) { thread_.flags |= flag; }
    Flagged(const Flagged &) = delete;
    Flagged &operator=(const Flagged &) = delete;
    ~Flagged() { thread_.flags = (thread_.flags & ~flag) | before_; }

  private:
    ThreadState &thread_;
    const uint32_t before_;
};
// The thread runs constructors or the entry of a plugin: it must not open a host, nor call ops, which might load that
// plugin.
using LoadingCode = Flagged<ThreadState::registering>;
// The thread closes a host; nothing may be looked up in that host any more.
using ClosingHost = Flagged<ThreadState::closing>;

// The state of the calling thread, created on first use.
ThreadState &thread_state();

// Throws if this thread is inside a plugin's entry.
void refuse_while_registering(const char *what);
// Throws if this thread runs code of a plugin that is being loaded, or whose host it is closing.
void refuse_op_calls();

} // namespace opdock::core

// Null until the thread first needs a state.
extern "C" {
extern constinit thread_local opdock::core::ThreadState *opdock_thread_state
    __attribute__((visibility("hidden"), tls_model("initial-exec")));
}
