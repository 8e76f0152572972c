#include "dispatch/open_hosts.hpp"

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include <pthread.h>

#include "dispatch/call_host.hpp"
#include "dispatch/call_thread.hpp"

namespace opdock::core {
namespace {

// Numbers from 0 on, each taken by one owner at a time.
class Numbers {
  public:
    uint32_t take() {
        if (!free_.empty()) {
            const uint32_t number = free_.back();
            free_.pop_back();
            return number;
        }
        if (free_.capacity() <= next_) { // so that give_back() never allocates
            free_.reserve(2 * (size_t{next_} + 1));
        }
        return next_++;
    }
    void give_back(uint32_t number) { free_.push_back(number); }
    // Makes this the only number taken; smaller ones are never handed out again.
    void keep_only(std::optional<uint32_t> number) {
        free_.clear();
        next_ = number ? *number + 1 : 0;
    }

  private:
    uint32_t next_ = 0;
    std::vector<uint32_t> free_;
};

// The hosts of this process and the numbers of handles and threads. Both locks are held during a fork,
// so that the child gets a consistent copy. Lock order: `mutex`, a ledger's, `numbers_mutex`.
struct Hosts {
    std::mutex mutex;
    std::map<uint64_t, CallHost *> open;
    uint64_t next_id = 1;

    std::mutex numbers_mutex;
    Numbers indices; // of op handles
    Numbers threads;

    const Hosts *of_parent = nullptr; // abandoned; pointed to so that it is not reported as a leak
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
    hosts().numbers_mutex.lock();
    for (const auto &[id, host] : hosts().open) {
        host->before_fork();
    }
}

void let_go_of_observers() {
    for (const auto &[id, host] : hosts().open) {
        host->after_fork();
    }
}

void after_fork_in_parent() {
    let_go_of_observers();
    hosts().numbers_mutex.unlock();
    hosts().mutex.unlock();
}

void start_over_in_child() {
    let_go_of_observers();
    // Only this thread is left. Whatever another thread was changing under a ledger's lock is
    // abandoned, finished or not; published values are complete and are kept.
    auto fresh = std::make_unique<Hosts>();
    Hosts &old = hosts();
    fresh->open = old.open;
    fresh->next_id = old.next_id;
    fresh->indices = std::move(old.indices); // including its capacity
    fresh->threads = std::move(old.threads);
    const CallThread *const left = known_call_thread();
    fresh->threads.keep_only(left != nullptr ? std::optional(left->number) : std::nullopt);
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

// The exiting thread may hold the lock, or another thread may hold it for long.
void at_exit() {
    try {
        std::vector<std::function<void()>> works;
        if (const std::unique_lock lock(hosts().mutex, std::try_to_lock); lock.owns_lock()) {
            for (const auto &[id, host] : hosts().open) {
                works.push_back(host->work_at_exit());
            }
        }
        for (const auto &work : works) { // without the lock, since an ending thread takes it
            if (work) {
                work();
            }
        }
    } catch (const std::bad_alloc &) { // NOLINT(bugprone-empty-catch): the process ends without it
    }
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

void work_at_exit_of_open_hosts() {
    static const int once = std::atexit(at_exit);
    (void)once;
}

uint32_t take_index() {
    Hosts &all = hosts();
    const std::lock_guard lock(all.numbers_mutex);
    return all.indices.take();
}

void give_back_indices(std::span<OpEntry *const> ops) {
    Hosts &all = hosts();
    const std::lock_guard lock(all.numbers_mutex);
    for (const OpEntry *op : ops) {
        all.indices.give_back(op->index);
    }
}

uint32_t take_thread_number() {
    handle_forks();
    Hosts &all = hosts();
    const std::lock_guard lock(all.numbers_mutex);
    return all.threads.take();
}

void give_back_thread_number(uint32_t number) {
    Hosts &all = hosts();
    const std::lock_guard lock(all.numbers_mutex);
    all.threads.give_back(number);
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
