#include "request.hpp"

#include <algorithm>

#include "cli/arguments.hpp"
#include "cli/exit.hpp"
#include "cli/format.hpp"
#include "cli/gnuplot.hpp"
#include "cli/suggest.hpp"
#include "cli/variables.hpp"
#include "op-call/source.hpp"
#include "opdock/opdock.h"

namespace opdock::plugin_tune {
namespace {

namespace po = boost::program_options;

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

struct Command {
    const char *name;
    Action action;
    std::vector<const char *> options; // it takes, beside those of all
};

const std::vector<Command> commands = {
    {"",
     Action::tune,
     {"shape", "attr", "output", "impl", "shapes", "all", "device", "budget", "total-budget", "strategy", "cold",
      "again", "dry-run", "plot", "force", "json", "modules", "prefix"}},
    {"export", Action::export_results, {"impl", "out", "force", "modules", "prefix"}},
    {"import", Action::import_results, {"modules", "prefix"}},
    {"merge", Action::merge, {"out", "force"}},
    {"convert", Action::convert, {"rename", "out", "force"}},
    {"list", Action::list, {"impl", "model", "dtype", "build", "json", "prefix"}},
    {"forget", Action::forget, {"impl", "model", "dtype", "build", "all", "dry-run", "json", "prefix"}},
};

po::options_description describe_options() {
    po::options_description options("Options", 80, 54);
    const auto texts = [](const char *name) {
        return po::value<std::vector<std::string>>()->composing()->value_name(name);
    };
    const auto text = [](const char *name) { return po::value<std::string>()->value_name(name); };
    options.add_options()                                                                                        //
        ("shape", texts("NAME=SOURCE"), "an input; once for each tensor of a list")                              //
        ("attr", texts("NAME=VALUE"), "an attribute; lists of int are written 1,2,3")                            //
        ("output", texts("NAME"), "an optional output that is wanted as well; may be repeated")                  //
        ("impl", text("IMPL_ID"), "this implementation; without it, the one that would serve the call")          //
        ("shapes", text("FILE"), "the shapes of this file")                                                      //
        ("all", "every implementation, with shapes that follow from the signatures, or with forget every entry") //
        ("device", text("DEVICE"), "where to run: \"cpu\" (the default) or \"cuda:1\"")                          //
        ("model", text("MODEL"), "list, forget: of this model of device, as list shows it")                      //
        ("dtype", text("DTYPE"), "list, forget: of these dtypes, such as \"bf16,f32\"")                          //
        ("build", text("BUILD"), "list, forget: of this build or tune_version, as list shows it")                //
        ("budget", text("TIME"), "for each shape, such as 60s, 500ms or 2m; 10s by default")                     //
        ("total-budget", text("TIME"), "for all: shapes share what is left evenly, none gets over --budget")     //
        ("strategy", text("STRATEGY"),
         "halving (the default): the slower half of the configs leaves after each "
         "round; exhaustive: all are timed equally often")                                      //
        ("cold", "flush the caches before each run")                                            //
        ("again", "also what the database knows already")                                       //
        ("dry-run", "keep nothing; forget: only count")                                         //
        ("plot", text("FILE.svg"), "draw how much faster each became; needs gnuplot")           //
        ("out", text("FILE"), "export, merge, convert: write there and not to standard output") //
        ("rename", texts("OLD=NEW"), "convert: an op's name here")                              //
        ("force", "overwrite the files of --out and --plot")                                    //
        ("modules", texts("PATH"), "search this plugin file or directory first")                //
        ("prefix", text("PREFIX"), cli::prefix_help);
    cli::add_format(options, "docs/plugin-tune-json.md");
    options.add_options()                                   //
        ("version", "the version of this tool and its ABI") //
        ("help,h", "this text; with a command, what is about it");
    return options;
}

// The command that the first word is; tuning, whose first word is an op, is none.
const Command &find_command(const std::vector<std::string> &words) {
    for (const Command &command : commands) {
        if (!words.empty() && words.front() == command.name) {
            return command;
        }
    }
    return commands.front();
}

void refuse_options_of_others(const Command &command, const po::variables_map &values) {
    for (const Command &other : commands) {
        for (const char *option : other.options) {
            const auto is_it = [&](const char *own) { return std::string_view(own) == option; };
            if (values.count(option) != 0 && std::none_of(command.options.begin(), command.options.end(), is_it)) {
                const bool is_filter = command.action == Action::list || command.action == Action::forget;
                throw cli::UsageError(cli::as_given(values, option) + " has no meaning " +
                                      (command.action == Action::tune ? std::string("when tuning")
                                                                      : std::string("with ") + command.name) +
                                      (is_filter && std::string_view(option) == "device"
                                           ? "; --model says which model of device the entries are about"
                                       // --output of tuning is an output of the op, and no file.
                                       : command.action == Action::tune ? ""
                                                                        : cli::same_among(command.options, option)));
            }
        }
    }
}

uint32_t strategy_of(const std::string &name) {
    if (name.empty() || name == "halving") {
        return OPDOCK_TUNE_HALVING;
    }
    if (name == "exhaustive") {
        return OPDOCK_TUNE_EXHAUSTIVE;
    }
    throw cli::UsageError("--strategy '" + name + "': expected halving or exhaustive" +
                          cli::did_you_mean(name, {"halving", "exhaustive"}));
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

void read_words(const Command &command, const std::vector<std::string> &words, Request &request) {
    const size_t skip = *command.name == '\0' ? 0 : 1;
    if (request.action != Action::import_results && request.action != Action::merge &&
        request.action != Action::convert) {
        if (words.size() > skip + 1) {
            throw cli::UsageError("one op at a time; '" + words[skip + 1] + "' is a second one");
        }
        request.subject.op = words.size() > skip ? cli::op_called(words[skip]) : "";
        return;
    }
    request.files.assign(words.begin() + static_cast<std::ptrdiff_t>(skip), words.end());
    if (request.files.empty() || (request.action == Action::convert && request.files.size() != 1)) {
        throw cli::UsageError(std::string(command.name) + " expects " +
                              (request.action == Action::convert ? "one file" : "at least one file"));
    }
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    po::options_description all = describe_options();
    all.add_options()("words", po::value<std::vector<std::string>>()); // the positional ones
    po::positional_options_description positional;
    positional.add("words", -1);
    const po::variables_map values = cli::parse_arguments(arguments, all, positional);
    Request request;
    if (values.count("help") != 0) {
        request.words = cli::texts_of(values, "words");
        return request;
    }
    if (values.count("version") != 0) {
        request.action = Action::version;
        return request;
    }
    const std::vector<std::string> words = cli::texts_of(values, "words");
    const Command &command = find_command(words);
    request.action = command.action;
    refuse_options_of_others(command, values);
    read_words(command, words, request);
    request.subject.impl = cli::text_of(values, "impl");
    request.subject.inputs = op_call::parse_named(cli::texts_of(values, "shape"), "--shape",
                                                  std::string("NAME=SOURCE\n  ") + op_call::shape_or_source_forms);
    request.subject.attributes = op_call::parse_named(cli::texts_of(values, "attr"), "--attr", "NAME=VALUE");
    request.subject.outputs = cli::texts_of(values, "output");
    request.renames = op_call::parse_named(cli::texts_of(values, "rename"), "--rename", "OLD=NEW");
    request.shapes = cli::text_of(values, "shapes");
    request.out = cli::text_of(values, "out");
    request.plot = cli::text_of(values, "plot");
    cli::check_plot_name(request.plot);
    request.all = values.count("all") != 0;
    request.force = values.count("force") != 0;
    request.json = values.count("json") != 0;
    request.device = values.count("device") != 0 ? cli::text_of(values, "device") : request.device;
    request.strategy = strategy_of(cli::text_of(values, "strategy"));
    request.flags = (values.count("cold") != 0 ? OPDOCK_TUNE_COLD : 0) |
                    (values.count("again") != 0 ? OPDOCK_TUNE_AGAIN : 0) |
                    (values.count("dry-run") != 0 ? OPDOCK_TUNE_DRY_RUN : 0);
    if (values.count("budget") != 0) {
        request.budget = cli::parse_duration(cli::text_of(values, "budget"), "--budget");
    }
    if (values.count("total-budget") != 0) {
        request.total_budget = cli::parse_duration(cli::text_of(values, "total-budget"), "--total-budget");
    }
    for (const std::string &path : cli::texts_of(values, "modules")) {
        request.modules.push_back(cli::absolute_path(path));
    }
    if (request.action == Action::tune) {
        check_what_to_tune(request);
    }
    if (request.action == Action::list || request.action == Action::forget) {
        for (const char *filter : {"impl", "model", "dtype", "build"}) {
            if (values.count(filter) != 0 && cli::text_of(values, filter).empty()) {
                throw cli::UsageError(std::string("--") + filter + " is empty; leave it out, or say which entries");
            }
        }
        request.model = cli::text_of(values, "model");
        request.dtypes = cli::text_of(values, "dtype");
        request.version = cli::text_of(values, "build");
    }
    if (request.action == Action::forget) {
        check_what_to_forget(request);
    }
    return request;
}

std::string help_text(const std::vector<std::string> &words) {
    return cli::help_of(introduction, describe_options(), examples, commands, words);
}

} // namespace opdock::plugin_tune
