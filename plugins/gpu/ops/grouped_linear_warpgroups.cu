// grouped_linear of f16 and bf16 on compute capability 9.0: resident blocks with one warp that copies tiles (TMA) and
// two warpgroups that multiply them (wgmma).
#include "grouped_linear.cuh"

#include <cstring>

#include "shared_memory.hpp"
#include "tensors.hpp"
#include "warpgroup.cuh"

namespace gpu {

#if defined(GPU_WARPGROUPS) && !defined(__HIP__)

namespace {

// A block makes up to 256 x 128 of c at a time; each warpgroup has 64 of the columns. wgmma treats them as rows, so
// that the number of a tile's rows may be any multiple of 32. A group's rows are divided evenly among the fewest tiles.
constexpr int unit = 32, most_units = 8, tile_rows = most_units * unit, tile_columns = 2 * box_side;
constexpr int row_boxes = tile_rows / box_side, stage_bytes = (row_boxes + 2) * box_bytes;
constexpr int stages = 4;
constexpr int multiplying = 256, block = multiplying + 32;
constexpr int parts = 2; // boxes of a warpgroup that are being written to c

struct Matrices {
    CUtensorMap a, b, c;
};

// A tile of c, with the data that multiplying warps need.
struct Job {
    int row, column, matrix;
    int rows;        // 0: no more jobs
    int steps, tail; // of the depth; elements in the last step
};

struct Stages {
    uint64_t full[stages], empty[stages];
    Job jobs[stages]; // job of the data that begins in this stage
};

constexpr int64_t shared_bytes = stages * stage_bytes + 2 * parts * box_bytes + sizeof(Stages);

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

constexpr int lead = 2; // steps of each job that the first warpgroup starts ahead of the second

// The next stage, and the parity of the number of rounds through all stages.
struct Turn {
    int stage = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ void next() {
        stage = stage + 1 == stages ? 0 : stage + 1;
        parity ^= stage == 0 ? 1 : 0;
    }
};

// A job, and the locations of its boxes.
struct Copies {
    Job job;
    int row;    // of a; a column of a if that is down
    int matrix; // of b
    int depth;  // start of the depth
};

// Finds the jobs of one block, in the order of their tiles. All lanes of a warp take part.
template<class T>
class Walk {
  public:
    __device__ __forceinline__ explicit Walk(const Groups<T> &all)
        : all_(all), across_(static_cast<int>(ceil_div(all.columns, tile_columns))) {}

    // Returns a job with 0 rows after the last tile.
    __device__ __forceinline__ Copies at(int tile) {
        if (all_.a_down) {
            const int of_group = static_cast<int>(ceil_div(all_.height, tile_rows)) * across_;
            const int group = tile / of_group;
            return group < all_.groups ? down(group, tile % of_group) : Copies{};
        }
        while (first_ <= all_.groups) {
            const int64_t group = first_ + static_cast<int>(threadIdx.x) % 32;
            const int64_t rows = group <= all_.groups ? all_.start(group + 1) - all_.start(group) : 0;
            const int tiles = rows > 0 ? static_cast<int>(ceil_div(rows, tile_rows)) * across_ : 0;
            int sum = tiles;
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) {
                const int before = __shfl_up_sync(~0u, sum, distance);
                sum += static_cast<int>(threadIdx.x) % 32 >= distance ? before : 0;
            }
            const unsigned reached = __ballot_sync(~0u, before_ + sum > tile);
            if (reached != 0) {
                const int lane = __ffs(static_cast<int>(reached)) - 1;
                return within(first_ + lane, tile - before_ - __shfl_sync(~0u, sum - tiles, lane));
            }
            before_ += __shfl_sync(~0u, sum, 31);
            first_ += 32;
        }
        return {};
    }

  private:
    const Groups<T> &all_;
    const int across_;
    int64_t first_ = 0; // first of the 32 groups under examination
    int before_ = 0;    // tiles before it

    struct Part {
        int begin, end, column;
    };

    // Eight tiles down, then the next column: blocks that run at the same time share tiles of both matrices.
    __device__ __forceinline__ Part part(int64_t rows, int tile) const {
        constexpr int band = 8;
        const int boxes = static_cast<int>(ceil_div(rows, box_side)), pieces = (boxes + row_boxes - 1) / row_boxes;
        const int first = tile / (band * across_) * band, high = min(pieces - first, band);
        const int rest = tile % (band * across_);
        const int64_t piece = first + rest % high;
        const int64_t begin = piece * boxes / pieces * box_side, end = (piece + 1) * boxes / pieces * box_side;
        return {static_cast<int>(begin), static_cast<int>(min(end, rows)), rest / high * tile_columns};
    }

    __device__ __forceinline__ Copies within(int64_t group, int tile) const {
        const int64_t start = all_.start(group);
        const Part found = part(all_.start(group + 1) - start, tile);
        const int64_t row = start + found.begin;
        const int steps = group == all_.groups ? 0 : static_cast<int>(ceil_div(all_.depth, box_side));
        return {{static_cast<int>(row), found.column, 0, found.end - found.begin, steps, box_side},
                static_cast<int>(row),
                static_cast<int>(group),
                0};
    }

    __device__ __forceinline__ Copies down(int64_t group, int tile) const {
        const Part found = part(all_.height, tile);
        const int64_t start = all_.start(group), depth = max(all_.start(group + 1) - start, int64_t(0));
        const int steps = static_cast<int>(ceil_div(depth, box_side));
        return {{found.begin, found.column, static_cast<int>(group), found.end - found.begin, steps,
                 static_cast<int>(depth) - (steps - 1) * box_side},
                found.begin,
                0,
                static_cast<int>(start)};
    }
};

// --- the warp that copies --------------------------------------------------------------------------------------------

template<bool a_down, bool b_down>
__device__ __forceinline__ void copy_stage(const Matrices &from, const Copies &copies, int step, char *to,
                                           uint64_t *full) {
    const int boxes = (copies.job.rows + box_side - 1) / box_side, depth = copies.depth + step * box_side;
    arrive_expecting(full, (boxes + 2) * box_bytes);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int column = copies.job.column + i * box_side;
        copy_box(to + (row_boxes + i) * box_bytes, from.b, b_down ? column : depth, b_down ? depth : column,
                 copies.matrix, full);
    }
    for (int i = 0; i < boxes; ++i) {
        const int row = copies.row + i * box_side;
        copy_box(to + i * box_bytes, from.a, a_down ? row : depth, a_down ? depth : row, 0, full);
    }
}

// A block begins with the tile of its own number. After that it takes the next free tile, using the counter `taken`;
// without a counter it advances by the number of blocks.
template<class T, bool a_down, bool b_down>
__device__ __forceinline__ void copy_all(const Matrices &from, const Groups<T> &all, int *taken, Stages &shared,
                                         char *tiles) {
    const bool first_lane = threadIdx.x % 32 == 0;
    if (first_lane) {
        fetch_description(from.a);
        fetch_description(from.b);
    }
    Walk<T> walk(all);
    Turn turn;
    Copies copies;
    int tile = static_cast<int>(blockIdx.x);
    do {
        copies = walk.at(tile);
        tile += static_cast<int>(gridDim.x);
        if (first_lane) {
            if (taken != nullptr) {
                tile = static_cast<int>(gridDim.x) + atomicAdd(taken, 1);
            }
#pragma unroll 1
            for (int step = 0; step < max(copies.job.steps, 1); ++step) {
                wait_for(&shared.empty[turn.stage], turn.parity ^ 1);
                if (step == 0) {
                    shared.jobs[turn.stage] = copies.job;
                }
                if (copies.job.steps == 0) {
                    arrive(&shared.full[turn.stage]);
                } else {
                    copy_stage<a_down, b_down>(from, copies, step, tiles + turn.stage * stage_bytes,
                                               &shared.full[turn.stage]);
                }
                turn.next();
            }
        }
        tile = __shfl_sync(~0u, tile, 0);
    } while (copies.job.rows != 0);
}

// --- the warpgroups that multiply ------------------------------------------------------------------------------------

__device__ __forceinline__ void release(Stages &shared, int stage) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        arrive(&shared.empty[stage]);
    }
}

__device__ __forceinline__ void wait_for_warpgroup(int group) {
    asm volatile("bar.sync %0, 128;" ::"r"(2 + group) : "memory");
}

// Clears the elements past the end of the depth, which belong to the next group, in the boxes that a
// warpgroup multiplies. Both warpgroups clear the boxes of rows, so that neither waits for the other.
__device__ __forceinline__ void clear_behind(int tail, int group, char *boxes) {
    constexpr int chunks = box_side * 8;
    for (int i = tail * 8 + static_cast<int>(threadIdx.x) % 128; i < chunks; i += 128) {
#pragma unroll
        for (int box = 0; box <= row_boxes; ++box) {
            reinterpret_cast<uint4 *>(boxes)[(box + (box == row_boxes ? group : 0)) * chunks + i] = {0, 0, 0, 0};
        }
    }
    show_to_warpgroups();
    wait_for_warpgroup(group);
}

// A warpgroup's part of a job with `units` units of rows. The first stage is already full.
template<class T, bool a_down, bool b_down, int units>
__device__ __forceinline__ void multiply_job(const Job &job, Stages &shared, char *tiles, Turn &turn,
                                             float (&sums)[tile_rows / 2]) {
    const int group = static_cast<int>(threadIdx.x) / 128;
#pragma unroll
    for (int i = 0; i < units * 16; ++i) {
        sums[i] = 0.0f;
    }
    if (lead != 0 && group == 1) {
        asm volatile("bar.sync 1, %0;" ::"n"(multiplying) : "memory");
    }
    int last = 0;
#pragma unroll 1
    for (int step = 0; step < job.steps; ++step) {
        char *const boxes = tiles + turn.stage * stage_bytes;
        wait_for(&shared.full[turn.stage], turn.parity);
        if (a_down && step == job.steps - 1 && job.tail != box_side) {
            clear_behind(job.tail, group, boxes);
        }
        const uint64_t a = operand<a_down>(boxes), b = operand<b_down>(boxes + (row_boxes + group) * box_bytes);
        begin_products();
        multiply<T, b_down, a_down, units>(sums, b, a);
        end_group_of_products();
        if (lead != 0 && group == 0 && step == min(lead, job.steps) - 1) {
            asm volatile("bar.arrive 1, %0;" ::"n"(multiplying) : "memory");
        }
        wait_for_products_but<1>();
        if (step != 0) {
            release(shared, last);
        }
        last = turn.stage;
        turn.next();
    }
    wait_for_products_but<0>();
    hold(sums);
    release(shared, last);
}

// Selects the code for the job's number of units.
template<class T, bool a_down, bool b_down, int units = 1>
__device__ __forceinline__ void multiply_units(const Job &job, Stages &shared, char *tiles, Turn &turn,
                                               float (&sums)[tile_rows / 2]) {
    if constexpr (units == most_units) {
        multiply_job<T, a_down, b_down, units>(job, shared, tiles, turn, sums);
    } else if (job.rows <= units * unit) {
        multiply_job<T, a_down, b_down, units>(job, shared, tiles, turn, sums);
    } else {
        multiply_units<T, a_down, b_down, units + 1>(job, shared, tiles, turn, sums);
    }
}

template<class T>
__device__ __forceinline__ uint32_t pair_of(float low, float high) {
    Vector<T, 2> pair;
    pair.elements[0] = from_f32<T>(low);
    pair.elements[1] = from_f32<T>(high);
    return *reinterpret_cast<const uint32_t *>(pair.elements);
}

// Writes 64 rows of c from a warpgroup's sums, through a box that is written asynchronously.
template<class T>
__device__ __forceinline__ void write_rows(const float *sums, const Job &job, int row, const CUtensorMap &map,
                                           const Groups<T> &all, char *box) {
    const int thread = static_cast<int>(threadIdx.x) % 128, group = static_cast<int>(threadIdx.x) / 128;
    const int lane = thread % 32, column = job.column + group * box_side;
    if (thread == 0) {
        wait_for_writes_but<parts - 1>();
    }
    wait_for_warpgroup(group);
#pragma unroll
    for (int i = 0; i < box_side / 16; ++i) {
        const float *const at = sums + i * 8;
        const int to = i * 16 + lane / 16 * 8 + lane % 8, chunk = thread / 32 * 2 + lane / 8 % 2;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         address_of(box + to * 128 + (chunk ^ to % 8) * 16)),
                     "r"(pair_of<T>(at[0], at[1])), "r"(pair_of<T>(at[2], at[3])), "r"(pair_of<T>(at[4], at[5])),
                     "r"(pair_of<T>(at[6], at[7]))
                     : "memory");
    }
    show_to_warpgroups();
    wait_for_warpgroup(group);
    if (row + box_side <= job.rows) {
        if (thread == 0) {
            write_box(map, column, job.row + row, job.matrix, box);
        }
    } else { // rows below belong to the next group
        T *const c = all.c + (job.matrix * all.height + job.row + row) * all.columns + column;
        const int chunk = thread % 8;
        for (int from = thread / 8; from < job.rows - row; from += 16) {
            if (column + chunk * 8 < all.columns) {
                *reinterpret_cast<uint4 *>(c + from * all.columns + chunk * 8) =
                    *reinterpret_cast<const uint4 *>(box + from * 128 + (chunk ^ from % 8) * 16);
            }
        }
    }
    if (thread == 0) {
        end_group_of_writes();
    }
}

template<class T, bool a_down, bool b_down>
__device__ __forceinline__ void multiply_all(const Matrices &matrices, const Groups<T> &all, Stages &shared,
                                             char *tiles) {
    const int group = static_cast<int>(threadIdx.x) / 128;
    char *const boxes = tiles + stages * stage_bytes + group * parts * box_bytes;
    Turn turn;
    int part = 0;
    while (true) {
        wait_for(&shared.full[turn.stage], turn.parity);
        const Job job = shared.jobs[turn.stage];
        if (job.rows == 0) {
            break;
        }
        float sums[tile_rows / 2];
        if (job.steps == 0) {
#pragma unroll
            for (float &sum : sums) {
                sum = 0.0f;
            }
            release(shared, turn.stage);
            turn.next();
        } else {
            multiply_units<T, a_down, b_down>(job, shared, tiles, turn, sums);
        }
#pragma unroll
        for (int i = 0; i < row_boxes; ++i) {
            if (i * box_side < job.rows) {
                write_rows(sums + i * 32, job, i * box_side, matrices.c, all, boxes + part * box_bytes);
                part = part + 1 == parts ? 0 : part + 1;
            }
        }
    }
    wait_for_writes_but<0>();
}

#endif

template<class T, bool a_down, bool b_down>
__global__ void __launch_bounds__(block, 1)
    warpgroups_kernel(GPU_READ_ONLY const Matrices from, GPU_READ_ONLY const Groups<T> all, int *taken) {
    wait_for_earlier_kernels();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ char __align__(1024) tiles[];
    Stages &shared = *reinterpret_cast<Stages *>(tiles + stages * stage_bytes + 2 * parts * box_bytes);
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; ++i) {
            make_barrier(&shared.full[i], 1);
            make_barrier(&shared.empty[i], multiplying / 32);
        }
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= multiplying) {
        copy_all<T, a_down, b_down>(from, all, taken, shared, tiles);
    } else {
        multiply_all<T, a_down, b_down>(from, all, shared, tiles);
    }
#endif
}

// Upper bound for the number of tiles.
template<class T>
int64_t most_tiles(const Groups<T> &all) {
    const int64_t down =
        all.a_down ? all.groups * ceil_div(all.height, tile_rows) : all.rows / tile_rows + all.groups + 1;
    return down * ceil_div(all.columns, tile_columns);
}

template<class T>
opdock::Status describe(const Groups<T> &all, Matrices &matrices) {
    constexpr bool is_bf16 = std::is_same_v<T, bf16>;
    cudaError_t error = describe_boxes(matrices.a, is_bf16, all.a, all.a_step, all.rows, 1);
    if (error == cudaSuccess) {
        const int64_t rows = all.a_down ? all.rows : all.b_down ? all.depth : all.columns;
        error = describe_boxes(matrices.b, is_bf16, all.b, all.b_step, rows, all.a_down ? 1 : all.groups);
    }
    if (error == cudaSuccess) {
        error = describe_boxes(matrices.c, is_bf16, all.c, all.columns, all.a_down ? all.height : all.rows,
                               all.a_down ? all.groups : 1);
    }
    return checked("describing matrices to the copy engine", error);
}

template<class T, bool a_down, bool b_down>
opdock::Status start(const opdock::Call &call, const Groups<T> &all) {
    const auto kernel = warpgroups_kernel<T, a_down, b_down>;
    Matrices matrices;
    opdock::Status described = describe(all, matrices);
    if (!described.ok()) {
        return described;
    }
    opdock::Status allowed = allow_all_shared_memory(call, kernel, 0);
    if (!allowed.ok()) {
        return allowed;
    }
    const int64_t tiles = most_tiles(all), units = compute_units(call);
    auto *const taken = tiles > 2 * units ? static_cast<int *>(call.workspace()) : nullptr;
    if (taken != nullptr) {
        opdock::Status cleared =
            checked("clearing a counter", cudaMemsetAsync(taken, 0, sizeof *taken, static_cast<Stream>(call.stream())));
        if (!cleared.ok()) {
            return cleared;
        }
    }
    return launch(call, {std::min(tiles, units), block, static_cast<size_t>(shared_bytes)}, kernel, matrices, all,
                  taken);
}

bool has_warpgroups(const opdock::Problem &problem) {
    const opdock_device_properties *properties = problem.device_properties();
    return properties != nullptr && std::strcmp(properties->architecture, "sm_90") == 0 &&
           shared_memory(problem) >= shared_bytes;
}

} // namespace

template<class T>
bool fits_warpgroups(const opdock::Call &call, const Groups<T> &all) {
    const int64_t most = int64_t(1) << 30;
    return has_warpgroups(call) && (all.columns | all.a_step | all.b_step) % 8 == 0 &&
           all_aligned(all.a, all.b, all.c) && all.rows != 0 && all.groups != 0 && all.columns != 0 &&
           (all.a_down ? all.height : all.depth) != 0 && std::max(all.rows, most_tiles(all)) < most &&
           std::max({all.columns, all.a_step, all.b_step, all.height, all.depth}) < most;
}

template<class T>
opdock::Status multiply_by_warpgroups(const opdock::Call &call, const Groups<T> &all) {
    return all.a_down   ? start<T, true, true>(call, all)
           : all.b_down ? start<T, false, true>(call, all)
                        : start<T, false, false>(call, all);
}

uint64_t warpgroups_workspace(const opdock::Problem &problem) {
    return has_warpgroups(problem) ? sizeof(int) : 0;
}

#else

uint64_t warpgroups_workspace(const opdock::Problem & /*problem*/) {
    return 0;
}

template<class T>
bool fits_warpgroups(const opdock::Call & /*call*/, const Groups<T> & /*all*/) {
    return false;
}

template<class T>
opdock::Status multiply_by_warpgroups(const opdock::Call & /*call*/, const Groups<T> & /*all*/) {
    return opdock::unsupported("compiled without code for warpgroups");
}

#endif

template bool fits_warpgroups(const opdock::Call &call, const Groups<f16> &all);
template bool fits_warpgroups(const opdock::Call &call, const Groups<bf16> &all);
template opdock::Status multiply_by_warpgroups(const opdock::Call &call, const Groups<f16> &all);
template opdock::Status multiply_by_warpgroups(const opdock::Call &call, const Groups<bf16> &all);

} // namespace gpu
