// Rows that do not fit in registers: each thread reads a few vectors at a time, so that the reads overlap.
#pragma once

#include "rows.cuh"

namespace gpu {

// Vectors in flight per thread.
inline constexpr int batch = 4;

// Calls body(from, count) for successive ranges of a row, each for a Row<T, N, V>. An element
// belongs to the same thread in every pass.
template<int N, int V = batch, class Body>
__device__ __forceinline__ void in_batches(int64_t n, const Place &place, Body body) {
    const int64_t step = static_cast<int64_t>(V) * N * place.threads;
    for (int64_t from = 0; from < n; from += step) {
        body(from, min(n - from, step));
    }
}

// A row of n elements, of which [begin, end) is read N at a time and the rest one at a time. The range is the whole
// row, or, if `peels` (any alignment), the part between its first and last multiples of N elements in memory.
template<int N, bool peels>
struct Vectors {
    int64_t n, begin, end;

    template<class T>
    __device__ __forceinline__ Vectors(const T *row, int64_t elements) : n(elements), begin(0), end(elements) {
        if constexpr (peels) {
            const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T));
            begin = min(n, (N - address % N) % N);
            end = begin + (n - begin) / N * N;
        }
    }

    // The thread of a group that has this element in every pass.
    __device__ __forceinline__ int thread_of(int64_t i, const Place &place) const {
        const int64_t number = peels && i < begin ? i : peels && i >= end ? i - end + begin : (i - begin) / N;
        return static_cast<int>(number & (place.threads - 1)); // a power of two
    }

    // singles(): number of elements that are read one at a time. single(): the index of one of them in the row.
    __device__ __forceinline__ int64_t singles() const { return peels ? begin + (n - end) : 0; }
    __device__ __forceinline__ int64_t single(int64_t number) const {
        return number < begin ? number : number - begin + end;
    }

    // Calls body(i) for the thread's elements that are read one at a time.
    template<class Body>
    __device__ __forceinline__ void each_single(const Place &place, Body body) const {
        if constexpr (peels) {
            for (int64_t number = place.thread; number < singles(); number += place.threads) {
                body(single(number));
            }
        }
    }
};

// The part of a row that one of `ranks` blocks (a power of two) has: whole vectors, except at the row's ends.
struct Part {
    int64_t begin, n;
};
template<class T>
__device__ __forceinline__ Part part_of(const T *row, int64_t n, int rank, int ranks) {
    if (ranks == 1) {
        return {0, n};
    }
    const auto ahead = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
    const int64_t vectors = ceil_div(n + ahead, wide<T>);
    const int64_t part = ((vectors + ranks - 1) >> (31 - __clz(ranks))) * wide<T>;
    const int64_t begin = rank == 0 ? 0 : min(n, rank * part - ahead);
    return {begin, min(n, (rank + 1) * part - ahead) - begin};
}

// Clears the elements [from, n) of a row, in whole vectors.
template<int N, class T>
__device__ __forceinline__ void clear(T *row, int64_t from, int64_t n, const Place &place) {
    const float zeros[N] = {};
    for (int64_t i = from + static_cast<int64_t>(place.thread) * N; i < n;
         i += static_cast<int64_t>(place.threads) * N) {
        store<N>(row + i, zeros);
    }
}

template<int N, bool peels, class T>
__device__ __forceinline__ void clear(T *row, const Vectors<N, peels> &vectors, const Place &place) {
    const float zero[1] = {};
    vectors.each_single(place, [&](int64_t i) { store<1>(row + i, zero); });
    clear<N>(row, vectors.begin, vectors.end, place);
}

// Calls body(index of the first, N elements or one) for a row that is read in batches.
template<int N, int V = batch, class T, class Body>
__device__ __forceinline__ void each_in_batches(const T *row, int64_t n, const Place &place, Body body) {
    in_batches<N, V>(n, place, [&](int64_t from, int64_t count) {
        const Row<T, N, V> part(row + from, count, place);
        part.each([&](int64_t i, const float(&x)[N]) { body(from + i, x); });
    });
}
template<int N, bool peels, class T, class Body>
__device__ __forceinline__ void each_in_batches(const T *row, const Vectors<N, peels> &vectors, const Place &place,
                                                Body body) {
    vectors.each_single(place, [&](int64_t i) {
        const float x[1] = {to_f32(row[i])};
        body(i, x);
    });
    each_in_batches<N>(row + vectors.begin, vectors.end - vectors.begin, place,
                       [&](int64_t i, const float(&x)[N]) { body(vectors.begin + i, x); });
}

// The same row; reading each thread's first batch starts with the constructor.
template<class T, int N, bool peels>
class BatchedRow {
  public:
    __device__ __forceinline__ BatchedRow(const T *row, const Vectors<N, peels> &vectors, const Place &place)
        : row_(row), vectors_(vectors), place_(place), part_(read_part(0)) {
        if (peels && place.thread < vectors.singles()) {
            single_ = row[vectors.single(place.thread)];
        }
    }

    // Continues as if the row had no elements.
    __device__ __forceinline__ void leave_out() { vectors_ = Vectors<N, peels>(row_, 0); }

    // Calls body(index of the first, N elements or one) for each, in any pass.
    template<class Body>
    __device__ __forceinline__ void each(Body body) {
        if (!is_new_) {
            part_ = read_part(0);
        }
        const int64_t n = vectors_.end - vectors_.begin, step = static_cast<int64_t>(batch) * N * place_.threads;
        for (int64_t from = 0; from < n;) {
            part_.each([&](int64_t i, const float(&x)[N]) { body(vectors_.begin + from + i, x); });
            from += step;
            if (from < n) {
                part_ = read_part(from);
            }
        }
        if constexpr (peels) {
            for (int64_t number = place_.thread; number < vectors_.singles(); number += place_.threads) {
                const int64_t i = vectors_.single(number);
                const float x[1] = {to_f32(is_new_ && number == place_.thread ? single_ : row_[i])};
                body(i, x);
            }
        }
        is_new_ = false;
    }

  private:
    __device__ __forceinline__ Row<T, N, batch> read_part(int64_t from) const {
        const int64_t n = vectors_.end - vectors_.begin;
        return {row_ + vectors_.begin + from, min(n - from, static_cast<int64_t>(batch) * N * place_.threads), place_};
    }

    const T *row_;
    Vectors<N, peels> vectors_;
    Place place_;
    bool is_new_ = true; // only the first batch has been read
    Row<T, N, batch> part_;
    T single_ = {};
};

// Calls visit(Number<N>, Number<peels>, plan) for kernels that read rows in batches.
template<class T, class Visitor>
opdock::Status visit_peeled(const opdock::Call &call, int64_t n, bool are_aligned, Visitor &&visit) {
    const RowKnobs knobs = RowKnobs::of(call);
    const RowPlan plan = plan_rows(n, wide<T>, knobs.threads, knobs.block, 0);
    return width_of<T>(n, are_aligned) == 1 ? visit(Number<wide<T>>{}, Number<1>{}, plan)
                                            : visit(Number<wide<T>>{}, Number<0>{}, plan);
}

// The same, for several tensors that are read together. `apart`: the distance between them is no multiple of a vector,
// so that elements are read one at a time.
template<class T, class Visitor>
opdock::Status visit_vectors(const opdock::Call &call, int64_t n, bool are_aligned, bool apart, Visitor &&visit) {
    if (apart) {
        const RowKnobs knobs = RowKnobs::of(call);
        return visit(Number<1>{}, Number<0>{}, plan_rows(n, 1, knobs.threads, knobs.block, 0));
    }
    return visit_peeled<T>(call, n, are_aligned, visit);
}

} // namespace gpu
