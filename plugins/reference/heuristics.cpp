// Knobs for shapes nobody tuned. Only linear_fwd has one: the other ops read each element once or twice, and there is
// nothing to choose.
#include "heuristics.hpp"

#include <algorithm>

namespace reference {

opdock::Status panel_rows_for_cache(const opdock::Problem &problem, std::int64_t *knobs) {
    // The panel of widened weights is read once for each row of the input: keep it within a second-level cache.
    constexpr std::int64_t panel_bytes = 256 * 1024;
    const DLTensor &weight = *problem.input(1);
    const std::int64_t row_bytes =
        std::max<std::int64_t>(weight.shape[1], 1) * static_cast<std::int64_t>(sizeof(double));
    knobs[0] = std::clamp<std::int64_t>(panel_bytes / row_bytes, 1, 4096);
    return {};
}

} // namespace reference
