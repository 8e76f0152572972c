// Knobs for shapes that were not tuned. Only linear_fwd has one: most ops read each element once or twice, so there is
// nothing to choose.
#include "heuristics.hpp"

#include <algorithm>

namespace reference {

std::int64_t panel_rows_for_depth(std::int64_t depth) {
    constexpr std::int64_t panel_bytes = std::int64_t{256} * 1024;
    return std::clamp<std::int64_t>(panel_bytes / (std::max<std::int64_t>(depth, 1) * std::int64_t(sizeof(double))), 1,
                                    4096);
}

opdock::Status panel_rows_for_cache(const opdock::Problem &problem, std::int64_t *knobs) {
    // The panel of widened weights is read once for each row of the input.
    knobs[0] = panel_rows_for_depth(problem.input(1)->shape[1]);
    return {};
}

} // namespace reference
