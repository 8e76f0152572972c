// fused_rope_fwd and fused_rope_bwd.
//
// Both are one rotation of pairs of dims: out = x cosine + partner cross, where cross holds the sines with the signs
// and, backward, the places of the transpose. A block computes the coefficients of its positions once, for the rows
// (batch and heads) that it has of them. Rows may lie anywhere, their elements beside each other: models have the
// sequence in the second dim, and give views.
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
    int positions_of_block;
    int64_t slices; // blocks for the rows of a position
    int64_t tiles;  // blocks for the columns of a row
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

template<class T, int N, int unroll, bool interleaved>
__global__ void __launch_bounds__(512, 2) rope_kernel(Rope shape, const T *input, const float *freqs, T *output) {
    extern __shared__ float coefficients[];
    const int64_t tile = blockIdx.x % shape.tiles;
    const int64_t slice = blockIdx.x / shape.tiles % shape.slices;
    const int64_t first_position = blockIdx.x / (shape.tiles * shape.slices) * shape.positions_of_block;
    const int first_column = static_cast<int>(tile) * shape.width;
    const Places<N, interleaved> places = {shape.rotated / 2, shape.width};
    const int of_position = 2 * N * shape.width; // coefficients of each kind

    // This thread's column, and its rows: every lanes-th one.
    const int lane = static_cast<int>(threadIdx.x) / shape.width;
    const int column_of_block = static_cast<int>(threadIdx.x) - lane * shape.width;
    const int column = first_column + column_of_block;
    int position_of_block = 0;
    int64_t row = slice * shape.lanes + lane;
    if (shape.positions_of_block > 1) {
        position_of_block = lane / static_cast<int>(shape.rows);
        row = lane - position_of_block * shape.rows;
    }
    const int64_t position = first_position + position_of_block;
    const bool is_pair = column < shape.pairs;
    const int64_t rows_step = shape.lanes * shape.slices;
    const bool works = column < shape.columns && lane < shape.lanes && position_of_block < shape.positions_of_block &&
                       position < shape.positions;
    const int first_at = is_pair ? places.first_dim(column) : shape.rotated + (column - shape.pairs) * N;
    const int second_at = is_pair ? places.second_dim(column) : first_at;

    // Elements are on their way while the sines are computed, and later while rows before them are rotated.
    Vector<T, N> first[unroll], second[unroll];
    const auto fetch = [&](int u, int64_t r) {
        if (works && r < shape.rows) {
            const T *from = input + position * shape.input.position + shape.input.row(r);
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
        const int p = e / pairs_of_position;
        const int in_position = e - p * pairs_of_position;
        const int pair = first_column * N + in_position;
        if (pair < shape.pairs * N && first_position + p < shape.positions) {
            const float *angles = freqs + (first_position + p) * shape.freqs_step;
            const int i = interleaved ? 2 * pair : pair;
            const int j = interleaved ? 2 * pair + 1 : pair + places.half;
            float sine_i, cosine_i, sine_j, cosine_j;
            sine_and_cosine(angles[i], &sine_i, &cosine_i);
            sine_and_cosine(angles[j], &sine_j, &cosine_j);
            float *cosine = coefficients + p * 2 * of_position;
            float *cross = cosine + of_position;
            const int at_i = interleaved ? 2 * in_position : in_position;
            const int at_j = interleaved ? 2 * in_position + 1 : in_position + pairs_of_position;
            cosine[at_i] = cosine_i;
            cosine[at_j] = cosine_j;
            cross[at_i] = shape.transposed ? sine_j : -sine_i;
            cross[at_j] = shape.transposed ? -sine_i : sine_j;
        }
    }
    __syncthreads();
    if (!works) {
        return;
    }

    const float *cosine = coefficients + position_of_block * 2 * of_position;
    const float *cross = cosine + of_position;
    const int first_coefficient = places.first_coefficient(column_of_block);
    const int second_coefficient = places.second_coefficient(column_of_block);
    for (; row < shape.rows; row += unroll * rows_step) {
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int64_t r = row + u * rows_step;
            if (r >= shape.rows) {
                return;
            }
            T *to = output + position * shape.output.position + shape.output.row(r);
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
    shape.lanes = threads / shape.width;
    shape.tiles = ceil_div(shape.columns, shape.width);
    const int64_t rows = std::max<int64_t>(shape.rows, 1);
    shape.positions_of_block =
        static_cast<int>(std::clamp<int64_t>(shape.lanes / rows, 1, most_coefficients / (2 * N * shape.width)));
    const int64_t groups = ceil_div(shape.positions, shape.positions_of_block) * shape.tiles;
    const int64_t rounds = ceil_div(rows, shape.lanes); // of a block that has all rows
    shape.slices = std::clamp<int64_t>(ceil_div(blocks, groups), 1, rounds);
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

opdock::Status supports(const opdock::Problem &problem) {
    const DLTensor &tensor = *problem.input(0);
    const int64_t rotated = row_size(*problem.input(1));
    if (rotated % 2 != 0) {
        return opdock::invalid_argument(odd(rotated));
    }
    for (const DLTensor *one : {problem.input(0), problem.input(1), problem.output(0)}) {
        if (one->shape[3] > 1 && one->strides[3] != 1) {
            return opdock::unsupported("it needs rows whose elements lie beside each other");
        }
    }
    if (tensor.shape[1] * tensor.shape[2] > INT32_MAX) {
        return opdock::unsupported("it needs fewer than 2^31 heads of all batches");
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

template<class T, int N, class Visitor>
opdock::Status visit_kernel(int unroll, bool interleaved, Visitor &&visit) {
    switch (unroll) {
    case 1:
        return visit(interleaved ? rope_kernel<T, N, 1, true> : rope_kernel<T, N, 1, false>);
    case 2:
        return visit(interleaved ? rope_kernel<T, N, 2, true> : rope_kernel<T, N, 2, false>);
    default:
        return visit(interleaved ? rope_kernel<T, N, 4, true> : rope_kernel<T, N, 4, false>);
    }
}

template<bool transposed>
opdock::Status rope(const opdock::Call &call) {
    const DLTensor &tensor = *call.output(0);
    const int64_t rotated = row_size(*call.input(1));
    if (element_count(tensor) == 0 || (rotated == 0 && input_data(call, 0) == output_data(call, 0))) {
        return {};
    }
    Rope shape = {};
    shape.input = layout_of(*call.input(0));
    shape.output = layout_of(tensor);
    shape.positions = tensor.shape[0];
    shape.rows = tensor.shape[1] * tensor.shape[2];
    shape.dims = static_cast<int>(row_size(tensor));
    shape.rotated = static_cast<int>(rotated);
    shape.freqs_step = call.input(1)->strides[0];
    shape.transposed = transposed;
    const bool interleaved = call.get_bool(0);
    const ElementwiseKnobs knobs = ElementwiseKnobs::of(call);
    const int unroll = knobs.unroll >= 4 ? 4 : knobs.unroll >= 2 ? 2 : 1;
    return visit_floating(tensor.dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        const auto *freqs = static_cast<const float *>(input_data(call, 1));
        auto *output = static_cast<T *>(output_data(call, 0));
        const auto start = [&](auto width) {
            constexpr int N = decltype(width)::value;
            const Split work = split(shape, N, knobs.threads, unroll, 16 * compute_units(call), input == output);
            return visit_kernel<T, N>(work.unroll, interleaved, [&](auto *kernel) {
                return launch(call, work.grid, kernel, work.shape, input, freqs, output);
            });
        };
        const bool whole_vectors = shape.rotated / 2 % wide<T> == 0 && shape.dims % wide<T> == 0 &&
                                   has_rows_of(wide<T>, shape.input, *call.input(0)) &&
                                   has_rows_of(wide<T>, shape.output, tensor);
        return whole_vectors && all_aligned(input, output) ? start(Number<wide<T>>{}) : start(Number<1>{});
    });
}

} // namespace

void add_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    Implementation rotation = {opdock::kernel<&rope<false>>, Knobs::rotations, opdock::supports<&supports>};
    rotation.any_strides = true;
    plugin.add(ops::fused_rope_fwd, any_float, rotation);
    rotation.kernel = opdock::kernel<&rope<true>>;
    plugin.add(ops::fused_rope_bwd, any_float, rotation);
}

} // namespace gpu
