#include "dispatch/open_hosts.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <pthread.h>

#include "dispatch/call_host.hpp"
#include "dispatch/call_thread.hpp"

namespace opdock::core {
namespace {

// The hosts of this process and the handle indices they use. Both locks are held while the process forks, so that the
// child copies what is whole. The first is taken before a ledger's, the second after.
struct Hosts {
    std::mutex mutex;
    std::map<uint64_t, CallHost *> open;
    uint64_t next_id = 1;

    std::mutex index_mutex;
    uint32_t next_index = 0;
    std::vector<uint32_t> free_indices;

    const Hosts *of_parent = nullptr; // abandoned, and still pointed to: it is no leak
};

Hosts *&hosts_pointer() {
    static auto *hosts = new Hosts; // never freed: threads may end after main returned
    return hosts;
}

Hosts &hosts() {
    return *hosts_pointer();
}

void before_fork() {
    hosts().mutex.lock();
    hosts().index_mutex.lock();
}

void after_fork_in_parent() {
    hosts().index_mutex.unlock();
    hosts().mutex.unlock();
}

void start_over_in_child() {
    // Only this thread is left. What another thread was changing under a ledger's lock is abandoned, half changed or
    // not; what is kept was published whole.
    auto fresh = std::make_unique<Hosts>();
    Hosts &old = hosts();
    fresh->open = old.open;
    fresh->next_id = old.next_id;
    fresh->next_index = old.next_index;
    fresh->free_indices = std::move(old.free_indices); // with the room that it has
    fresh->of_parent = &old;
    hosts_pointer() = fresh.release();
    if (CallThread *const thread = known_call_thread()) {
        for (const auto &slot : thread->slot_storage) {
            if (slot) {
                *slot = {};
            }
        }
        thread->latest.fill({});
        for (Scope &scope : thread->scopes) {
            scope.policy_generation = 0;
        }
    }
    for (const auto &[id, host] : hosts().open) {
        host->start_over_in_child();
    }
}

void handle_forks() {
    static const int once = pthread_atfork(before_fork, after_fork_in_parent, start_over_in_child);
    (void)once;
}

} // namespace

uint64_t next_host_id() {
    const std::lock_guard lock(hosts().mutex);
    return hosts().next_id++;
}

void join_open_hosts(CallHost &host) {
    handle_forks();
    const std::lock_guard lock(hosts().mutex);
    hosts().open.emplace(host.id(), &host);
}

void leave_open_hosts(const CallHost &host) {
    const std::lock_guard lock(hosts().mutex);
    hosts().open.erase(host.id());
}

uint32_t take_index() {
    Hosts &all = hosts();
    const std::lock_guard lock(all.index_mutex);
    if (all.free_indices.empty()) {
        if (all.free_indices.capacity() <= all.next_index) { // so that giving back needs no memory
            all.free_indices.reserve(2 * (size_t{all.next_index} + 1));
        }
        return all.next_index++;
    }
    const uint32_t index = all.free_indices.back();
    all.free_indices.pop_back();
    return index;
}

void give_back_indices(std::span<OpEntry *const> ops) {
    Hosts &all = hosts();
    const std::lock_guard lock(all.index_mutex);
    for (const OpEntry *op : ops) {
        all.free_indices.push_back(op->index);
    }
}

void release_memos_of(CallThread &thread) {
    Hosts &all = hosts();
    const std::lock_guard lock(all.mutex);
    for (const auto &slot : thread.slot_storage) {
        for (size_t i = 0; slot && i < Slot::n_ways; ++i) {
            const Way &way = slot->ways.at(i);
            const auto host = all.open.find(way.host_id);
            if (way.memo != nullptr && host != all.open.end()) {
                host->second->release(way.memo);
            }
        }
    }
}

} // namespace opdock::core
