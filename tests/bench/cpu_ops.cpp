// Memory bandwidth of the CPU plugin's kernels, as a fraction of that of a copy by all threads, measured between
// their runs.
//
//     build/release/tests/bench/cpu-ops
//     build/release/tests/bench/cpu-ops --benchmark_filter=rmsnorm
//
// `copy` is the median over rounds of (bytes per second of the op) / (bytes per second of the copy before it), where
// bytes are those that the op must read and write at least. 1 is the memory's limit; an op can exceed it by writing
// past the caches, which the copy does not. Calls named `small` have 8 rows of 64; only their time matters.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include "prepared_case.hpp"
#include "timing.hpp"

using namespace opdock::bench;

namespace {

// Reads and writes the given number of bytes on all threads.
class Copy {
  public:
    explicit Copy(int64_t bytes)
        : half_(bytes / 2), from_(static_cast<size_t>(half_), std::byte(1)), to_(static_cast<size_t>(half_)) {}

    void run() {
        constexpr int64_t chunk = 256 << 10;
        oneapi::tbb::parallel_for(oneapi::tbb::blocked_range<int64_t>(0, half_, chunk),
                                  [&](const oneapi::tbb::blocked_range<int64_t> &range) {
                                      std::memcpy(to_.data() + range.begin(), from_.data() + range.begin(),
                                                  static_cast<size_t>(range.end() - range.begin()));
                                  });
    }

  private:
    int64_t half_;
    std::vector<std::byte> from_, to_;
};

void compare_with_copy(benchmark::State &state, const Case &of, DLDataType dtype) {
    Subject subject(of, dtype);
    Copy copy(subject.bytes());
    std::vector<double> wall_ratios, cpu_ratios, times;
    copy.run();
    for (auto _ : state) {
        const Cost copied = cost_of([&] { copy.run(); });
        const Cost worked = cost_of([&] {
            if (subject.run() != OPDOCK_OK)
                state.SkipWithError("the kernel failed");
        });
        state.SetIterationTime(worked.wall);
        wall_ratios.push_back(copied.wall / worked.wall);
        cpu_ratios.push_back(copied.cpu / worked.cpu);
        times.push_back(worked.wall);
    }
    state.counters["copy"] = median(wall_ratios);
    state.counters["copy_cpu"] = median(cpu_ratios);
    state.counters["GB/s"] = static_cast<double>(subject.bytes()) / median(times) * 1e-9;
}

void call_small(benchmark::State &state, const Case &of, DLDataType dtype) {
    Subject subject(of, dtype);
    for (auto _ : state) {
        if (subject.run() != OPDOCK_OK)
            state.SkipWithError("the kernel failed");
    }
}

std::vector<Case> activations(const Operand &matrix, const Operand &row) {
    std::vector<Case> cases;
    for (const std::string name : {"gelu", "qgelu", "relu", "silu", "srelu"}) {
        cases.push_back({name, {matrix}, {matrix}});
        cases.push_back({name + "_bwd", {matrix, matrix}, {matrix}});
        cases.push_back({name + "_bwd_bias", {matrix, matrix}, {row, matrix}});
    }
    return cases;
}

std::vector<Case> gates(const Operand &matrix, const Operand &twice) {
    std::vector<Case> cases;
    for (const std::string name : {"geglu", "qgeglu", "reglu", "sreglu", "swiglu"}) {
        cases.push_back({name, {twice}, {matrix}});
        cases.push_back({name + "_bwd", {matrix, twice}, {twice}});
    }
    cases.push_back({"clamped_swiglu", {twice}, {matrix}});
    cases.push_back({"clamped_swiglu_bwd", {matrix, twice}, {twice}});
    for (const std::string name : {"silu_and_mul", "gelu_and_mul"}) {
        cases.push_back({name, {matrix, matrix}, {matrix}});
        cases.push_back({name + "_bwd", {matrix, matrix, matrix}, {matrix, matrix}});
    }
    return cases;
}

std::vector<Case> softmaxes(const Operand &matrix, int64_t rows, int64_t n) {
    const Operand attention{{1, 1, rows, n}}, mask{{1, 1, rows, n}, opdock::u8}, square{{1, rows, rows}};
    return {
        {"scaled_softmax_fwd", {matrix}, {matrix}},
        {"scaled_softmax_bwd", {matrix, matrix}, {matrix}},
        {"scaled_masked_softmax_fwd", {attention, mask}, {attention}},
        {"scaled_masked_softmax_bwd", {attention, attention}, {attention}},
        {"scaled_upper_triang_masked_softmax_fwd", {square}, {square}},
        {"scaled_upper_triang_masked_softmax_bwd", {square, square}, {square}},
        {"scaled_aligned_causal_masked_softmax_fwd", {attention}, {attention}},
        {"scaled_aligned_causal_masked_softmax_bwd", {attention, attention}, {attention}},
    };
}

// Calls on two tensors, each with half of the elements.
std::vector<Case> optimizers(int64_t elements) {
    const Operand half{{elements / 2}}, state{{elements / 2}, opdock::f32}, scalar{{1}, opdock::f32};
    const Operand none{{1}, opdock::i32, true};
    return {
        {"multi_tensor_adam",
         {half, half, half, half, state, state, state, state, scalar, scalar, none},
         {},
         {},
         {2, 2, 2, 2}},
        {"multi_tensor_sgd", {half, half, half, half, state, state, scalar, none}, {}, {{"momentum", 0.9}}, {2, 2, 2}},
        {"multi_tensor_l2norm", {half, half}, {scalar}, {}, {2}},
        {"multi_tensor_scale", {half, half, scalar, none}, {}, {}, {2}},
    };
}

// Every op except matrix products, on rows x n elements.
std::vector<Case> cases(int64_t rows, int64_t n, DLDataType dtype) {
    const Operand matrix{{rows, n}}, twice{{rows, 2 * n}}, row{{n}}, column{{rows}, opdock::f32},
        classes{{rows}, opdock::i64}, scalar{{1}, opdock::f32}, flags{{rows, n}, opdock::u8}, state{{2}, opdock::i64},
        fp8{{rows, n}, opdock::e4m3};
    const int64_t heads = 8, positions = rows / heads;
    const Operand sequence{{positions, 1, heads, n}}, angles{{positions, 1, 1, n}, opdock::f32};
    std::vector<Case> all = {
        {"rmsnorm_fwd", {matrix, row}, {matrix, column}},
        {"rmsnorm_bwd", {matrix, matrix, column, row}, {matrix, row}},
        {"rmsnorm_bwd_add", {matrix, matrix, matrix, column, row}, {matrix, row}},
        {"fused_add_rmsnorm_fwd", {matrix, matrix, row}, {matrix, matrix, column}},
        {"layernorm_fwd", {matrix, row, row}, {matrix, column, column}},
        {"layernorm_bwd", {matrix, matrix, column, column, row}, {matrix, row, row}},
        {"fused_rope_fwd", {sequence, angles}, {sequence}},
        {"fused_rope_bwd", {sequence, angles}, {sequence}},
        {"add", {matrix, matrix}, {matrix}},
        {"mul", {matrix, matrix}, {matrix}},
        {"dropout_fwd", {matrix, state}, {matrix, flags}, {{"p", 0.1}}},
        {"dropout_bwd", {matrix, flags}, {matrix}, {{"p", 0.1}}},
        {"quantize", {matrix, scalar, scalar}, {fp8}, {{"dtype", opdock::e4m3}}},
        {"dequantize", {fp8, scalar}, {matrix}, {{"dtype", dtype}}},
        {"cross_entropy_fwd", {matrix, classes}, {column, column}},
        {"cross_entropy_bwd", {column, matrix, classes, column}, {matrix}},
        {"fused_cross_entropy", {matrix, classes}, {column}},
    };
    for (const std::vector<Case> &family :
         {activations(matrix, row), gates(matrix, twice), softmaxes(matrix, rows, n), optimizers(rows * n)})
        all.insert(all.end(), family.begin(), family.end());
    return all;
}

void register_all() {
    const std::pair<const char *, DLDataType> dtypes[] = {
        {"f32", opdock::f32}, {"f16", opdock::f16}, {"bf16", opdock::bf16}};
    for (const auto &[dtype_name, dtype] : dtypes) {
        for (const Case &of : cases(4096, 4096, dtype)) {
            benchmark::RegisterBenchmark(
                (of.op + "/" + dtype_name).c_str(),
                [of, dtype = dtype](benchmark::State &state) { compare_with_copy(state, of, dtype); })
                ->UseManualTime()
                ->Iterations(15)
                ->Unit(benchmark::kMillisecond);
        }
    }
    for (const Case &of : cases(8, 64, opdock::f32)) {
        benchmark::RegisterBenchmark(("small " + of.op + "/f32").c_str(),
                                     [of](benchmark::State &state) { call_small(state, of, opdock::f32); });
    }
}

} // namespace

int main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 2;
    register_all();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
