// linear_fwd of the CPU plugin compared with libraries it could have used: OpenBLAS, and oneDNN where it is installed.
//
//     cmake --preset release -DOPDOCK_BUILD_BENCHMARKS=ON && cmake --build build/release --target linear
//     build/release/tests/bench/linear
//
// f32, with all threads each. Rounds are interleaved, and each ratio to the plugin is the median over them: above 1,
// the library is faster.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <cblas.h>

#include "opdock/opdock.hpp"

#ifdef HAVE_DNNL
#include <dnnl.hpp>
#endif

namespace {

template<class Function>
double seconds(Function function) {
    const auto begin = std::chrono::steady_clock::now();
    function();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

void compare(const opdock::Op &linear, int64_t m, int64_t n, int64_t k) {
    const auto size = [](int64_t a, int64_t b) { return static_cast<size_t>(a * b); };
    std::vector<float> input(size(m, k), 0.5F), weight(size(n, k), 0.25F), output(size(m, n)), other(size(m, n));
    const opdock::Tensor x(input.data(), opdock::f32, {m, k});
    const opdock::Tensor w(weight.data(), opdock::f32, {n, k});
    const opdock::Tensor y(output.data(), opdock::f32, {m, n});
    const auto plugin = [&] { linear({x, w, nullptr}, {y}); };
    const auto blas = [&] {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m), static_cast<int>(n),
                    static_cast<int>(k), 1, input.data(), static_cast<int>(k), weight.data(), static_cast<int>(k), 0,
                    other.data(), static_cast<int>(n));
    };
#ifdef HAVE_DNNL
    const auto dnnl = [&] { dnnl::sgemm('N', 'T', m, n, k, 1, input.data(), k, weight.data(), k, 0, other.data(), n); };
#else
    const auto dnnl = [] {};
#endif
    std::vector<double> times, blas_ratios, dnnl_ratios;
    for (int round = 0; round < 15; ++round) {
        times.push_back(seconds(plugin));
        blas_ratios.push_back(times.back() / seconds(blas));
        dnnl_ratios.push_back(times.back() / seconds(dnnl));
    }
    std::printf("%6ld %6ld %6ld %12.1f %12.2f", static_cast<long>(m), static_cast<long>(n), static_cast<long>(k),
                2e-9 * static_cast<double>(m * n * k) / median(times), median(blas_ratios));
#ifdef HAVE_DNNL
    std::printf(" %12.2f", median(dnnl_ratios));
#endif
    std::printf("\n");
}

} // namespace

int main() {
    setenv("OPDOCK_BENCH_DEFAULT_PLUGINS", "cpu", 1); // as built, not installed beside the library
    const opdock::Host host(
        {.modules = {CPU_PLUGIN}, .prefix = "OPDOCK_BENCH_", .log = [](int32_t, std::string_view) {}});
    const opdock::Op linear = host.op("linear_fwd");
    std::printf("%6s %6s %6s %12s %12s", "rows", "out", "in", "GFLOP/s", "OpenBLAS");
#ifdef HAVE_DNNL
    std::printf(" %12s", "oneDNN");
#endif
    std::printf("\n");
    for (const auto &[m, n, k] : {std::array<int64_t, 3>{1, 4096, 4096},
                                  {8, 4096, 4096},
                                  {17, 4096, 4096},
                                  {64, 4096, 4096},
                                  {512, 2048, 2048},
                                  {2048, 2048, 2048},
                                  {4096, 1024, 4096},
                                  {100, 100, 100}}) {
        compare(linear, m, n, k);
    }
    return 0;
}
