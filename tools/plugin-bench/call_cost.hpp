// The host's overhead per call: each way to reach the kernel of an op is timed on the host's clock and compared with
// calling that kernel through its pointer.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "op-call/job.hpp"

namespace opdock::plugin_bench {

// Times the head of the op's chain on a problem so small that the kernel has almost nothing to do. Returns {"op",
// "inputs", "attributes", "impl_id", "indirect": ns of a call through a pointer to a function that does nothing,
// "kernel": WAY, "prepared": WAY, "handle": WAY, "by_name": WAY}. WAY is {"ns", "spread"}; all but the kernel's also
// have "over_kernel": the extra ns, the median of the rounds, "ratio": relative to the kernel, "ratio_if_empty": the
// ratio if the kernel were the function that does nothing; null if the kernel's own time varies by more than that.
// Throws opdock::Error if the op does not take such a call or fails.
nlohmann::json call_cost(const Host &host, const op_call::Job &tiny, DLDevice device);

// A small call of the same op and dtypes, derived from the signature; nothing if none can be derived.
std::optional<op_call::Job> tiny_job(const Host &host, const op_call::Job &shape, DLDevice device);

} // namespace opdock::plugin_bench
