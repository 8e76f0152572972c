#include "request.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "cli/gnuplot.hpp"
#include "op-call/source.hpp"
#include "op-call/subject.hpp"

namespace opdock::plugin_bench {
namespace {

constexpr const char *examples = R"(Examples:
  plugin-bench rmsnorm_fwd
  plugin-bench rmsnorm_fwd --shape 'input=f32[512,1024]' \
                           --shape 'weight=f32[1024]' --budget 500ms
  plugin-bench rmsnorm_fwd --shape 'input=f32[512,1024]' \
                           --shape 'weight=f32[1024]' --output rsigma
  plugin-bench --shapes shapes.yaml --impl default.cpu --budget 200ms --json
  plugin-bench gelu silu --all --rounds 5 --budget 50ms --plot ops.svg
  plugin-bench --shapes shapes.yaml --budget 200ms --json > before.json
  plugin-bench --shapes shapes.yaml --budget 200ms --compare before.json

Ctrl-C ends the measurement and prints what is done; a second one ends the
program at once.

Exit codes: 0 fine; 1 something failed, is absent or, with --fail-above, got
slower; 2 wrong usage; 130 Ctrl-C, 143 SIGTERM (128 + the signal).)";

// "1.1": this many times as long as before.
double ratio_of(const std::string &text) {
    double ratio = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
    if (error != std::errc() || end != text.data() + text.size() || !(ratio >= 1) || ratio > 1e6) {
        throw cli::UsageError("--fail-above '" + text +
                              "': expected the ratio above which a time is too long, such as 1.1");
    }
    return ratio;
}

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(54);
    op_call::add_sources(line, "shape", request.inputs, "an input; once for each tensor of a list",
                         op_call::shape_or_source_forms);
    op_call::add_attributes(line, request.attributes);
    line.texts("output", "NAME", request.outputs, "compute this optional output too; may be repeated");
    line.text("shapes", "FILE", request.shapes, "the shapes in this file, written by hand or by PLUGIN_RECORD");
    line.flag("all", request.all, "the ops, with shapes derived from their signatures");
    line.texts("impl", "IMPL_ID", request.impls, "only this implementation; may be repeated; all by default");
    line.text("device", "DEVICE", request.device,
              "where to run: \"cpu\" or \"cuda:1\"; by default where recorded shapes ran, else on the CPU");
    line.number("rounds", request.rounds, 1, 10000, "maximum number of rounds for each shape; 15 by default");
    line.duration("budget", "TIME", request.seconds, "time for each shape, such as 10s, 500ms or 2m; 2s by default");
    line.flag("cold", request.cold, "runs cycle through copies of the tensors, too many for any cache");
    line.text("compare", "FILE", request.compare, "say what got faster or slower since this --json document");
    line.one(
        "fail-above", "RATIO", [&request](const std::string &text) { request.fail_above = ratio_of(text); },
        "with --compare: exit with 1 if something takes more than RATIO (such as 1.1) times as long and the difference "
        "is larger than the spread");
    line.text("csv", "FILE", request.csv, "write a table with a row for each implementation and shape");
    line.text("plot", "FILE.svg", request.plot, "draw fractions of the copy rate and times over size; needs gnuplot");
    line.flag("force", request.force, "overwrite the files of --csv and --plot");
    line.modules(request.modules);
    line.prefix();
    line.format(request.json, "docs/plugin-bench-json.md");
    line.ends();
    line.need({"fail-above"}, {"compare"}, " limits what --compare may find; add --compare FILE");
    line.words("ops", request.ops);
    return line;
}

void check_benchmark(const cli::CommandLine &line, Request &request) {
    std::transform(request.ops.begin(), request.ops.end(), request.ops.begin(), cli::op_called);
    cli::check_plot_name(request.plot);
    request.prints_csv = line.texts_of("format") == std::vector<std::string>{"csv"};
    if (request.prints_csv && !request.compare.empty()) {
        throw cli::UsageError("--format csv cannot show what --compare finds; write the table with --csv FILE");
    }
    request.shows_expected = op_call::asks_what_is_expected(line, request.ops, "time");
    if (request.ops.size() > 1 && !request.all) {
        throw cli::UsageError("one op at a time without --all; '" + request.ops[1] + "' is a second op");
    }
}

} // namespace

const cli::Tool<Request> tool = {{"plugin-bench", cli::version_with_abi("plugin-bench"),
                                  R"(Times all implementations of ops side by side, in rounds in which each runs a
batch. Shows the median and the spread of one run, its share of the rate at
which the device copies and multiplies, measured in the same process, and what
the host adds to a call. 'plugin-bench OP' alone shows what the op expects.

A SOURCE is DTYPE[DIMS], such as bf16[64,1024], for random numbers: standard
normal numbers, and integers that are valid indices into every other input. The
sources of plugin-run work too: random:i64[8]:0..100, zeros:i32[8], x.npy,
x.safetensors:NAME.

SHAPES.yaml is a list of shapes, as for plugin-tune:
  - op: rmsnorm_fwd
    inputs: {input: "f32[4096,8192]", weight: "f32[8192]"}
    impl: default.cpu                  # this and all below are optional
    attributes: {eps: 1e-6}
    outputs: [rsigma]                  # optional outputs to compute too

--all times the given ops, or every op, for f32 and bf16 and three sizes: about
16 thousand, 256 thousand and 4 million elements in the tensor with the most
dims.)",
                                  examples},
                                 describe_options,
                                 {{{"",
                                    R"(OP --shape NAME=SOURCE... [--attr NAME=VALUE]...
 [--output NAME]... [OPTION...]
--shapes SHAPES.yaml [OPTION...]
[OP]... --all [OPTION...])",
                                    "",
                                    {0, SIZE_MAX},
                                    {}},
                                   nullptr,
                                   check_benchmark}}};

} // namespace opdock::plugin_bench
