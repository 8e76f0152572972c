#include "heuristics.hpp"

#include "rows.hpp"

namespace cpu {

namespace {

constexpr int64_t mib = int64_t(1) << 20;

// With less data than this, handing a task to another thread does not pay.
constexpr int64_t grain_kib = 256;

// With more data than this, the caches keep nothing of it for the next op, so reading lines that are about to be
// overwritten is pure loss.
constexpr int64_t stream_from = 64 * mib;

} // namespace

opdock::Status heuristic(const opdock::Problem &problem, int64_t *knobs) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < problem.c().n_tensors; ++i) {
        if (const DLTensor *tensor = problem.c().tensors[i])
            bytes += element_count(*tensor) * element_bytes(*tensor);
    }
    knobs[0] = grain_kib;
    knobs[1] = bytes >= stream_from ? 1 : 0;
    return {};
}

} // namespace cpu
