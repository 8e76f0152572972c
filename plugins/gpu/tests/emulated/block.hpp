// A block of a GPU on the CPU. Each thread of the block has a stack of its own, and all of them run on the one thread
// of the program that started them: each goes on until it waits for others. A wait that never ends is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace emulated {

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

// Of the thread that is running. One block runs at a time in the whole program.
extern Index thread_index, block_index, block_size, grid_size;
extern int warp_size;

// All threads of a block of whole warps, or of less than one, call kernel(), the highest numbers first if `descends`.
// Returns what went wrong; empty if all of them have returned.
[[nodiscard]] std::string run_threads(int threads, int of_warp, bool descends, const std::function<void()> &kernel);

// The same of one block, of which kernel(thread, shared) is called with `floats` of shared memory that hold NaN.
[[nodiscard]] std::string run_block(int threads, int of_warp, std::size_t floats,
                                    const std::function<void(int, float *)> &kernel);

// --- what kernels call; all threads of the block, or of the warp, call the same ---

void wait_for_block();
bool any_of_block(bool holds);
void wait_for_warp();
bool any_of_warp(bool holds);
std::uint64_t ballot(bool holds);
// What thread `lane` of the warp gave; all bits set where there is none.
std::uint64_t value_of_lane(std::uint64_t mine, int lane);

} // namespace emulated
