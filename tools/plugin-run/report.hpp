// Output of plugin-run after the call, and the files that it writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "arguments.hpp"
#include "cli/page.hpp"
#include "outcome.hpp"
#include "request.hpp"

namespace opdock::plugin_run {

using op_call::HostTensor;

// A tensor to show.
struct Result {
    std::string name; // "grads", or "grads[1]" in a list
    const HostTensor *tensor;
    std::optional<FilePart> file;
    std::string name_in_call_file = {}; // "grads.1"
    // For a replayed call: the difference from the program's result, and from that of the shadow. Nothing if the file
    // has no such result, empty if they agree up to rounding.
    std::optional<std::string> from_program = std::nullopt;
    std::optional<std::string> from_shadow = std::nullopt;
};

// The tensors that --output names; without any --output, all outputs that are not optional and all inputs that the op
// writes. Throws cli::UsageError if --output names more tensors of a list than exist, or .npy for a dtype that it
// cannot hold. Call it before the op, which may take long.
std::vector<Result> results_of(const Signature &signature, const Arguments &arguments, const CallTensors &tensors);

// Throws cli::Failure if one of their files exists and may not be overwritten without `force`. Call it before the op,
// too.
void check_files(const std::vector<Result> &results, bool force);

// After a replayed call: fills in the differences.
void compare(const op_call::CallFile &call, std::vector<Result> &results);

// Writes each file completely or not at all, overwriting existing ones if `force` is set. Throws cli::Failure and
// files::Error.
void write_files(const std::vector<Result> &results, bool force);

std::string render_text(const Request &request, const Signature &signature, const Arguments &arguments,
                        const CallTensors &tensors, const Outcome &outcome, const std::vector<Result> &results,
                        const cli::Page &page);

// {"schema": "opdock.plugin-run/1", "op", "device", "served": [{"impl_id", "calls"}], "fallback_to_cpu", "seed": number
// or null when nothing was random, "replayed": null or {"file",
// "implementation", "device", "shadow", "difference"}, "microseconds": {"first", "repeat", "min", "median"}, "inputs":
// [{"name", "source", "dtype", "shape"}], "outputs": [{"name", "dtype", "shape", "min", "max", "mean", "not_finite",
// "first": [...], "file", "from_program", "from_shadow": {"agrees", "difference"}}]}; what does not apply is null.
nlohmann::json render_json(const Request &request, const Signature &signature, const Arguments &arguments,
                           const CallTensors &tensors, const Outcome &outcome, const std::vector<Result> &results);

} // namespace opdock::plugin_run
