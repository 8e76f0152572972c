// What the host keeps per thread, reached through the one thread-local pointer the library has.
//
// A dlopen'ed library has 1.6 KB of static TLS for the whole process and anything but initial-exec TLS costs a call, so
// there is one pointer, and everything else hangs off it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "opdock/opdock.h"

namespace opdock::core {

class Host;
struct Memo;
struct Implementation;
struct Policy;
struct View;

// A call that this thread made. The memo may be dead; the id is then no target's any more, so compare it before
// touching the memo. Ids are never used twice in a process.
struct Way {
    uint64_t target_id = 0;
    uint64_t host_id = 0;
    Memo *memo = nullptr;
};

// The calls of one op, newest first.
struct Slot {
    static constexpr size_t n_ways = 8;
    std::array<Way, n_ways> ways;
};

// An implementation that is running on this thread and called another op.
struct Frame {
    const Implementation *implementation;
    const Frame *previous;
};

// A scoped policy in force on this thread.
struct Scope {
    Host *host;
    uint64_t host_id;
    std::shared_ptr<const Policy> policy; // pushed
    std::shared_ptr<const View> view;     // what the whole stack amounts to; valid for policy_generation
    uint64_t policy_generation;
};

struct Launch {
    uint64_t host_id; // the implementation is gone when the host is
    const Implementation *implementation;
    DLDevice device;
};

struct ThreadState {
    static constexpr uint32_t scoped = 1;      // `scopes` is not empty
    static constexpr uint32_t nested = 2;      // `active` is not null
    static constexpr uint32_t registering = 4; // runs code of a plugin that is being loaded
    static constexpr uint32_t spoken_to = 8;   // a plugin left a message since the host last called one
    static constexpr uint32_t closing = 16;    // closes a host, and runs code of its plugins

    // Any of the above: the call takes the long way.
    uint32_t flags = 0;
    uint32_t n_slots = 0;
    uint32_t n_asking = 0; // implementations that this thread is asking whether they are available, one in another
    // The last call of each op, by handle index modulo n_latest: what the hot path looks at. Copies of ways in slots.
    static constexpr size_t n_latest = 64;
    std::array<Way, n_latest> latest;
    std::unique_ptr<Slot> *slots = nullptr; // n_slots of them, by handle index
    const Frame *active = nullptr;
    std::vector<std::unique_ptr<Slot>> slot_storage;
    std::vector<Scope> scopes;
    std::string error;   // opdock_last_error
    std::string message; // what a plugin left with fail() since it was last taken or cleared
    std::vector<std::array<int64_t, OPDOCK_MAX_RANK>> inferred_shapes; // that opdock_infer_outputs gave last
    // The last launches on devices other than the CPU, for the message of a lost device.
    std::array<Launch, 8> launches = {};
    uint32_t n_launches = 0;

    Slot &slot(uint32_t index);
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

// True where a kernel or plan_create of it is running on the thread, and called for another op.
inline bool is_active(const ThreadState &thread, const Implementation &implementation) {
    for (const Frame *frame = thread.active; frame != nullptr; frame = frame->previous) {
        if (frame->implementation == &implementation) {
            return true;
        }
    }
    return false;
}

} // namespace opdock::core

// Null until the thread first needs a state.
extern "C" {
extern constinit thread_local opdock::core::ThreadState *opdock_thread_state
    __attribute__((visibility("hidden"), tls_model("initial-exec")));
}
