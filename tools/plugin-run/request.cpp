#include "request.hpp"

#include <cstdint>
#include <limits>

#include "op-call/call_file.hpp"
#include "op-call/source.hpp"

namespace opdock::plugin_run {
namespace {

constexpr const char *examples = R"(Examples:
  plugin-run rmsnorm_fwd
  plugin-run rmsnorm_fwd --in input=random:bf16[64,1024] \
                         --in weight=ones:bf16[1024]
  plugin-run rmsnorm_fwd --in input=x.npy --in weight=w.npy --attr eps=1e-6 \
                         --output output=y.npy --output rsigma
  plugin-run gelu --in input=random:f32[64,64] --impl reference.cpp --repeat 10
  plugin-run cross_entropy_fwd --in logits=random:f32[8,100] \
                               --in target=random:i64[8]:0..100
  plugin-run call.safetensors

Exit codes: 0 fine; 1 the op, an implementation or a file is absent, a file of
--modules was not taken, or the call failed; 2 wrong usage.)";

cli::CommandLine describe_options(Request &request) {
    cli::CommandLine line(54);
    op_call::add_sources(line, "in", request.inputs, "an input", op_call::source_forms);
    op_call::add_attributes(line, request.attributes);
    op_call::add_named(line, "output", "NAME[=FILE]", request.outputs,
                       "summarize this output; write it to .npy or .safetensors[:NAME]", "NAME or NAME=FILE", false);
    line.flag("force", request.force, "overwrite the files of --output");
    line.text("device", "DEVICE", request.device,
              "where to run: \"cpu\" (default), \"cuda:1\"; tensors are copied there and back; the default for a call "
              "from a file is the type of device that it ran on");
    line.text("impl", "IMPL_ID", request.impl,
              "this implementation or none; the default for a call from a file is the one that served it");
    line.number("repeat", request.repeat, 1, 1'000'000,
                "make N calls after the first, and show their minimum and median time");
    line.number("seed", request.seed, 0, std::numeric_limits<uint64_t>::max(),
                "seed of the random inputs; 0 by default");
    line.modules(request.modules);
    line.prefix();
    line.format(request.json, "docs/plugin-run-json.md");
    line.ends();
    line.words("op", request.op);
    return line;
}

void read_op(const cli::CommandLine &line, Request &request) {
    if (line.words().size() == 1 && op_call::is_call_file(line.words().front())) {
        request.file = line.words().front();
        for (const char *option : {"in", "attr", "seed"}) {
            if (line.given(option)) {
                throw cli::UsageError("--" + std::string(option) + " has no meaning for '" + request.file +
                                      "': the file has the inputs and attributes of the call");
            }
        }
        return;
    }
    request.op = cli::one_op(line.words());
    if (request.op.empty()) {
        throw cli::UsageError("expected an op; 'plugin-ls' lists the available ones");
    }
}

} // namespace

bool asks_what_is_expected(const Request &request) {
    return request.inputs.empty() && request.attributes.empty() && request.outputs.empty() && request.impl.empty() &&
           request.repeat == 0 && request.file.empty();
}

const cli::Tool<Request> tool = {{"plugin-run", cli::version_with_abi("plugin-run"),
                                  R"(Runs one op once (or often) and shows which implementation served it, the time
and the results. Outputs are allocated from the op's signature; optional outputs
only if --output names them. 'plugin-run OP' alone shows what the op expects.

A SOURCE is a file or generated:
  x.npy                       NumPy's format; has no bf16
  x.safetensors:weight        one tensor of a file; without ':NAME' the one
                              named like the input
  random:bf16[64,1024]        standard normal numbers
  random:i64[8]:0..100        evenly spread, 0 to 99; integers need a range
  random:f32[8]:-1..1         evenly spread, -1 to 1
  spaced:i32[9]:0..64         0, 8, 16, to 64
  zeros:f32[8]  ones:f32[]    all equal; [] is a scalar
A FILE.safetensors alone is a call that a host wrote (PLUGIN_CALL_FILES): the
call is repeated, and its outputs are compared with what the program got.
A list parameter takes --in (and --output) once for each tensor. A 'mut' input
can be written with --output as well.)",
                                  examples},
                                 describe_options,
                                 {{{"",
                                    R"(OP --in NAME=SOURCE... [--attr NAME=VALUE]...
 [--output NAME[=FILE]]... [OPTION...]
OP
FILE.safetensors [--output NAME[=FILE]]... [OPTION...])",
                                    "",
                                    {0, SIZE_MAX},
                                    {}},
                                   nullptr,
                                   read_op}}};

} // namespace opdock::plugin_run
