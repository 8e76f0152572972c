#include "request.hpp"

#include <cstdint>

#include "cli/gnuplot.hpp"
#include "known.hpp"
#include "op-call/source.hpp"
#include "opdock/opdock.h"
#include "tune_files.hpp"

namespace opdock::plugin_tune {
namespace {

constexpr const char *notes = R"(
A FILTER is --impl, --model, --dtype or --build; an entry must match all given.

A SOURCE is DTYPE[DIMS], such as bf16[64,1024], for random numbers: standard
normal numbers, and integers that are valid indices into every other input. The
sources of plugin-run work too: random:i64[8]:0..100, zeros:i32[8], x.npy,
x.safetensors:NAME.

SHAPES.yaml is a list of shapes:
  - op: rmsnorm_fwd
    inputs: {input: "f32[4096,8192]", weight: "f32[8192]"}
    impl: default.cpu                  # this and all below are optional
    attributes: {eps: 1e-6}
    outputs: [rsigma]                  # optional outputs to compute too

--all tunes every implementation that has knobs and configs to try, for f32 and
bf16 and three sizes: about 16 thousand, 256 thousand and 4 million elements in
the tensor with the most dims. Its last dim is 128, 1024 or 4096, the others
share the rest; if an op refuses that, all dims are equal.
)";

constexpr const char *examples = R"(Examples:
  plugin-tune rmsnorm_fwd
  plugin-tune rmsnorm_fwd --shape 'input=f32[512,1024]' \
                          --shape 'weight=f32[1024]' --budget 2s
  plugin-tune rmsnorm_fwd --shape 'input=f32[512,1024]' \
                          --shape 'weight=f32[1024]' --output rsigma
  plugin-tune --shapes shapes.yaml --budget 1s --json
  plugin-tune --shapes shapes.yaml --budget 1s --across
  plugin-tune gelu --all --budget 100ms --total-budget 2s --dry-run
  plugin-tune --shapes shapes.yaml --budget 1s --plot gain.svg
  plugin-tune export --out results.tune.yaml
  plugin-tune import results.tune.yaml
  plugin-tune merge libacme.tune.yaml results.tune.yaml --out acme.tune.yaml
  plugin-tune convert tune_configs.yaml --rename silu_and_mul_out=silu_and_mul
  plugin-tune list rmsnorm_fwd --dtype bf16,bf16
  plugin-tune forget --impl default.cpu --dry-run

Ctrl-C ends the measurement, keeps what is done and prints it; a second one
ends the program at once.

Exit codes: 0 fine; 1 a shape failed or its result could not be kept, there is
nothing to tune or to forget, an import took nothing, a merge or conversion
left something out, or a file or an op is absent; 2 wrong usage; 130 Ctrl-C,
143 SIGTERM.)";

static_assert(OPDOCK_TUNE_HALVING == 0 && OPDOCK_TUNE_EXHAUSTIVE == 1); // the order of --strategy

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(54);
    const auto sets = [&request](uint32_t flag) { return [&request, flag] { request.flags |= flag; }; };
    op_call::add_sources(line, "shape", request.subject.inputs, "an input; once for each tensor of a list",
                         op_call::shape_or_source_forms);
    op_call::add_attributes(line, request.subject.attributes);
    line.texts("output", "NAME", request.subject.outputs, "compute this optional output too; may be repeated");
    line.text("impl", "IMPL_ID", request.subject.impl,
              "this implementation; by default, with --shape the one that would serve the call, else all");
    line.text("shapes", "FILE", request.shapes, "the shapes in this file, written by hand or by PLUGIN_RECORD");
    line.flag("all", request.all,
              "all implementations, with shapes derived from the signatures, or with forget all entries");
    line.text("device", "DEVICE", request.device,
              "where to run: \"cpu\" or \"cuda:1\"; by default where recorded shapes ran, else on the CPU");
    line.text("model", "MODEL", request.model, "list, forget: only this model of device, as list shows it");
    line.text("dtype", "DTYPE", request.dtypes, "list, forget: only these dtypes, such as \"bf16,f32\"");
    line.text("build", "BUILD", request.version, "list, forget: only this build or tune_version, as list shows it");
    line.duration("budget", "TIME", request.budget, "time for each shape, such as 60s, 500ms or 2m; 10s by default");
    line.duration("total-budget", "TIME", request.total_budget,
                  "time for all shapes, which share the rest evenly; none gets more than --budget");
    line.choice("strategy", "STRATEGY", request.strategy, {"halving", "exhaustive"},
                "halving (the default): drop the slower half of the configs after each round; exhaustive: time all "
                "equally often");
    line.flag("cold", sets(OPDOCK_TUNE_COLD), "flush the caches before each run");
    line.flag("again", sets(OPDOCK_TUNE_AGAIN), "also tune what the database already has");
    line.flag("dry-run", sets(OPDOCK_TUNE_DRY_RUN), "keep nothing; forget: only count");
    line.flag("across", sets(OPDOCK_TUNE_ACROSS),
              "time all implementations that may serve the call against each other, for 'measured' in orders");
    line.text("plot", "FILE.svg", request.plot, "draw how much faster each shape became; needs gnuplot");
    line.text("out", "FILE", request.out, "export, merge, convert: write there instead of to standard output");
    op_call::add_named(line, "rename", "OLD=NEW", request.renames, "convert: rename the op OLD to NEW", "OLD=NEW");
    line.flag("force", request.force, "overwrite the files of --out and --plot");
    line.modules(request.modules);
    line.prefix();
    line.format(request.json, "docs/plugin-tune-json.md");
    line.ends(cli::CommandLine::version_help, "this text; with a command, the help for that command");
    line.conflict({"across"}, {"all", "impl", "strategy", "again", "plot"});
    line.words("words", request.files);
    return line;
}

// Reads the op, if given.
void read_op(const cli::CommandLine & /*line*/, Request &request) {
    request.subject.op = cli::one_op(request.files);
}

void check_tuning(const cli::CommandLine &line, Request &request) {
    read_op(line, request);
    cli::check_plot_name(request.plot);
    request.shows_expected = op_call::asks_what_is_expected(line, request.files, "tune");
    if ((request.flags & OPDOCK_TUNE_ACROSS) != 0 && request.shows_expected) {
        throw cli::UsageError("--across times calls; add --shape or --shapes");
    }
    if (!request.shapes.empty() && !request.subject.impl.empty()) {
        throw cli::UsageError("--impl has no meaning with --shapes; the file may say 'impl: " + request.subject.impl +
                              "'");
    }
}

void check_forgetting(const cli::CommandLine &line, Request &request) {
    read_op(line, request);
    const bool is_narrow = !request.subject.op.empty() || !request.subject.impl.empty() || !request.model.empty() ||
                           !request.dtypes.empty() || !request.version.empty();
    if (request.all && is_narrow) {
        throw cli::UsageError(
            "--all forgets every entry; do not combine it with an op, --impl, --model, --dtype or --build");
    }
    if (!request.all && !is_narrow) {
        throw cli::UsageError("there is nothing to forget: give an op, --impl, --model, --dtype or --build, or --all "
                              "for every entry; 'plugin-tune list' shows the entries");
    }
}

} // namespace

const cli::Tool<Request> tool = {
    {"plugin-tune", cli::version_with_abi("plugin-tune"),
     R"(Finds the fastest config of an op's kernel for given shapes by running the
kernel with each config, and keeps it in the tuning database, where every
program finds it. A config never wins if its result differs from that of the
config in force, or if it is not clearly faster. With --across, plugin-tune
finds the fastest implementation instead, which PLUGIN_PREFER=measured uses.
'plugin-tune OP' alone shows what the op expects.)",
     examples, notes},
    describe_options,
    {
        {{"",
          R"(OP --shape NAME=SOURCE... [--attr NAME=VALUE]...
 [--output NAME]... [OPTION...]
--shapes SHAPES.yaml [OPTION...]
[OP] --all [OPTION...])",
          "",
          {0, SIZE_MAX},
          {"shape", "attr", "output", "impl", "shapes", "all", "device", "budget", "total-budget", "strategy", "cold",
           "again", "dry-run", "across", "plot", "force", "json", "modules", "prefix"},
          {},
          "",
          "when tuning"},
         nullptr,
         check_tuning},
        {{"export",
          "[OP] [--impl IMPL_ID] [--out FILE]",
          "writes the results in the database as a tune file that pins them",
          {0, SIZE_MAX},
          {"impl", "out", "force", "modules", "prefix"}},
         export_results,
         read_op},
        {{"import",
          "FILE...",
          "adds the pinned entries of tune files to the database",
          {1, SIZE_MAX, "at least one file"},
          {"modules", "prefix"}},
         import_results},
        {{"merge",
          "FILE... [--out FILE]",
          "merges tune files into one; pinned entries of later files win",
          {1, SIZE_MAX, "at least one file"},
          {"out", "force"}},
         merge},
        {{"convert",
          "TUNE_CONFIGS.yaml [--rename OLD=NEW]... [--out FILE]",
          R"(converts a tune_configs.yaml or *_expand.yaml of FlagGems to opdock's grammar; exit code 1 if an op
             is left out)",
          {1, 1, "one file"},
          {"rename", "out", "force"}},
         convert},
        {{"list",
          "[OP] [FILTER...]",
          "shows the entries of the database, also of plugins and devices that are gone",
          {0, SIZE_MAX},
          {"impl", "model", "dtype", "build", "json", "prefix"}},
         list,
         read_op},
        {{"forget",
          "{[OP] [FILTER...] | --all} [--dry-run]",
          "removes the entries of one op or those that a FILTER selects, or all",
          {0, SIZE_MAX},
          {"impl", "model", "dtype", "build", "all", "dry-run", "json", "prefix"}},
         forget,
         check_forgetting},
    }};

} // namespace opdock::plugin_tune
