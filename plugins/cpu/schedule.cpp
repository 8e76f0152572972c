#include "schedule.hpp"

#include <atomic>
#include <exception>
#include <mutex>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <pthread.h>

namespace cpu::detail {
namespace {

using Body = void (*)(const void *context, int64_t begin, int64_t end);

// A loop on the program's threads, which cannot handle our exceptions: the first one is rethrown at the end.
class LentLoop {
  public:
    LentLoop(Body body, const void *context) : body_(body), context_(context) {}

    void run(const opdock_thread_pool &pool, int64_t items, int64_t grain) {
        pool.parallel_for(
            pool.user_data, items, grain,
            [](void *self, int64_t begin, int64_t end) { static_cast<LentLoop *>(self)->run_chunk(begin, end); }, this);
        if (thrown_) {
            std::rethrow_exception(thrown_);
        }
    }

  private:
    void run_chunk(int64_t begin, int64_t end) noexcept {
        try {
            body_(context_, begin, end);
        } catch (...) {
            std::call_once(once_, [this] { thrown_ = std::current_exception(); });
        }
    }

    Body body_;
    const void *context_;
    std::once_flag once_;
    std::exception_ptr thrown_;
};

// In a forked child the threads of oneTBB are missing, and one of them may have held an internal lock.
std::atomic<bool> lost_threads{false};

void expect_forks() {
    static std::atomic<bool> is_expecting{false};
    if (!is_expecting.load(std::memory_order_relaxed) && !is_expecting.exchange(true)) {
        ::pthread_atfork(nullptr, nullptr, [] { lost_threads.store(true, std::memory_order_relaxed); });
    }
}

} // namespace

void run_chunks(const opdock_host_api &host, int64_t items, int64_t grain, Body body, const void *context) {
    if (const opdock_thread_pool *pool = opdock_thread_pool_of(&host)) {
        LentLoop(body, context).run(*pool, items, grain);
        return;
    }
    if (lost_threads.load(std::memory_order_relaxed)) {
        body(context, 0, items);
        return;
    }
    expect_forks();
    using Range = oneapi::tbb::blocked_range<int64_t>;
    oneapi::tbb::parallel_for(Range(0, items, static_cast<size_t>(grain)),
                              [=](const Range &chunk) { body(context, chunk.begin(), chunk.end()); });
}

} // namespace cpu::detail
