#include "request.hpp"

#include <algorithm>

#include "cli/command_line.hpp"
#include "cli/exit.hpp"
#include "cli/gnuplot.hpp"
#include "cli/suggest.hpp"
#include "op-call/source.hpp"
#include "opdock/opdock.h"

namespace opdock::plugin_tune {
namespace {

constexpr const char *introduction =
    R"(Usage: plugin-tune OP --shape NAME=SOURCE... [--attr NAME=VALUE]...
                   [--output NAME]... [OPTION...]
       plugin-tune --shapes SHAPES.yaml [OPTION...]
       plugin-tune [OP] --all [OPTION...]
       plugin-tune export [OP] [--impl IMPL_ID] [--out FILE]
       plugin-tune import FILE...
       plugin-tune merge FILE... [--out FILE]
       plugin-tune convert TUNE_CONFIGS.yaml [--rename OLD=NEW]... [--out FILE]
       plugin-tune list [OP] [FILTER...]
       plugin-tune forget {[OP] [FILTER...] | --all} [--dry-run]

Finds the fastest config of an op's kernel for given shapes, by running it with
each, and keeps it in the tuning database, where every program finds it. A
config that computes something else than the one in force never wins, nor one
that is not clearly faster. 'plugin-tune OP' alone shows what the op expects.

  export   what the database knows, as a tune file that pins it
  import   puts what tune files pin into the database
  merge    tune files as one; what later ones pin wins
  convert  a tune_configs.yaml or *_expand.yaml of FlagGems in opdock's grammar;
           exit code 1 when an op is left out
  list     what the database has, also of plugins and devices that are gone
  forget   removes that of one op or of what a FILTER says, or --all

A FILTER is --impl, --model, --dtype or --build; all that are given must fit.

A SOURCE is DTYPE[DIMS], such as bf16[64,1024], for random numbers: standard
normal ones, and integers that are an index into any other input. Or it is what
plugin-run takes: random:i64[8]:0..100, zeros:i32[8], x.npy, x.safetensors:NAME.

SHAPES.yaml is a list of shapes:
  - op: rmsnorm_fwd
    inputs: {input: "f32[4096,8192]", weight: "f32[8192]"}
    impl: default.cpu                  # this and all below may be left out
    attributes: {eps: 1e-6}
    outputs: [rsigma]                  # optional ones that are wanted as well

--all tunes every implementation that has knobs and configs to try, for f32 and
bf16 and three sizes: about 16 thousand, 256 thousand and 4 million elements in
the tensor with the most dims. Its last dim is 128, 1024 or 4096, the others
share the rest; where an op refuses that, all dims are alike.
)";

constexpr const char *examples = R"(
Examples:
  plugin-tune rmsnorm_fwd
  plugin-tune rmsnorm_fwd --shape 'input=f32[512,1024]' \
                          --shape 'weight=f32[1024]' --budget 2s
  plugin-tune rmsnorm_fwd --shape 'input=f32[512,1024]' \
                          --shape 'weight=f32[1024]' --output rsigma
  plugin-tune --shapes shapes.yaml --budget 1s --json
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
143 SIGTERM.
)";

const std::vector<cli::Command<Action>> commands = {
    {"",
     Action::tune,
     nullptr,
     {"shape", "attr", "output", "impl", "shapes", "all", "device", "budget", "total-budget", "strategy", "cold",
      "again", "dry-run", "plot", "force", "json", "modules", "prefix"}},
    {"export", Action::export_results, nullptr, {"impl", "out", "force", "modules", "prefix"}},
    {"import", Action::import_results, "at least one file", {"modules", "prefix"}},
    {"merge", Action::merge, "at least one file", {"out", "force"}},
    {"convert", Action::convert, "one file", {"rename", "out", "force"}},
    {"list", Action::list, nullptr, {"impl", "model", "dtype", "build", "json", "prefix"}},
    {"forget", Action::forget, nullptr, {"impl", "model", "dtype", "build", "all", "dry-run", "json", "prefix"}},
};

// The command that the first word is; tuning, whose first word is an op, is none.
const cli::Command<Action> &find_command(const std::vector<std::string> &words) {
    for (const cli::Command<Action> &command : commands) {
        if (!words.empty() && words.front() == command.name) {
            return command;
        }
    }
    return commands.front();
}

uint32_t strategy_of(const std::string &name) {
    if (name == "halving") {
        return OPDOCK_TUNE_HALVING;
    }
    if (name == "exhaustive") {
        return OPDOCK_TUNE_EXHAUSTIVE;
    }
    throw cli::UsageError("--strategy '" + name + "': expected halving or exhaustive" +
                          cli::did_you_mean(name, {"halving", "exhaustive"}));
}

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(54);
    const auto sets = [&request](uint32_t flag) { return [&request, flag] { request.flags |= flag; }; };
    op_call::add_sources(line, "shape", request.subject.inputs, "an input; once for each tensor of a list",
                         op_call::shape_or_source_forms);
    op_call::add_attributes(line, request.subject.attributes);
    line.texts("output", "NAME", request.subject.outputs, "an optional output that is wanted as well; may be repeated");
    line.text("impl", "IMPL_ID", request.subject.impl,
              "this implementation; without it, with --shape the one that would serve the call, else every one");
    line.text("shapes", "FILE", request.shapes, "the shapes of this file");
    line.flag("all", request.all,
              "every implementation, with shapes that follow from the signatures, or with forget every entry");
    line.text("device", "DEVICE", request.device, "where to run: \"cpu\" (the default) or \"cuda:1\"");
    line.text("model", "MODEL", request.model, "list, forget: of this model of device, as list shows it");
    line.text("dtype", "DTYPE", request.dtypes, "list, forget: of these dtypes, such as \"bf16,f32\"");
    line.text("build", "BUILD", request.version, "list, forget: of this build or tune_version, as list shows it");
    line.duration("budget", "TIME", request.budget, "for each shape, such as 60s, 500ms or 2m; 10s by default");
    line.duration("total-budget", "TIME", request.total_budget,
                  "for all: shapes share what is left evenly, none gets over --budget");
    line.one(
        "strategy", "STRATEGY", [&request](const std::string &name) { request.strategy = strategy_of(name); },
        "halving (the default): the slower half of the configs leaves after each round; exhaustive: all are timed "
        "equally often");
    line.flag("cold", sets(OPDOCK_TUNE_COLD), "flush the caches before each run");
    line.flag("again", sets(OPDOCK_TUNE_AGAIN), "also what the database knows already");
    line.flag("dry-run", sets(OPDOCK_TUNE_DRY_RUN), "keep nothing; forget: only count");
    line.text("plot", "FILE.svg", request.plot, "draw how much faster each became; needs gnuplot");
    line.text("out", "FILE", request.out, "export, merge, convert: write there and not to standard output");
    op_call::add_named(line, "rename", "OLD=NEW", request.renames, "convert: an op's name here", "OLD=NEW");
    line.flag("force", request.force, "overwrite the files of --out and --plot");
    line.modules(request.modules);
    line.prefix();
    line.format(request.json, "docs/plugin-tune-json.md");
    line.ends(cli::CommandLine::version_help, "this text; with a command, what is about it");
    line.words("words");
    return line;
}

// Which of the three ways to say what to tune.
void check_what_to_tune(Request &request) {
    const op_call::Subject &subject = request.subject;
    const bool has_call = !subject.inputs.empty() || !subject.attributes.empty() || !subject.outputs.empty();
    if (!request.shapes.empty() && (request.all || has_call || !request.subject.op.empty())) {
        throw cli::UsageError(
            "--shapes says what to tune; give no op, no --shape, --attr or --output, and no --all beside it");
    }
    if (!request.shapes.empty() && !request.subject.impl.empty()) {
        throw cli::UsageError("--impl has no meaning with --shapes; the file may say 'impl: " + request.subject.impl +
                              "'");
    }
    if (request.all && has_call) {
        throw cli::UsageError("--all brings shapes of its own; give no --shape, --attr or --output beside it");
    }
    if (request.shapes.empty() && !request.all) {
        if (request.subject.op.empty()) {
            throw cli::UsageError(
                "what is to be tuned? Give an op with its shapes, --shapes FILE or --all; 'plugin-ls' "
                "lists the ops");
        }
        if (!has_call && request.json) {
            throw cli::UsageError("--json prints what was measured; give --shape, --shapes or --all beside it");
        }
        request.action = has_call ? Action::tune : Action::show_expected;
    }
}

void check_what_to_forget(const Request &request) {
    const bool is_narrow = !request.subject.op.empty() || !request.subject.impl.empty() || !request.model.empty() ||
                           !request.dtypes.empty() || !request.version.empty();
    if (request.all && is_narrow) {
        throw cli::UsageError("--all forgets every entry; give no op, --impl, --model, --dtype or --build beside it");
    }
    if (!request.all && !is_narrow) {
        throw cli::UsageError("what is to be forgotten? Give an op, --impl, --model, --dtype or --build, or --all for "
                              "every entry; 'plugin-tune list' shows them");
    }
}

void read_words(const cli::Command<Action> &command, const std::vector<std::string> &words, Request &request) {
    const size_t skip = *command.name == '\0' ? 0 : 1;
    if (command.subject == nullptr) {
        if (words.size() > skip + 1) {
            throw cli::UsageError("one op at a time; '" + words[skip + 1] + "' is a second one");
        }
        request.subject.op = words.size() > skip ? cli::op_called(words[skip]) : "";
        return;
    }
    request.files.assign(words.begin() + static_cast<std::ptrdiff_t>(skip), words.end());
    if (request.files.empty() || (request.action == Action::convert && request.files.size() != 1)) {
        throw cli::UsageError(std::string(command.name) + " expects " + command.subject);
    }
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    Request request;
    cli::CommandLine line = describe_options(request);
    if (const cli::Asked asked = line.parse(arguments); asked != cli::Asked::work) {
        request.action = asked == cli::Asked::version ? Action::version : Action::help;
        request.words = line.words();
        return request;
    }
    const cli::Command<Action> &command = find_command(line.words());
    request.action = command.action;
    // --output of tuning is an output of the op, and no file.
    line.refuse_others(request.action == Action::tune ? "when tuning" : std::string("with ") + command.name,
                       command.options, request.action != Action::tune);
    read_words(command, line.words(), request);
    line.store();
    cli::check_plot_name(request.plot);
    if (request.action == Action::tune) {
        check_what_to_tune(request);
    }
    if (request.action == Action::forget) {
        check_what_to_forget(request);
    }
    return request;
}

std::string help_text(const std::vector<std::string> &words) {
    Request none;
    return cli::help_of(introduction, describe_options(none).description(), examples, commands, words);
}

} // namespace opdock::plugin_tune
