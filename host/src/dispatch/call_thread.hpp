// Per-thread state of calls, in addition to the state in load/thread_state.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "load/thread_state.hpp"
#include "observe/trace_format.hpp"

namespace opdock::core {

class CallHost;
struct Memo;
struct Implementation;
struct Policy;
struct View;

// A call that this thread made. The memo may be dead; no target has that target_id any more, so
// compare the id before using the memo. Ids are never reused in a process.
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

// An implementation that is running on this thread and has called another op.
struct Frame {
    const Implementation *implementation;
    const Frame *previous;
};

// A scoped policy in force on this thread.
struct Scope {
    CallHost *host;
    uint64_t host_id;
    std::shared_ptr<const Policy> policy; // as pushed
    std::shared_ptr<const View> view;     // result of the whole stack; valid for policy_generation
    uint64_t policy_generation;
};

struct Launch {
    uint64_t host_id; // `implementation` dangles once this host is gone
    const Implementation *implementation;
    DLDevice device;
};

struct CallThread : ThreadState {
    uint32_t n_slots = 0;
    uint32_t number = 0; // unique among living threads that have a state
    // The last call of each op, by handle index modulo n_latest, for the hot path. Copies of ways in slots.
    static constexpr size_t n_latest = 64;
    std::array<Way, n_latest> latest;
    std::unique_ptr<Slot> *slots = nullptr; // n_slots pointers, by handle index
    const Frame *active = nullptr;
    std::vector<std::unique_ptr<Slot>> slot_storage;
    std::vector<Scope> scopes;
    std::vector<std::array<int64_t, OPDOCK_MAX_RANK>> inferred_shapes; // returned by the last opdock_infer_outputs
    // The last launches on devices other than the CPU, used in the message about a lost device.
    std::array<Launch, 8> launches = {};
    uint32_t n_launches = 0;
    TraceCursor trace;
    bool is_in_shadow = false; // a shadow is running; its calls have no shadows

    Slot &slot(uint32_t index);
};

// The state of the calling thread, made on first use.
inline CallThread &call_thread() {
    return static_cast<CallThread &>(thread_state());
}

// The same; null until the thread first needs a state.
inline CallThread *known_call_thread() {
    return static_cast<CallThread *>(opdock_thread_state);
}

// True if its kernel or plan_create is running on the thread and has called another op.
inline bool is_active(const CallThread &thread, const Implementation &implementation) {
    for (const Frame *frame = thread.active; frame != nullptr; frame = frame->previous) {
        if (frame->implementation == &implementation) {
            return true;
        }
    }
    return false;
}

} // namespace opdock::core
