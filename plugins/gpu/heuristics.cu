#include "heuristics.hpp"

#include <algorithm>

#include "rows.cuh"
#include "tensors.hpp"

namespace gpu {
namespace {

// The largest tensor, which determines most of the work.
const DLTensor *largest(const opdock::Problem &problem) {
    const DLTensor *found = nullptr;
    for (uint32_t i = 0; i < problem.c().n_tensors; ++i) {
        const DLTensor *tensor = problem.c().tensors[i];
        if (tensor != nullptr && (found == nullptr || element_count(*tensor) > element_count(*found))) {
            found = tensor;
        }
    }
    return found;
}

// 16-byte vectors in a row of the tensor.
int64_t vectors_of_row(const DLTensor *tensor) {
    return tensor == nullptr ? 1 : std::max<int64_t>(1, row_size(*tensor) * element_bytes(*tensor) / 16);
}

int64_t rows_of(const DLTensor *tensor) {
    return tensor == nullptr ? 1 : row_count(*tensor);
}

int64_t row_threads(const opdock::Problem &problem) {
    const DLTensor *tensor = largest(problem);
    return default_row_threads(rows_of(tensor), vectors_of_row(tensor), compute_units(problem));
}

} // namespace

// One vector per thread if there are few elements, which makes more blocks.
opdock::Status elementwise_heuristic(const opdock::Problem &problem, int64_t *knobs) {
    const DLTensor *tensor = largest(problem);
    const int64_t bytes = tensor == nullptr ? 0 : element_count(*tensor) * element_bytes(*tensor);
    knobs[0] = 256;
    knobs[1] = bytes >= (int64_t(32) << 20) ? 2 : 1;
    return {};
}

// Rows per thread: 32 bytes of each of a column's two vectors, which have four elements.
opdock::Status rotations_heuristic(const opdock::Problem &problem, int64_t *knobs) {
    knobs[0] = 128;
    knobs[1] = 8 / element_bytes(*problem.input(0));
    return {};
}

opdock::Status rows_heuristic(const opdock::Problem &problem, int64_t *knobs) {
    knobs[0] = row_threads(problem);
    knobs[1] = std::max<int64_t>(64, knobs[0]);
    return {};
}

// Blocks are small next to a compute unit's capacity, so that some read while others write. Few rows are spread over as
// many threads as fit, as long as each thread has a batch of four vectors.
opdock::Status row_batches_heuristic(const opdock::Problem &problem, int64_t *knobs) {
    const DLTensor *tensor = largest(problem);
    const int64_t room = int64_t(2048) * compute_units(problem) / std::max<int64_t>(1, rows_of(tensor));
    int64_t threads = std::min<int64_t>(256, row_threads(problem));
    while (threads < 1024 && 2 * threads <= room && 8 * threads <= vectors_of_row(tensor)) {
        threads *= 2;
    }
    knobs[0] = threads;
    knobs[1] = std::max<int64_t>(64, threads);
    return {};
}

// Two vectors per thread, in one block of at most 512 threads per compute unit. More vectors per thread, and more and
// smaller blocks, were slower on an H200.
opdock::Status columns_heuristic(const opdock::Problem &problem, int64_t *knobs) {
    knobs[0] = std::clamp<int64_t>(next_power_of_two(ceil_div(vectors_of_row(largest(problem)), 2)), 32, 512);
    knobs[1] = 1;
    return {};
}

} // namespace gpu
