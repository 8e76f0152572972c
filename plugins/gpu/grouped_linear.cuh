// The groups of grouped_linear, as all of its kernels take them.
#pragma once

#include <cstdint>

#include "launch.hpp"

namespace gpu {

// For each group: c(i, j) = sum over p of a(i, p) * b(j, p). Rows in memory are rows i of a matrix, or, if it is
// `down`, p. If a is down (wgrad), groups are ranges of p with a c each; otherwise they are ranges of i with a b each.
template<class T>
struct Groups {
    const T *a, *b;
    T *c;
    const int32_t *starts;
    int64_t rows; // in all groups, and behind them
    int64_t groups;
    int64_t height;  // of c; only if a is down
    int64_t columns; // of c
    int64_t depth;   // only if a is not down
    int64_t a_step, b_step;
    bool a_down, b_down;

    int64_t blocks(int side) const {
        const int64_t across = ceil_div(columns, side);
        return across * (a_down ? groups * ceil_div(height, side) : pieces(side));
    }
    // Upper bound for the tiles of rows: one extra for each group, and one for the rows behind the last group.
    __host__ __device__ int64_t pieces(int side) const { return rows / side + groups + 1; }
    // First row of a group, or of the rows behind the last group.
    __device__ __forceinline__ int64_t start(int64_t group) const {
        return group > groups ? rows : min(max(static_cast<int64_t>(starts[group]), int64_t(0)), rows);
    }
};

// True if the kernel for warpgroups (compute capability 9.0) takes these groups on the call's device.
template<class T>
bool fits_warpgroups(const opdock::Call &call, const Groups<T> &all);
template<class T>
opdock::Status multiply_by_warpgroups(const opdock::Call &call, const Groups<T> &all);
uint64_t warpgroups_workspace(const opdock::Problem &problem);

} // namespace gpu
