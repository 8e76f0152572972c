#include "request.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace opdock::plugin_check {
namespace {

constexpr const char *examples = R"(Examples:
  plugin-check libacme.so
  plugin-check libacme.so --junit report.xml --html report.html
  plugin-check --impl default.cpu --op rmsnorm_fwd --seed 7
  plugin-check --impl default.cpu --op gelu --seed 7 --case 31
  plugin-check --impl default.cpu --op gelu --shape 'input=f32[8,4096]'
  plugin-check --impl default.cpu --shapes shapes.yaml --seed 7
  plugin-check --replay call.safetensors
  plugin-check libacme.so --glibc 2.40 --json

Exit codes: 0 nothing was found; 1 something was found, or there is nothing to
check; 2 wrong usage; 130 Ctrl-C, 143 SIGTERM.)";

bool is_version(const std::string &text) {
    return !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos && text.front() != '.' &&
           text.back() != '.';
}

cli::CommandLine describe_options(Request &request) {
    constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
    cli::CommandLine line(54);
    line.texts("op", "OP", request.ops, "this op; all by default");
    line.texts("impl", "IMPL_ID", request.impls, "this implementation; all of the files by default");
    line.text("device", "DEVICE", request.device,
              "where to run: \"cpu\" or \"cuda:1\"; by default the first device of the implementation's type");
    op_call::add_shapes(line, request.pins.shapes,
                        "with one --op: only these shapes, of an input or of each tensor of a list");
    op_call::add_attributes(line, request.pins.attributes, "with one --op: this attribute has this value in all cases");
    line.text("shapes", "FILE", request.shapes, "only the calls in this file, written by hand or by PLUGIN_RECORD");
    line.text("replay", "FILE", request.replay,
              "only the call in this file, with its values, written by a host (PLUGIN_CALL_FILES); without --impl and "
              "files, the implementation that served the call is checked");
    line.number("seed", request.seed, 0, most, "seed of the inputs; by default a new one each time");
    line.number("case", request.only_case, 0, std::numeric_limits<int64_t>::max(),
                "only this case; with --seed, --op and --impl, as a finding shows them");
    line.number("threads", request.threads, 2, 256, "number of threads in cases with concurrent calls; 4 by default");
    line.duration("timeout", "TIME", request.timeout,
                  "a case that takes longer, with its repetitions, is a hang; 60s by default");
    line.duration("config-time", "TIME", request.config_seconds, "time for the configs of one shape; 5s by default");
    line.text("glibc", "VERSION", request.newest_glibc, is_version, "a version such as 2.28",
              "the newest glibc that the file may need");
    line.flag("list", request.lists, "name the ops and implementations that would be checked");
    line.format(request.json, "docs/plugin-check-json.md");
    line.text("junit", "FILE", request.junit, "write a report that build servers read");
    line.text("html", "FILE", request.html, "write a report for people: one file that needs no network");
    line.flag("force", request.force, "overwrite these files");
    line.modules(request.modules, "search this first, for a device or the reference of a vendor's op");
    line.prefix();
    line.ends();
    line.words("files", request.files);
    return line;
}

void check_request(const cli::CommandLine & /*line*/, Request &request) {
    std::transform(request.ops.begin(), request.ops.end(), request.ops.begin(), cli::op_called);
    if (request.files.empty() && request.impls.empty() && request.replay.empty()) {
        throw cli::UsageError("there is nothing to check: give a plugin's file, or an implementation with --impl; "
                              "'plugin-ls' lists them");
    }
    if (request.ops.size() != 1 && !(request.pins.shapes.empty() && request.pins.attributes.empty())) {
        throw cli::UsageError("--attr and --shape need one --op: they are arguments of its calls");
    }
    if (!request.shapes.empty() && (!request.pins.shapes.empty() || !request.pins.attributes.empty())) {
        throw cli::UsageError(
            "--shapes gives the shapes and attributes of calls; do not combine it with --shape or --attr");
    }
    if (!request.shapes.empty() && request.only_case) {
        throw cli::UsageError("--case has no meaning with --shapes; the command below a finding reproduces the case");
    }
    if (!request.replay.empty() && (!request.ops.empty() || !request.shapes.empty() || !request.pins.shapes.empty() ||
                                    !request.pins.attributes.empty() || request.only_case)) {
        throw cli::UsageError("--replay gives the op, the shapes, the attributes and the values; do not combine it "
                              "with --op, --shape, --shapes, --attr or --case");
    }
    if (request.only_case && (!request.seed || request.ops.size() != 1)) {
        throw cli::UsageError("--case needs --seed and one --op, which determine the case");
    }
}

} // namespace

const cli::Tool<Request> tool = {{"plugin-check", cli::version_with_abi("plugin-check"),
                                  R"(Tries implementations from outside, from plugin files or as installed: each op
in its own process, with inputs made up from its signature, against the op's
reference implementation.

It finds results that are wrong, unwritten or not repeatable; reads and writes
outside tensors; inputs that change; calls that crash, hang, fail, or disturb
each other on several threads; configs of the tune file that compute something
else; dtypes that are listed but always declined; and in the file itself,
symbols that may clash with those of other files, search paths, and code that
is changed when it is loaded.

Inputs are different each time; the printed seed repeats them.

--shapes takes a file of calls, like plugin-tune and plugin-bench. Each call is
tried on every checked implementation of its op, with plugin-check's own values,
layouts and exercises, regardless of the recorded strides.

--replay takes a file of one call with its values, which a host writes if a
shadow disagrees.)",
                                  examples},
                                 describe_options,
                                 {{{"",
                                    R"(FILE.so... [--op OP]... [OPTION...]
--impl IMPL_ID [--op OP]... [OPTION...]
[FILE.so...] --replay FILE [OPTION...])",
                                    "",
                                    {0, SIZE_MAX, "", true},
                                    {}},
                                   nullptr,
                                   check_request}}};

} // namespace opdock::plugin_check
