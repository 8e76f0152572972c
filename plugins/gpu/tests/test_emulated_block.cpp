// The emulated block: values exchanged by its threads, and the reports of waits that never end.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hip/hip_runtime.h>

namespace {

std::string run(int threads, int warp_size, const std::function<void(int)> &kernel) {
    return emulated::run_block(threads, warp_size, 0, [&](int thread, float *) { kernel(thread); });
}

void check_starts_with(const std::string &found, const std::string &expected) {
    CHECK(found.substr(0, expected.size()) == expected);
}

} // namespace

TEST_CASE("threads see what others wrote before a barrier, in both orders") {
    for (const bool descends : {false, true}) {
        int written[128] = {}, wrong = 0;
        const std::string why = emulated::run_threads(128, 64, descends, [&] {
            for (int round = 1; round <= 3; ++round) {
                written[threadIdx.x] = round;
                __syncthreads();
                wrong += written[127 - threadIdx.x] != round ? 1 : 0;
                __syncthreads();
            }
        });
        CHECK(why == "");
        CHECK(wrong == 0);
    }
}

TEST_CASE("the order of threads without a barrier is one or the other") {
    std::vector<unsigned> order;
    const auto note = [&] { order.push_back(threadIdx.x); };
    CHECK(emulated::run_threads(3, 32, false, note) == "");
    CHECK(emulated::run_threads(3, 32, true, note) == "");
    CHECK(order == std::vector<unsigned>{0, 1, 2, 2, 1, 0});
}

TEST_CASE("shuffles stay within a warp and its parts") {
    for (const int warp_size : {32, 64}) {
        CAPTURE(warp_size);
        std::vector<int> next(128), up(128), first(128), beyond(128);
        const std::string why = run(128, warp_size, [&](int thread) {
            const auto i = static_cast<std::size_t>(thread);
            next[i] = __shfl_xor(thread, 1, warp_size);
            up[i] = __shfl_up(thread, 1u, 16);
            first[i] = __shfl(thread, 0, 32);
            beyond[i] = __shfl_xor(thread, 16, 16);
        });
        CHECK(why == "");
        for (int thread = 0; thread < 128; ++thread) {
            const auto i = static_cast<std::size_t>(thread);
            CHECK(next[i] == (thread ^ 1));
            CHECK(up[i] == (thread % 16 == 0 ? thread : thread - 1));
            CHECK(first[i] == thread / 32 * 32);
            CHECK(beyond[i] == (thread % 32 < 16 ? thread : thread - 16));
        }
    }
}

TEST_CASE("votes are of the warp, or of the block") {
    std::vector<unsigned long long> ballots(128);
    std::vector<int> of_warp(128), of_block(128);
    CHECK(run(128, 64, [&](int thread) {
              const auto i = static_cast<std::size_t>(thread);
              ballots[i] = __ballot(thread % 64 == 3 || thread == 127);
              of_warp[i] = __any(thread == 3);
              of_block[i] = __syncthreads_or(thread == 3);
          }) == "");
    CHECK(ballots[0] == 1ull << 3);
    CHECK(ballots[64] == (1ull << 3 | 1ull << 63));
    CHECK(of_warp[63] == 1);
    CHECK(of_warp[64] == 0);
    CHECK(of_block[64] == 1);
}

TEST_CASE("a thread that is not there gives NaN") {
    float found = 0;
    CHECK(run(16, 32, [&](int) { found = __shfl_xor(1.0f, 16, 32); }) == "");
    CHECK(std::isnan(found));
}

TEST_CASE("a barrier that not all threads reach is reported, and the next block runs") {
    check_starts_with(run(64, 32,
                          [](int thread) {
                              if (thread < 48) {
                                  __syncthreads();
                              }
                          }),
                      "a wait never ends: 16 of 64 threads have returned, and 48 wait at a barrier (thread 0 first)");
    CHECK(run(64, 32, [](int) { __syncthreads(); }) == "");
}

TEST_CASE("a shuffle with threads that have returned is reported") {
    check_starts_with(run(64, 64,
                          [](int thread) {
                              if (thread != 5) {
                                  static_cast<void>(__shfl(thread, 0, 64));
                              }
                          }),
                      "a wait never ends: 1 of 64 threads have returned, and 63 wait at a shuffle");
}

TEST_CASE("threads that wait for each other in different ways are reported") {
    CHECK(run(64, 64, [](int thread) { thread == 0 ? static_cast<void>(__any(0)) : static_cast<void>(__ballot(0)); }) ==
          "threads wait for each other in different ways: thread 1 at a ballot, others at a vote of the warp");
}
