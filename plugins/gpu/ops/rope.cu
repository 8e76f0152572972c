// fused_rope_fwd and fused_rope_bwd, of one tensor and of two (fused_rope_qk_*), which one kernel rotates.
//
// All are one rotation of pairs of dims: out = x cosine + partner cross, where cross holds the sines with the signs
// and, backward, the places of the transpose. A block computes the coefficients of its positions once, for the rows
// (batch and heads) that it has of them; of few rows each thread computes its own. Rows may lie anywhere, their
// elements beside each other: models have the sequence in the second dim, and give views.
#include <string>

#include "launch.hpp"
#include "numbers.cuh"
#include "ops/ops.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

// Where the rows of a tensor are.
struct Layout {
    int64_t position, batch, head; // elements from one to the next
    int heads;                     // of a batch; 0 where batches follow each other as heads do

    __device__ __forceinline__ int64_t row(int64_t r) const {
        if (heads == 0) {
            return r * head;
        }
        const int batches = static_cast<int>(r) / heads;
        return batches * batch + (static_cast<int>(r) - batches * heads) * head;
    }
};

// A column is what a thread has of a row: two vectors of N elements whose dims are partners, or, past the rotated dims,
// one vector that is copied.
struct Rope {
    Layout input, output;
    int64_t positions, rows; // rows of each position
    int dims, rotated;
    int pairs, columns; // columns that are rotated, and all
    int64_t freqs_step; // elements from a position to the next in freqs
    bool transposed;    // backward

    // How blocks share the work: `width` columns of `lanes` rows at once. Of positions with few rows a block has
    // several; of those with many rows there are several blocks.
    int width, lanes;
    uint32_t width_inverse; // times the number of a thread, without its last inverse_bits, is that by `width`
    int positions_of_block;
    uint32_t slices; // blocks for the rows of a position
    uint32_t tiles;  // blocks for the columns of a row
};

// Enough for numbers and divisors up to 1024.
constexpr int inverse_bits = 20;

// A tensor to rotate. The first blocks of a kernel have the first task, those behind them the second one.
template<class T>
struct Task {
    Rope shape;
    const T *input;
    T *output;
};
template<class T, int tensors>
struct Tasks {
    Task<T> of[tensors];
    uint32_t blocks_of_first;
};

// Where the two vectors of a column are in a row, and, by its number in the block, among the block's coefficients:
// there all first vectors come before the second ones, or, interleaved, they are in the order of the dims.
template<int N, bool interleaved>
struct Places {
    int half;  // dims between partners
    int width; // columns of the block

    __device__ __forceinline__ int first_dim(int column) const { return (interleaved ? 2 : 1) * column * N; }
    __device__ __forceinline__ int second_dim(int column) const {
        return interleaved ? (2 * column + 1) * N : half + column * N;
    }
    __device__ __forceinline__ int first_coefficient(int column) const { return first_dim(column); }
    __device__ __forceinline__ int second_coefficient(int column) const {
        return interleaved ? second_dim(column) : (width + column) * N;
    }
};

// The library's, which for large angles needs memory of the thread's own: called, so that nobody else pays for it.
__device__ __noinline__ float2 sine_and_cosine_of_large(float angle) {
    float sine, cosine;
    sincosf(angle, &sine, &cosine);
    return {sine, cosine};
}

// Within two units in the last place: what is left of the angle without multiples of pi / 2, which are taken off in
// three parts, goes into the polynomials of Cephes (S. Moshier).
__device__ __forceinline__ void sine_and_cosine(float angle, float *sine, float *cosine) {
    if (!(fabsf(angle) < 40000.0f)) {
        const float2 both = sine_and_cosine_of_large(angle);
        *sine = both.x;
        *cosine = both.y;
        return;
    }
    const float quarters = rintf(angle * 0.636619772f);
    float x = fmaf(quarters, -1.57079601f, angle);
    x = fmaf(quarters, -3.13916473e-07f, x);
    x = fmaf(quarters, -5.39030253e-15f, x);
    const float square = x * x;
    float of_sine = fmaf(square, -1.9515295891e-4f, 8.3321608736e-3f);
    of_sine = fmaf(of_sine, square, -1.6666654611e-1f);
    of_sine = fmaf(of_sine * square, x, x);
    float of_cosine = fmaf(square, 2.443315711809948e-5f, -1.388731625493765e-3f);
    of_cosine = fmaf(of_cosine, square, 4.166664568298827e-2f);
    of_cosine = fmaf(of_cosine * square, square, fmaf(square, -0.5f, 1.0f));
    const int quarter = static_cast<int>(quarters);
    const float first = (quarter & 1) != 0 ? of_cosine : of_sine;
    const float second = (quarter & 1) != 0 ? of_sine : of_cosine;
    *sine = (quarter & 2) != 0 ? -first : first;
    *cosine = ((quarter + 1) & 2) != 0 ? -second : second;
}

// The coefficients of two partners, x first.
struct Coefficients {
    float cosine_x, cosine_y, cross_x, cross_y;
};
__device__ __forceinline__ Coefficients coefficients_of(float angle_x, float angle_y, bool transposed) {
    Coefficients found;
    float sine_x, sine_y;
    sine_and_cosine(angle_x, &sine_x, &found.cosine_x);
    sine_and_cosine(angle_y, &sine_y, &found.cosine_y);
    found.cross_x = transposed ? sine_y : -sine_x;
    found.cross_y = transposed ? -sine_x : sine_y;
    return found;
}

// Where a thread stands: its column, and its first row.
struct Stand {
    int64_t first_position; // of the block
    int position_of_block;
    int64_t row;
    int first_column; // of the block
    int column_of_block;
    bool works; // as there is that column, row and position

    __device__ __forceinline__ int64_t position() const { return first_position + position_of_block; }
    __device__ __forceinline__ int column() const { return first_column + column_of_block; }
};

// Divisions are in 32 bits and left out where they can be: of few rows they are a good part of the time.
__device__ __forceinline__ Stand stand_of(const Rope &shape, uint32_t block) {
    const uint32_t slices = shape.tiles == 1 ? block : block / shape.tiles;
    const uint32_t tile = block - slices * shape.tiles;
    const uint32_t group = shape.slices == 1 ? slices : slices / shape.slices;
    const uint32_t slice = slices - group * shape.slices;
    const int lane = static_cast<int>(threadIdx.x * shape.width_inverse >> inverse_bits);
    Stand at;
    at.first_position = static_cast<int64_t>(group) * shape.positions_of_block;
    at.first_column = static_cast<int>(tile) * shape.width;
    at.column_of_block = static_cast<int>(threadIdx.x) - lane * shape.width;
    at.position_of_block = 0;
    at.row = static_cast<int64_t>(slice) * shape.lanes + lane;
    if (shape.positions_of_block > 1) {
        at.position_of_block = lane / static_cast<int>(shape.rows);
        at.row = lane - at.position_of_block * shape.rows;
    }
    at.works = at.column() < shape.columns && lane < shape.lanes && at.position_of_block < shape.positions_of_block &&
               at.position() < shape.positions;
    return at;
}

// The block's task, and its number among that task's blocks.
template<class T, int tensors>
struct Part {
    const Task<T> &task;
    uint32_t block;
};
template<class T, int tensors>
__device__ __forceinline__ Part<T, tensors> part_of(const Tasks<T, tensors> &tasks) {
    const bool is_second = tensors == 2 && blockIdx.x >= tasks.blocks_of_first;
    return {tasks.of[is_second ? tensors - 1 : 0], blockIdx.x - (is_second ? tasks.blocks_of_first : 0)};
}

// For few rows, when what counts is how soon the first thread is done: each has one row of one column, and computes the
// coefficients itself.
template<class T, int N, bool interleaved, int tensors>
__global__ void __launch_bounds__(512)
    few_rows_kernel(GPU_READ_ONLY const Tasks<T, tensors> tasks, const float *freqs) {
    wait_for_earlier_kernels();
    let_the_next_start(1024);
    const Part<T, tensors> part = part_of(tasks);
    const Rope &shape = part.task.shape;
    const Stand at = stand_of(shape, part.block);
    if (!at.works || at.row >= shape.rows) {
        return;
    }
    const T *from = part.task.input + at.position() * shape.input.position + shape.input.row(at.row);
    T *to = part.task.output + at.position() * shape.output.position + shape.output.row(at.row);
    if (at.column() >= shape.pairs) {
        const int there = shape.rotated + (at.column() - shape.pairs) * N;
        *reinterpret_cast<Vector<T, N> *>(to + there) = *reinterpret_cast<const Vector<T, N> *>(from + there);
        return;
    }
    const Places<N, interleaved> places = {shape.rotated / 2, shape.width};
    const int starts[2] = {places.first_dim(at.column()), places.second_dim(at.column())};
    float x[2][N], angles[2][N], new_x[2][N];
    for (int half = 0; half < 2; ++half) {
        load<N>(from + starts[half], x[half]);
        for (int k = 0; k < N; ++k) {
            angles[half][k] = freqs[at.position() * shape.freqs_step + starts[half] + k];
        }
    }
#pragma unroll
    for (int pair = 0; pair < N; ++pair) {
        const int i = interleaved ? 2 * pair : pair, j = interleaved ? 2 * pair + 1 : N + pair; // of 2 N elements
        const float x_i = x[i / N][i % N], x_j = x[j / N][j % N];
        const Coefficients found = coefficients_of(angles[i / N][i % N], angles[j / N][j % N], shape.transposed);
        new_x[i / N][i % N] = fmaf(x_i, found.cosine_x, x_j * found.cross_x);
        new_x[j / N][j % N] = fmaf(x_j, found.cosine_y, x_i * found.cross_y);
    }
    store<N>(to + starts[0], new_x[0]);
    store<N>(to + starts[1], new_x[1]);
}

template<class T, int N, int unroll, bool interleaved, int tensors>
__global__ void __launch_bounds__(512, 2) rope_kernel(GPU_READ_ONLY const Tasks<T, tensors> tasks, const float *freqs) {
    wait_for_earlier_kernels();
    extern __shared__ float coefficients[];
    const Part<T, tensors> part = part_of(tasks);
    const Rope &shape = part.task.shape;
    const Stand at = stand_of(shape, part.block);
    const Places<N, interleaved> places = {shape.rotated / 2, shape.width};
    const int of_position = 2 * N * shape.width; // coefficients of each kind

    // This thread's rows: every lanes-th one.
    int64_t row = at.row;
    const int64_t rows_step = static_cast<int64_t>(shape.lanes) * shape.slices;
    const int column = at.column();
    const bool is_pair = column < shape.pairs;
    const int first_at = is_pair ? places.first_dim(column) : shape.rotated + (column - shape.pairs) * N;
    const int second_at = is_pair ? places.second_dim(column) : first_at;

    // Elements are on their way while the sines are computed, and later while rows before them are rotated.
    Vector<T, N> first[unroll], second[unroll];
    const auto fetch = [&](int u, int64_t r) {
        if (at.works && r < shape.rows) {
            const T *from = part.task.input + at.position() * shape.input.position + shape.input.row(r);
            first[u] = *reinterpret_cast<const Vector<T, N> *>(from + first_at);
            if (is_pair) {
                second[u] = *reinterpret_cast<const Vector<T, N> *>(from + second_at);
            }
        }
    };
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        fetch(u, row + u * rows_step);
    }

    const int pairs_of_position = N * shape.width;
    for (int e = static_cast<int>(threadIdx.x); e < shape.positions_of_block * pairs_of_position;
         e += static_cast<int>(blockDim.x)) {
        const int p = shape.positions_of_block == 1 ? 0 : e / pairs_of_position;
        const int in_position = e - p * pairs_of_position;
        const int pair = at.first_column * N + in_position;
        if (pair < shape.pairs * N && at.first_position + p < shape.positions) {
            const float *angles = freqs + (at.first_position + p) * shape.freqs_step;
            const int i = interleaved ? 2 * pair : pair;
            const int j = interleaved ? 2 * pair + 1 : pair + places.half;
            const Coefficients found = coefficients_of(angles[i], angles[j], shape.transposed);
            float *cosine = coefficients + p * 2 * of_position;
            float *cross = cosine + of_position;
            const int at_i = interleaved ? 2 * in_position : in_position;
            const int at_j = interleaved ? 2 * in_position + 1 : in_position + pairs_of_position;
            cosine[at_i] = found.cosine_x;
            cosine[at_j] = found.cosine_y;
            cross[at_i] = found.cross_x;
            cross[at_j] = found.cross_y;
        }
    }
    __syncthreads();
    if (!at.works) {
        return;
    }

    const float *cosine = coefficients + at.position_of_block * 2 * of_position;
    const float *cross = cosine + of_position;
    const int first_coefficient = places.first_coefficient(at.column_of_block);
    const int second_coefficient = places.second_coefficient(at.column_of_block);
    for (; row < shape.rows; row += unroll * rows_step) {
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int64_t r = row + u * rows_step;
            if (r >= shape.rows) {
                return;
            }
            T *to = part.task.output + at.position() * shape.output.position + shape.output.row(r);
            const Vector<T, N> here = first[u], there = second[u];
            fetch(u, r + unroll * rows_step);
            if (!is_pair) {
                *reinterpret_cast<Vector<T, N> *>(to + first_at) = here;
                continue;
            }
            asm volatile("" ::
                             : "memory"); // the coefficients stay in shared memory: registers are for rows on their way
            float x[N], y[N], new_x[N], new_y[N];
            float cosine_x[N], cosine_y[N], cross_x[N], cross_y[N];
            load<N>(cosine + first_coefficient, cosine_x);
            load<N>(cosine + second_coefficient, cosine_y);
            load<N>(cross + first_coefficient, cross_x);
            load<N>(cross + second_coefficient, cross_y);
            widen(here, x);
            widen(there, y);
#pragma unroll
            for (int k = 0; k < N; ++k) {
                constexpr bool within = interleaved && N > 1; // partners are in one vector
                new_x[k] = fmaf(x[k], cosine_x[k], (within ? x[k ^ 1] : y[k]) * cross_x[k]);
                new_y[k] = fmaf(y[k], cosine_y[k], (within ? y[k ^ 1] : x[k]) * cross_y[k]);
            }
            store<N>(to + first_at, new_x);
            store<N>(to + second_at, new_y);
        }
    }
}

// Splits the work over blocks of `threads`, of which there are at least about `blocks`, so that each computes its
// coefficients for as many rows as can be. Threads have up to `unroll` rows under way.
struct Split {
    Rope shape;
    int unroll;
    Grid grid;
};

Split split(Rope shape, int N, int threads, int unroll, int64_t blocks, bool in_place) {
    shape.pairs = shape.rotated / 2 / N;
    shape.columns = shape.pairs + (in_place ? 0 : (shape.dims - shape.rotated) / N);
    // Coefficients of a block: as many floats of each kind, 32 KB together.
    constexpr int most_coefficients = 4096;
    threads = std::min(threads, 512);
    shape.width = std::min({std::max(shape.columns, 1), threads, most_coefficients / (2 * N)});
    shape.width_inverse = static_cast<uint32_t>(ceil_div(int64_t(1) << inverse_bits, shape.width));
    shape.lanes = threads / shape.width;
    shape.tiles = static_cast<uint32_t>(ceil_div(shape.columns, shape.width));
    const int64_t rows = std::max<int64_t>(shape.rows, 1);
    shape.positions_of_block =
        static_cast<int>(std::clamp<int64_t>(shape.lanes / rows, 1, most_coefficients / (2 * N * shape.width)));
    const int64_t groups = ceil_div(shape.positions, shape.positions_of_block) * shape.tiles;
    const int64_t rounds = ceil_div(rows, shape.lanes); // of a block that has all rows
    shape.slices = static_cast<uint32_t>(std::clamp<int64_t>(ceil_div(blocks, groups), 1, rounds));
    while (unroll > 1 && unroll / 2 >= ceil_div(rounds, shape.slices)) {
        unroll /= 2; // threads have no row for it
    }
    const size_t floats = static_cast<size_t>(shape.positions_of_block) * 2 * 2 * static_cast<size_t>(N * shape.width);
    return {shape, unroll, {groups * shape.slices, threads, floats * sizeof(float)}};
}

std::string odd(int64_t rotated) {
    return "freqs: last dimension is " + std::to_string(rotated) +
           "; dimensions are rotated in pairs, so it must be even";
}

// The tensors that are rotated are all inputs but the last one, which has the angles.
uint32_t tensor_count(const opdock::Problem &problem) {
    return problem.c().n_inputs - 1;
}

opdock::Status supports(const opdock::Problem &problem) {
    const uint32_t count = tensor_count(problem);
    const int64_t rotated = row_size(*problem.input(count));
    if (rotated % 2 != 0) {
        return opdock::invalid_argument(odd(rotated));
    }
    for (uint32_t i = 0; i < count; ++i) {
        const DLTensor &tensor = *problem.input(i);
        for (const DLTensor *one : {&tensor, problem.input(count), problem.output(i)}) {
            if (one->shape[3] > 1 && one->strides[3] != 1) {
                return opdock::unsupported("it needs rows whose elements lie beside each other");
            }
        }
        if (tensor.shape[1] * tensor.shape[2] > INT32_MAX) {
            return opdock::unsupported("it needs fewer than 2^31 heads of all batches");
        }
    }
    return {};
}

Layout layout_of(const DLTensor &tensor) {
    Layout layout = {tensor.strides[0], tensor.strides[1], tensor.strides[2], static_cast<int>(tensor.shape[2])};
    if (tensor.shape[1] == 1 || layout.batch == layout.head * layout.heads) {
        layout.heads = 0;
    } else if (layout.heads == 1) {
        layout.head = layout.batch;
        layout.heads = 0;
    }
    return layout;
}

// True if all rows are aligned for vectors of `n` elements once the first row is.
bool has_rows_of(int64_t n, const Layout &layout, const DLTensor &tensor) {
    const auto fits = [&](int64_t dim, int64_t stride) { return tensor.shape[dim] <= 1 || stride % n == 0; };
    return fits(0, layout.position) && fits(1, layout.batch) && fits(2, layout.head);
}

// A thread has one row under way where there are two tensors.
template<class T, int N, int tensors, class Visitor>
opdock::Status visit_kernel(int unroll, bool interleaved, Visitor &&visit) {
    if constexpr (tensors == 1) {
        if (unroll == 2) {
            return visit(interleaved ? rope_kernel<T, N, 2, true, 1> : rope_kernel<T, N, 2, false, 1>);
        }
        if (unroll > 2) {
            return visit(interleaved ? rope_kernel<T, N, 4, true, 1> : rope_kernel<T, N, 4, false, 1>);
        }
    }
    return visit(interleaved ? rope_kernel<T, N, 1, true, tensors> : rope_kernel<T, N, 1, false, tensors>);
}

template<bool transposed>
Rope shape_of(const opdock::Call &call, uint32_t i) {
    const DLTensor &tensor = *call.output(i);
    const DLTensor &freqs = *call.input(tensor_count(call));
    Rope shape = {};
    shape.input = layout_of(*call.input(i));
    shape.output = layout_of(tensor);
    shape.positions = tensor.shape[0];
    shape.rows = tensor.shape[1] * tensor.shape[2];
    shape.dims = static_cast<int>(row_size(tensor));
    shape.rotated = static_cast<int>(row_size(freqs));
    shape.freqs_step = freqs.strides[0];
    shape.transposed = transposed;
    return shape;
}

// True if all rows of the tensor, of its input and its output, are whole vectors of `n` elements.
bool has_whole_vectors(const opdock::Call &call, uint32_t i, const Rope &shape, int n) {
    return shape.rotated / 2 % n == 0 && shape.dims % n == 0 && has_rows_of(n, shape.input, *call.input(i)) &&
           has_rows_of(n, shape.output, *call.output(i)) && all_aligned(input_data(call, i), output_data(call, i));
}

// Threads that each have one vector of two elements and its partners: so many that all of them run at once.
template<class T, int tensors>
bool has_few_rows(const opdock::Call &call, const Tasks<T, tensors> &tasks) {
    int64_t threads = 0;
    for (const Task<T> &task : tasks.of) {
        const Rope &shape = task.shape;
        threads += shape.positions * shape.rows * (shape.dims - shape.rotated / 2) / 2;
    }
    return threads <= 512 * static_cast<int64_t>(compute_units(call));
}

// `which`: the tensors that are not empty.
template<bool transposed, int tensors>
opdock::Status rotate(const opdock::Call &call, const uint32_t (&which)[tensors]) {
    const ElementwiseKnobs knobs = ElementwiseKnobs::of(call);
    const int most_unroll = tensors > 1 ? 1 : knobs.unroll >= 4 ? 4 : knobs.unroll >= 2 ? 2 : 1;
    return visit_floating(call.output(which[0])->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *freqs = static_cast<const float *>(input_data(call, tensor_count(call)));
        Tasks<T, tensors> tasks;
        bool whole_vectors = true;
        for (int k = 0; k < tensors; ++k) {
            const Rope shape = shape_of<transposed>(call, which[k]);
            tasks.of[k] = {shape, static_cast<const T *>(input_data(call, which[k])),
                           static_cast<T *>(output_data(call, which[k]))};
            whole_vectors = whole_vectors && has_whole_vectors(call, which[k], shape, wide<T>);
        }
        // start(N, blocks, kernel_for): at least about so many blocks; kernel_for(unroll, grid, run) runs a kernel.
        const auto start = [&](auto width, int64_t blocks, auto kernel_for) {
            Grid grid = {};
            int unroll = 1;
            for (Task<T> &task : tasks.of) {
                const Split work = split(task.shape, decltype(width)::value, knobs.threads, most_unroll, blocks,
                                         task.input == task.output);
                task.shape = work.shape;
                unroll = work.unroll;
                tasks.blocks_of_first = static_cast<uint32_t>(grid.blocks); // those before the last tensor's
                grid = {grid.blocks + work.grid.blocks, work.grid.threads,
                        std::max(grid.shared_bytes, work.grid.shared_bytes)};
            }
            return kernel_for(unroll, grid, [&](auto *kernel) { return launch(call, grid, kernel, tasks, freqs); });
        };
        const bool interleaved = call.get_bool(0);
        if (whole_vectors && has_few_rows(call, tasks)) {
            return start(Number<2>{}, INT32_MAX, [&](int /*unroll*/, Grid &grid, auto run) {
                grid.shared_bytes = 0;
                return run(interleaved ? few_rows_kernel<T, 2, true, tensors> : few_rows_kernel<T, 2, false, tensors>);
            });
        }
        const auto start_by_blocks = [&](auto width) {
            return start(width, 16 * compute_units(call), [&](int unroll, Grid & /*grid*/, auto run) {
                return visit_kernel<T, decltype(width)::value, tensors>(unroll, interleaved, run);
            });
        };
        return whole_vectors ? start_by_blocks(Number<wide<T>>{}) : start_by_blocks(Number<1>{});
    });
}

template<bool transposed>
opdock::Status rope(const opdock::Call &call) {
    const uint32_t count = tensor_count(call);
    const bool rotates = row_size(*call.input(count)) != 0;
    uint32_t which[2] = {0, 0};
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; ++i) {
        if (element_count(*call.output(i)) != 0 && (rotates || input_data(call, i) != output_data(call, i))) {
            which[found++] = i;
        }
    }
    if (found == 2) {
        return rotate<transposed, 2>(call, which);
    }
    return found == 0 ? opdock::Status() : rotate<transposed, 1>(call, {which[0]});
}

} // namespace

void add_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    Implementation rotation = {opdock::kernel<&rope<false>>, Knobs::rotations, opdock::supports<&supports>};
    rotation.any_strides = true;
    plugin.add(ops::fused_rope_fwd, any_float, rotation);
    plugin.add(ops::fused_rope_qk_fwd, any_float, rotation);
    rotation.kernel = opdock::kernel<&rope<true>>;
    plugin.add(ops::fused_rope_bwd, any_float, rotation);
    plugin.add(ops::fused_rope_qk_bwd, any_float, rotation);
}

} // namespace gpu
