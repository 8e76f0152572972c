#include "request.hpp"

#include <limits>

#include "cli/arguments.hpp"
#include "cli/exit.hpp"
#include "cli/format.hpp"
#include "cli/variables.hpp"
#include "op-call/source.hpp"

namespace opdock::plugin_run {
namespace {

namespace po = boost::program_options;

constexpr const char *introduction =
    R"(Usage: plugin-run OP --in NAME=SOURCE... [--attr NAME=VALUE]...
                  [--output NAME[=FILE]]... [OPTION...]
       plugin-run OP

Runs one op once (or often) and shows what served it, how long it took and what
came out. Outputs are allocated from the op's signature; optional ones only when
--output names them. 'plugin-run OP' alone shows what the op expects.

A SOURCE is a file or made up:
  x.npy                       NumPy's format; has no bf16
  x.safetensors:weight        one tensor of a file; without ':NAME' the one
                              called as the input
  random:bf16[64,1024]        standard normal numbers
  random:i64[8]:0..100        evenly spread, 0 to 99; integers need a range
  random:f32[8]:-1..1         evenly spread, -1 to 1
  zeros:f32[8]  ones:f32[]    all the same; [] is a scalar
A list parameter takes --in (and --output) once for each tensor. A 'mut' input
can be written with --output as well.
)";

constexpr const char *examples = R"(
Examples:
  plugin-run rmsnorm_fwd
  plugin-run rmsnorm_fwd --in input=random:bf16[64,1024] \
                         --in weight=ones:bf16[1024]
  plugin-run rmsnorm_fwd --in input=x.npy --in weight=w.npy --attr eps=1e-6 \
                         --output output=y.npy --output rsigma
  plugin-run gelu --in input=random:f32[64,64] --impl reference.cpp --repeat 10
  plugin-run cross_entropy_fwd --in logits=random:f32[8,100] \
                               --in target=random:i64[8]:0..100

Exit codes: 0 fine; 1 the op, an implementation or a file is absent, a file of
--modules was not taken, or the call failed; 2 wrong usage.
)";

po::options_description describe_options() {
    po::options_description options("Options", 80, 54);
    const auto texts = [](const char *name) {
        return po::value<std::vector<std::string>>()->composing()->value_name(name);
    };
    const auto text = [](const char *name) { return po::value<std::string>()->value_name(name); };
    options.add_options()                                                                                            //
        ("in", texts("NAME=SOURCE"), "an input")                                                                     //
        ("attr", texts("NAME=VALUE"), "an attribute; lists of int are written 1,2,3")                                //
        ("output", texts("NAME[=FILE]"), "summarize this output; write it to .npy or .safetensors[:NAME]")           //
        ("force", "overwrite the files of --output")                                                                 //
        ("device", text("DEVICE"), "where to run: \"cpu\" (default), \"cuda:1\"; tensors are copied there and back") //
        ("impl", text("IMPL_ID"), "this implementation or none")                                                     //
        ("repeat", text("N"), "after a first call N more, and their minimum and median time")                        //
        ("seed", text("N"), "of the random inputs; 0 by default")                                                    //
        ("modules", texts("PATH"), "search this plugin file or directory first")                                     //
        ("prefix", text("PREFIX"), cli::prefix_help);
    cli::add_format(options, "docs/plugin-run-json.md");
    options.add_options()                                   //
        ("version", "the version of this tool and its ABI") //
        ("help,h", "this text");
    return options;
}

} // namespace

Request parse_request(const std::vector<std::string> &arguments) {
    po::options_description all = describe_options();
    all.add_options()("op", po::value<std::vector<std::string>>()); // the positional one
    po::positional_options_description positional;
    positional.add("op", -1);
    const po::variables_map values = cli::parse_arguments(arguments, all, positional);

    Request request;
    request.help = values.count("help") != 0;
    request.version = values.count("version") != 0;
    request.json = values.count("json") != 0;
    request.force = values.count("force") != 0;
    request.inputs = op_call::parse_named(cli::texts_of(values, "in"), "--in",
                                          std::string("NAME=SOURCE\n  ") + op_call::source_forms);
    request.attributes = op_call::parse_named(cli::texts_of(values, "attr"), "--attr", "NAME=VALUE");
    request.outputs = op_call::parse_named(cli::texts_of(values, "output"), "--output", "NAME or NAME=FILE", false);
    if (values.count("device") != 0) {
        request.device = values["device"].as<std::string>();
    }
    request.impl = cli::text_of(values, "impl");
    if (values.count("repeat") != 0) {
        request.repeat = static_cast<uint32_t>(cli::number_of(values, "repeat", 1, 1'000'000));
    }
    if (values.count("seed") != 0) {
        request.seed = cli::number_of(values, "seed", 0, std::numeric_limits<uint64_t>::max());
    }
    for (const std::string &path : cli::texts_of(values, "modules")) {
        request.modules.push_back(cli::absolute_path(path));
    }
    if (request.help || request.version) {
        return request;
    }
    if (values.count("op") == 0) {
        throw cli::UsageError("which op? 'plugin-ls' lists those there are");
    }
    const auto &ops = values["op"].as<std::vector<std::string>>();
    if (ops.size() != 1) {
        throw cli::UsageError("one op at a time; '" + ops[1] + "' is a second one");
    }
    request.op = cli::op_called(ops.front());
    return request;
}

bool asks_what_is_expected(const Request &request) {
    return request.inputs.empty() && request.attributes.empty() && request.outputs.empty() && request.impl.empty() &&
           request.repeat == 0;
}

std::string help_text() {
    return cli::help_of(introduction, describe_options(), examples);
}

} // namespace opdock::plugin_run
