// Lists of tensors of any length, in one launch or a few.
//
// Pointers and sizes are passed as a kernel parameter: a list needs no copy, and a captured graph contains all that it
// needs. Lists too long for one parameter take several launches.
#pragma once

#include <algorithm>
#include <utility>

#include "elementwise.cuh"

namespace gpu {

// Tensors of lists with the same sizes, divided into chunks of `chunk` elements. No chunk crosses two tensors.
template<int lists>
struct Table {
    // Uses 3800 of the 4096 bytes that kernel parameters may have.
    static constexpr int capacity = 3800 / (8 * lists + 8 + 4);

    int32_t count;
    int32_t chunk;
    int64_t sizes[capacity];
    void *data[lists][capacity];
    int32_t ends[capacity]; // chunks of this tensor and of those before it
};

// Elements [begin, end) of one tensor.
struct Chunk {
    int tensor;
    int64_t begin, end;
};

template<int lists>
__device__ __forceinline__ Chunk find_chunk(const Table<lists> &table, int32_t number) {
    int low = 0, high = table.count - 1; // the first tensor whose end is past the number
    while (low < high) {
        const int middle = (low + high) / 2;
        if (table.ends[middle] > number) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const int32_t before = low == 0 ? 0 : table.ends[low - 1];
    const int64_t begin = static_cast<int64_t>(number - before) * table.chunk;
    return {low, begin, min(begin + table.chunk, table.sizes[low])};
}

template<int lists>
__device__ __forceinline__ bool tensor_aligned(const Table<lists> &table, int tensor) {
    uintptr_t bits = 0;
#pragma unroll
    for (int l = 0; l < lists; ++l) {
        bits |= reinterpret_cast<uintptr_t>(table.data[l][tensor]);
    }
    return bits % 16 == 0;
}

// Calls start(table, its chunks) for tables that together have all nonempty tensors.
template<int lists, class Start>
opdock::Status for_tables(const opdock::Call &call, int32_t chunk, Start start) {
    Table<lists> table;
    table.count = 0;
    table.chunk = chunk;
    int64_t chunks = 0;
    bool is_first = true;
    const auto start_table = [&] {
        opdock::Status status = start(table, chunks);
        return std::exchange(is_first, false) ? std::move(status) : after_the_first(std::move(status));
    };
    const auto tensors = call.inputs_of(0);
    for (uint32_t item = 0; item < tensors.size(); ++item) {
        const int64_t n = element_count(*tensors[item]);
        if (n == 0) {
            continue;
        }
        const int64_t more = ceil_div(n, chunk);
        if (table.count != 0 && (table.count == Table<lists>::capacity || chunks + more > INT32_MAX)) {
            if (opdock::Status status = start_table(); !status.ok()) {
                return status;
            }
            table.count = 0;
            chunks = 0;
        }
        chunks += more;
        table.sizes[table.count] = n;
        for (uint32_t l = 0; l < static_cast<uint32_t>(lists); ++l) {
            table.data[l][table.count] = input_data(call, l, item);
        }
        table.ends[table.count] = static_cast<int32_t>(chunks);
        ++table.count;
    }
    return table.count == 0 ? opdock::Status() : start_table();
}

// Limit for the threads of a block, so that what they hold stays in registers.
template<int unroll>
inline constexpr int most_threads = unroll == 4 ? 512 : 1024;

// Threads of a block, and elements of its chunk, with vectors of N elements.
template<int N, int unroll>
struct Block {
    int threads;
    int32_t chunk;

    explicit Block(const opdock::Problem &problem)
        : threads(std::min(ElementwiseKnobs::of(problem).threads, most_threads<unroll>)), chunk(threads * unroll * N) {}
};

// A Step defines the operation on the elements at one place of all lists:
// lists, N            the number of lists, and the elements of a vector
// Held<n>             the data read for n elements
// read(held, data, i) reads from element i on; data are the lists' pointers
// now()               scalars from device memory; if its `skip` is set, nothing is written
// write(held, data, i, now)
// A block has one chunk; each thread reads all of its vectors before it writes the first.
template<int unroll, class Step>
__global__ void __launch_bounds__(most_threads<unroll>) step_kernel(Step step, Table<Step::lists> table) {
    wait_for_earlier_kernels();
    constexpr int N = Step::N;
    const Chunk chunk = find_chunk(table, static_cast<int32_t>(blockIdx.x));
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    void *data[Step::lists];
#pragma unroll
    for (int l = 0; l < Step::lists; ++l) {
        data[l] = table.data[l][chunk.tensor];
    }
    const int vectors = tensor_aligned(table, chunk.tensor) ? static_cast<int>((chunk.end - chunk.begin) / N) : 0;
    typename Step::template Held<N> held[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int i = u * threads + thread;
        if (i < vectors) {
            step.template read<N>(held[u], data, chunk.begin + static_cast<int64_t>(i) * N);
        }
    }
    const auto now = step.now();
    if (now.skip) {
        return;
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        const int i = u * threads + thread;
        if (i < vectors) {
            step.template write<N>(held[u], data, chunk.begin + static_cast<int64_t>(i) * N, now);
        }
    }
    // The end of a tensor that is no whole vector, or all of a tensor that is not aligned.
    for (int64_t i = chunk.begin + static_cast<int64_t>(vectors) * N + thread; i < chunk.end; i += threads) {
        typename Step::template Held<1> one;
        step.template read<1>(one, data, i);
        step.template write<1>(one, data, i, now);
    }
}

template<class Step>
opdock::Status run_step(const opdock::Call &call, const Step &step) {
    return visit_unroll(ElementwiseKnobs::of(call).unroll, [&](auto unroll) {
        constexpr int u = decltype(unroll)::value;
        const Block<Step::N, u> block(call);
        return for_tables<Step::lists>(call, block.chunk, [&](const Table<Step::lists> &table, int64_t chunks) {
            return launch(call, {chunks, block.threads}, step_kernel<u, Step>, step, table);
        });
    });
}

template<class T, int n>
__device__ __forceinline__ Vector<T, n> read_vector(const void *data, int64_t i) {
    return *reinterpret_cast<const Vector<T, n> *>(static_cast<const T *>(data) + i);
}

template<int n, class T>
__device__ __forceinline__ void write_vector(void *data, int64_t i, const float (&values)[n]) {
    store<n>(static_cast<T *>(data) + i, values);
}

} // namespace gpu
