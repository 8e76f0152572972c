// A block of a GPU on the CPU, for the headers of kernels that are included after this one: each of its threads is a
// thread of the program, and warps wait for each other where they exchange values. One definition for all tests: the
// templates of those headers are the same in each of them.
#pragma once

#include <barrier>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#define GPU_EMULATED
#define __device__
#define __forceinline__ inline

namespace emulated {

// The block that is running. Memory between two barriers belongs to who wrote it.
class Block {
  public:
    // Of whole warps, or of fewer threads than one has.
    Block(int threads, int warp_size)
        : threads_(threads), warp_size_(warp_size), all_(threads), values_(static_cast<size_t>(threads)) {
        for (int first = 0; first < threads; first += warp_size) {
            warps_.push_back(std::make_unique<std::barrier<>>(threads < warp_size ? threads : warp_size));
        }
    }

    int threads() const { return threads_; }
    int warp_size() const { return warp_size_; }
    void wait() { all_.arrive_and_wait(); }

    float shuffle_xor(int thread, float value, int mask) {
        std::barrier<> &warp = *warps_[static_cast<size_t>(thread / warp_size_)];
        values_[static_cast<size_t>(thread)] = value;
        warp.arrive_and_wait();
        const float other = values_[static_cast<size_t>(thread ^ mask)];
        warp.arrive_and_wait(); // nobody writes again before all have read
        return other;
    }

    bool any_of_block(int thread, bool holds) { return any(all_, 0, threads_, thread, holds); }
    bool any_of_warp(int thread, bool holds) {
        const int first = thread / warp_size_ * warp_size_;
        const int end = first + warp_size_ < threads_ ? first + warp_size_ : threads_;
        return any(*warps_[static_cast<size_t>(thread / warp_size_)], first, end, thread, holds);
    }

  private:
    bool any(std::barrier<> &waiting, int first, int end, int thread, bool holds) {
        values_[static_cast<size_t>(thread)] = holds ? 1.0f : 0.0f;
        waiting.arrive_and_wait();
        bool found = false;
        for (int i = first; i < end; ++i) {
            found = found || values_[static_cast<size_t>(i)] != 0.0f;
        }
        waiting.arrive_and_wait();
        return found;
    }

    int threads_;
    int warp_size_;
    std::barrier<> all_;
    std::vector<std::unique_ptr<std::barrier<>>> warps_;
    std::vector<float> values_;
};

inline thread_local Block *block = nullptr;
inline thread_local int thread = 0;

// One block: kernel(thread, shared) in each of its threads, with `floats` of shared memory that hold NaN.
inline void run_block(int threads, int warp_size, size_t floats, const std::function<void(int, float *)> &kernel) {
    Block running(threads, warp_size);
    std::vector<float> shared(floats, std::numeric_limits<float>::quiet_NaN());
    std::vector<std::thread> all;
    all.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) {
        all.emplace_back([&running, &shared, &kernel, i] {
            block = &running;
            thread = i;
            kernel(i, shared.data());
        });
    }
    for (std::thread &one : all) {
        one.join();
    }
}

} // namespace emulated

namespace gpu {

inline int warp_size() {
    return emulated::block->warp_size();
}
inline int thread_in_block() {
    return emulated::thread;
}
inline int threads_of_block() {
    return emulated::block->threads();
}
inline void wait_for_block() {
    emulated::block->wait();
}
inline float shuffle_xor(float value, int mask) {
    return emulated::block->shuffle_xor(emulated::thread, value, mask);
}
inline bool any_of_block(bool holds) {
    return emulated::block->any_of_block(emulated::thread, holds);
}
inline bool any_of_warp(bool holds) {
    return emulated::block->any_of_warp(emulated::thread, holds);
}

// What kernels know at compile time.
template<int value_>
struct Number {
    static constexpr int value = value_;
};

} // namespace gpu
