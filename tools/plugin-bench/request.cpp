#include "request.hpp"

#include <algorithm>
#include <charconv>

#include "cli/arguments.hpp"
#include "cli/exit.hpp"
#include "cli/format.hpp"
#include "cli/gnuplot.hpp"
#include "cli/variables.hpp"
#include "op-call/source.hpp"

namespace opdock::plugin_bench {
namespace {

namespace po = boost::program_options;

constexpr const char *introduction =
    R"(Usage: plugin-bench OP --shape NAME=SOURCE... [--attr NAME=VALUE]...
                    [--output NAME]... [OPTION...]
       plugin-bench --shapes SHAPES.yaml [OPTION...]
       plugin-bench [OP]... --all [OPTION...]

Times ops: all implementations side by side, in rounds in which each runs a
batch. Shows the median and the spread of one run, what it reaches of the rate
at which the device copies and multiplies, measured in the same process, and
what the host adds to a call. 'plugin-bench OP' alone shows what the op expects.

A SOURCE is DTYPE[DIMS], such as bf16[64,1024], for random numbers: standard
normal ones, and integers that are an index into any other input. Or it is what
plugin-run takes: random:i64[8]:0..100, zeros:i32[8], x.npy, x.safetensors:NAME.

SHAPES.yaml is a list of shapes, the same that plugin-tune takes:
  - op: rmsnorm_fwd
    inputs: {input: "f32[4096,8192]", weight: "f32[8192]"}
    impl: default.cpu                  # this and all below may be left out
    attributes: {eps: 1e-6}
    outputs: [rsigma]                  # optional ones that are wanted as well

--all times the given ops, or every op, for f32 and bf16 and three sizes: about
16 thousand, 256 thousand and 4 million elements in the tensor with the most
dims.
)";

constexpr const char *examples = R"(
Examples:
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
slower; 2 wrong usage; 130 Ctrl-C, 143 SIGTERM (128 + the signal).
)";

po::options_description describe_options() {
    po::options_description options("Options", 80, 54);
    const auto texts = [](const char *name) {
        return po::value<std::vector<std::string>>()->composing()->value_name(name);
    };
    const auto text = [](const char *name) { return po::value<std::string>()->value_name(name); };
    options.add_options()                                                                       //
        ("shape", texts("NAME=SOURCE"), "an input; once for each tensor of a list")             //
        ("attr", texts("NAME=VALUE"), "an attribute; lists of int are written 1,2,3")           //
        ("output", texts("NAME"), "an optional output that is wanted as well; may be repeated") //
        ("shapes", text("FILE"), "the shapes of this file")                                     //
        ("all", "the ops with shapes that follow from their signatures")                        //
        ("impl", texts("IMPL_ID"), "this implementation and others named so; without it, all")  //
        ("device", text("DEVICE"), "where to run: \"cpu\" (the default) or \"cuda:1\"")         //
        ("rounds", text("N"), "at most so many rounds for each shape; 15 by default")           //
        ("budget", text("TIME"), "for each shape, such as 10s, 500ms or 2m; 2s by default")     //
        ("cold", "inputs and outputs take turns that no cache holds")                           //
        ("compare", text("FILE"), "say what got faster or slower since this --json document")   //
        ("fail-above", text("RATIO"),
         "with --compare: exit with 1 when something takes over RATIO times "                            //
         "as long, such as 1.1, and by more than it spreads")                                            //
        ("csv", text("FILE"), "write a table, a row for each implementation and shape")                  //
        ("plot", text("FILE.svg"), "draw fractions of the copy rate and times over size; needs gnuplot") //
        ("force", "overwrite the files of --csv and --plot")                                             //
        ("modules", texts("PATH"), "search this plugin file or directory first")                         //
        ("prefix", text("PREFIX"), cli::prefix_help);
    cli::add_format(options, "docs/plugin-bench-json.md");
    options.add_options()                                   //
        ("version", "the version of this tool and its ABI") //
        ("help,h", "this text");
    return options;
}

// "1.1": times as long as before.
double ratio_of(const std::string &text) {
    double ratio = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
    if (error != std::errc() || end != text.data() + text.size() || !(ratio >= 1) || ratio > 1e6) {
        throw cli::UsageError("--fail-above '" + text + "': expected how many times as long is too long, such as 1.1");
    }
    return ratio;
}

// Which of the three ways to say what to measure.
void check_what_to_measure(Request &request) {
    const bool has_call = !request.inputs.empty() || !request.attributes.empty() || !request.outputs.empty();
    if (!request.shapes.empty() && (request.all || has_call || !request.ops.empty())) {
        throw cli::UsageError(
            "--shapes says what to time; give no op, no --shape, --attr or --output, and no --all beside it");
    }
    if (request.all && has_call) {
        throw cli::UsageError("--all brings shapes of its own; give no --shape, --attr or --output beside it");
    }
    if (!request.shapes.empty() || request.all) {
        return;
    }
    if (request.ops.empty()) {
        throw cli::UsageError("what is to be timed? Give an op with its shapes, --shapes FILE or --all; 'plugin-ls' "
                              "lists the ops");
    }
    if (request.ops.size() > 1) {
        throw cli::UsageError("one op at a time without --all; '" + request.ops[1] + "' is a second one");
    }
    if (!has_call && (request.json || request.prints_csv)) {
        throw cli::UsageError(std::string(request.json ? "--json" : "--format csv") +
                              " prints what was measured; give --shape, --shapes or --all beside it");
    }
    request.action = has_call ? Action::measure : Action::show_expected;
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    po::options_description all = describe_options();
    all.add_options()("ops", po::value<std::vector<std::string>>()); // the positional ones
    po::positional_options_description positional;
    positional.add("ops", -1);
    const po::variables_map values = cli::parse_arguments(arguments, all, positional);
    Request request;
    if (values.count("help") != 0) {
        return request;
    }
    if (values.count("version") != 0) {
        request.action = Action::version;
        return request;
    }
    request.action = Action::measure;
    request.ops = cli::texts_of(values, "ops");
    std::transform(request.ops.begin(), request.ops.end(), request.ops.begin(), cli::op_called);
    request.inputs = op_call::parse_named(cli::texts_of(values, "shape"), "--shape",
                                          std::string("NAME=SOURCE\n  ") + op_call::shape_or_source_forms);
    request.attributes = op_call::parse_named(cli::texts_of(values, "attr"), "--attr", "NAME=VALUE");
    request.outputs = cli::texts_of(values, "output");
    request.shapes = cli::text_of(values, "shapes");
    request.all = values.count("all") != 0;
    request.impls = cli::texts_of(values, "impl");
    request.device = values.count("device") != 0 ? cli::text_of(values, "device") : request.device;
    if (values.count("rounds") != 0) {
        request.rounds = cli::number_of(values, "rounds", 1, 10000);
    }
    if (values.count("budget") != 0) {
        request.seconds = cli::parse_duration(cli::text_of(values, "budget"), "--budget");
    }
    request.cold = values.count("cold") != 0;
    request.csv = cli::text_of(values, "csv");
    request.plot = cli::text_of(values, "plot");
    cli::check_plot_name(request.plot);
    request.compare = cli::text_of(values, "compare");
    if (values.count("fail-above") != 0) {
        request.fail_above = ratio_of(cli::text_of(values, "fail-above"));
        if (request.compare.empty()) {
            throw cli::UsageError("--fail-above says what --compare may find; give --compare FILE beside it");
        }
    }
    request.force = values.count("force") != 0;
    request.json = values.count("json") != 0;
    request.prints_csv = cli::text_of(values, "format") == "csv";
    if (request.prints_csv && !request.compare.empty()) {
        throw cli::UsageError("--format csv has no place for what --compare finds; write the table with --csv FILE");
    }
    for (const std::string &path : cli::texts_of(values, "modules")) {
        request.modules.push_back(cli::absolute_path(path));
    }
    check_what_to_measure(request);
    return request;
}

std::string help_text() {
    return cli::help_of(introduction, describe_options(), examples);
}

} // namespace opdock::plugin_bench
