// A GPU block on the CPU. Each thread of the block has its own stack, and all of them run on the program's thread that
// started them: each runs until it waits for others. A wait that never ends is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace emulated {

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

// Indices of the running thread. Only one block runs at a time in the whole program.
extern Index thread_index, block_index, block_size, grid_size;
extern int warp_size;

// Runs kernel() in all threads of a block, which has whole warps or less than one; the last thread
// begins if `descends`. Returns an error message, which is empty if all threads have returned.
[[nodiscard]] std::string run_threads(int threads, int of_warp, bool descends, const std::function<void()> &kernel);

// Does the same for a single block, with kernel(thread, shared) and `floats` of shared memory that are initially NaN.
[[nodiscard]] std::string run_block(int threads, int of_warp, std::size_t floats,
                                    const std::function<void(int, float *)> &kernel);

// --- called by kernels; all threads of the block, or of the warp, make the same calls ---

void wait_for_block();
bool any_of_block(bool holds);
void wait_for_warp();
bool any_of_warp(bool holds);
std::uint64_t ballot(bool holds);
// The value that thread `lane` of the warp passed; all bits are set if there is no such thread.
std::uint64_t value_of_lane(std::uint64_t mine, int lane);

} // namespace emulated
