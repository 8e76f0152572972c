// What the host keeps per thread, reached through the one thread-local pointer the library has.
//
// A dlopen'ed library has 1.6 KB of static TLS for the whole process and anything but initial-exec TLS costs a call, so
// there is one pointer, and everything else hangs off it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "opdock/opdock.h"

namespace opdock::core {

// Every one is a CallThread (dispatch/call_thread.hpp); this is what other stages know of it.
struct ThreadState {
    static constexpr uint32_t scoped = 1;      // calls are under a policy that the thread pushed
    static constexpr uint32_t nested = 2;      // runs a kernel that called another op
    static constexpr uint32_t registering = 4; // runs code of a plugin that is being loaded
    static constexpr uint32_t spoken_to = 8;   // a plugin left a message since the host last called one
    static constexpr uint32_t closing = 16;    // closes a host, and runs code of its plugins

    // Any of the above: the call takes the long way.
    uint32_t flags = 0;
    uint32_t n_asking = 0; // implementations that this thread is asking whether they are available, one in another
    std::string error;     // opdock_last_error
    std::string message;   // what a plugin left with fail() since it was last taken or cleared

    // As fail() leaves it. The next call takes the long way once, because the short one does not clear messages.
    void leave_message(std::string text) {
        message = std::move(text);
        flags |= spoken_to;
    }
    void forget_message() {
        message.clear();
        flags &= ~spoken_to;
    }
};

// While it stands the thread has one of the flags of ThreadState.
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
// This thread runs constructors or the entry of a plugin: no host may be opened on it, and no op called, which might
// load that plugin.
using LoadingCode = Flagged<ThreadState::registering>;
// It closes a host, in which nothing may be looked up any more.
using ClosingHost = Flagged<ThreadState::closing>;

// The state of the calling thread, made on first use.
ThreadState &thread_state();

// Throws when this thread is inside a plugin's entry.
void refuse_while_registering(const char *what);
// Throws when this thread is inside code of a plugin that is being loaded, or of one whose host it closes.
void refuse_op_calls();

} // namespace opdock::core

// Null until the thread first needs a state.
extern "C" {
extern constinit thread_local opdock::core::ThreadState *opdock_thread_state
    __attribute__((visibility("hidden"), tls_model("initial-exec")));
}
