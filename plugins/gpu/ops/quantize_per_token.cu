// quantize_per_token: a group of threads per row, in one pass over memory if the row fits into its registers.
#include "ops/ops.hpp"
#include "quantize.cuh"
#include "rows.cuh"

namespace gpu {
namespace {

template<class T, int N, int V>
__global__ void __launch_bounds__(1024) quantize_rows_kernel(int64_t rows, int64_t size, Code code, int threads,
                                                             const T *input, uint8_t *output, float *scales) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    extern __shared__ float shared[];
    const Place place = place_of(threads, rows);
    const int64_t begin = place.row * size;
    Row<T, N, V> x(input + begin, place.exists ? size : 0, place);
    float largest = 0.0f;
    x.each([&](int64_t, const float(&values)[N]) { raise(largest, values); });
    x.stay_narrow();
    const float scale = __fdiv_rn(reduce<Largest>(largest, threads, shared), largest_of(code));
    if (place.exists && place.thread == 0) {
        scales[place.row] = scale;
    }
    x.each([&](int64_t i, const float(&values)[N]) { store_coded(output + begin + i, code, scale, values); });
}

opdock::Status run(const opdock::Call &call) {
    const int64_t rows = row_count(*call.input(0)), n = row_size(*call.input(0));
    const RowKnobs knobs = RowKnobs::of(call);
    const Code code = code_of(call.output(0)->dtype);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        auto *output = static_cast<uint8_t *>(output_data(call, 0));
        auto *scales = static_cast<float *>(output_data(call, 1));
        const RowPlan plan = plan_rows(n, width_of<T>(n, all_aligned(input, output)), knobs.threads, knobs.block, 4);
        return visit_short_and_long<T>(plan, [&](auto N, auto V) {
            return launch(call, plan.grid(rows), quantize_rows_kernel<T, decltype(N)::value, decltype(V)::value>, rows,
                          n, code, plan.threads, input, output, scales);
        });
    });
}

} // namespace

void add_quantize_per_token(Plugin &plugin) {
    plugin.add(opdock::ops::quantize_per_token, to_8_bits, {opdock::kernel<&run>, Knobs::rows});
}

} // namespace gpu
