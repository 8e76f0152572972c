// What plugin-run says after the call, and the files it leaves.
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

// A tensor that is shown.
struct Result {
    std::string name; // "grads", or "grads[1]" of a list
    const HostTensor *tensor;
    std::optional<FilePart> file;
    std::string name_in_call_file = {}; // "grads.1"
    // Of a call out of a file: what differs from what the program got, and from what the shadow computed. Nothing where
    // the file has no such result, empty where they agree up to rounding.
    std::optional<std::string> from_program = std::nullopt;
    std::optional<std::string> from_shadow = std::nullopt;
};

// The tensors that --output named; without any --output all outputs that are not optional and all inputs that the op
// writes. Throws cli::UsageError when --output names more tensors of a list than there are, or .npy for a dtype it
// cannot hold: to be asked before the call, which may take long.
std::vector<Result> results_of(const Signature &signature, const Arguments &arguments, const CallTensors &tensors);

// Throws cli::Failure when one of their files is there and `force` does not allow to overwrite it: to be asked before
// the call as well.
void check_files(const std::vector<Result> &results, bool force);

// After such a call: fills in what differs.
void compare(const op_call::CallFile &call, std::vector<Result> &results);

// Each whole or not at all, in the place of what `force` allows to be overwritten. Throws cli::Failure and
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
