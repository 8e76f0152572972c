#include "dispatch/call_thread.hpp"

#include <pthread.h>

#include "dispatch/open_hosts.hpp"

extern "C" {
constinit thread_local opdock::core::ThreadState *opdock_thread_state
    __attribute__((visibility("hidden"), tls_model("initial-exec"))) = nullptr;
}

namespace opdock::core {
namespace {

// A pthread key: a thread_local object with a destructor would add a guard to every access.
pthread_key_t destructor_key() {
    static const pthread_key_t key = [] {
        pthread_key_t made = 0;
        pthread_key_create(&made, [](void *state) {
            auto *dying = static_cast<CallThread *>(state);
            release_memos_of(*dying);
            give_back_thread_number(dying->number);
            delete dying;
            opdock_thread_state = nullptr;
        });
        return made;
    }();
    return key;
}

} // namespace

ThreadState &thread_state() {
    if (opdock_thread_state == nullptr) {
        auto state = std::make_unique<CallThread>();
        state->number = take_thread_number();
        pthread_setspecific(destructor_key(), state.get());
        opdock_thread_state = state.release();
    }
    return *opdock_thread_state;
}

Slot &CallThread::slot(uint32_t index) {
    if (index >= slot_storage.size()) {
        slot_storage.resize(static_cast<size_t>(index) + 16);
        slots = slot_storage.data();
        n_slots = static_cast<uint32_t>(slot_storage.size());
    }
    if (!slot_storage[index]) {
        slot_storage[index] = std::make_unique<Slot>();
    }
    return *slot_storage[index];
}

} // namespace opdock::core
