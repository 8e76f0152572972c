// Default configs for shapes that have not been tuned.
#pragma once

#include "implementation.hpp"

namespace gpu {

opdock::Status elementwise_heuristic(const opdock::Problem &problem, int64_t *knobs);
opdock::Status rotations_heuristic(const opdock::Problem &problem, int64_t *knobs);
opdock::Status rows_heuristic(const opdock::Problem &problem, int64_t *knobs);
opdock::Status row_batches_heuristic(const opdock::Problem &problem, int64_t *knobs);
opdock::Status columns_heuristic(const opdock::Problem &problem, int64_t *knobs);

} // namespace gpu
