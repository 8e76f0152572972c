// An implementation of test.add that uses another implementation, prepared along with its plan.
#pragma once

#include <array>
#include <memory>

#include "made_host.hpp"

namespace opdock::test {

struct CompositePlan {
    opdock_part *part = nullptr;
    uint64_t bytes = 0;
};

inline const CompositePlan &composite_plan(const opdock_problem &problem) {
    return *static_cast<const CompositePlan *>(problem.plan);
}

inline opdock_status create_composite_plan(const opdock_problem *problem, void **plan) {
    auto made = std::make_unique<CompositePlan>();
    const std::array<TensorArg, 1> in = {*problem->tensors[0]}, out = {*problem->tensors[1]};
    const opdock_composite *composite = opdock_composite_of(problem->host);
    const opdock_status status = composite->prepare(problem, "test.add", &Args(in, out).c(), &made->part, &made->bytes);
    *plan = status == OPDOCK_OK ? made.release() : nullptr;
    return status;
}

inline void destroy_composite_plan(const opdock_host_api *api, void *, DLDevice, void *plan) {
    const std::unique_ptr<CompositePlan> destroyed(static_cast<CompositePlan *>(plan));
    opdock_composite_of(api)->release(api, destroyed->part);
}

inline opdock_status composite_workspace_size(const opdock_problem *problem, uint64_t *bytes) {
    *bytes = composite_plan(*problem).bytes;
    return OPDOCK_OK;
}

// Functions for Made::adjust and Made::work.
inline void plan_as_composite(opdock_impl &impl) {
    impl.plan_create = create_composite_plan;
    impl.plan_destroy = destroy_composite_plan;
    impl.workspace_size = composite_workspace_size;
}
inline opdock_status run_as_composite(const opdock_problem &problem, const opdock_call &call) {
    return opdock_composite_of(problem.host)->run(&problem, composite_plan(problem).part, &call);
}

inline std::unique_ptr<Made> made_composite() {
    auto made = std::make_unique<Made>("default.composite", OPDOCK_KIND_DEFAULT);
    made->adjust = plan_as_composite;
    made->work = run_as_composite;
    return made;
}

} // namespace opdock::test
