// What the host adds to a call: the ways to the kernel that serves an op, timed on the host's clock, against that
// kernel called by its pointer.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "op-call/job.hpp"

namespace opdock::plugin_bench {

// The head of the op's chain, on a problem so small that the kernel has next to nothing to do:
// {"op", "inputs", "attributes", "impl_id", "indirect": ns of a call through a pointer to a function that does nothing,
// "kernel": WAY, "prepared": WAY, "handle": WAY, "by_name": WAY}. WAY is {"ns", "spread"}, and but for the kernel
// "over_kernel": ns more, the median of the rounds, "ratio": to the kernel, "ratio_if_empty": what it would be if the
// kernel were the function that does nothing; null where the kernel itself varies by more than that. Throws
// opdock::Error when the op takes no such call, or fails.
nlohmann::json call_cost(const Host &host, const op_call::Job &tiny, DLDevice device);

// A small call of the same op and dtypes, as it follows from the signature; nothing where none does.
std::optional<op_call::Job> tiny_job(const Host &host, const op_call::Job &shape, DLDevice device);

} // namespace opdock::plugin_bench
