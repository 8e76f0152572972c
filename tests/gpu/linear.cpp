// gpu-linear: races linear_fwd or linear_fp8 against cuBLASLt called directly, on the same tensors.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "check_cuda.hpp"
#include "cli/arguments.hpp"
#include "cli/open_host.hpp"
#include "command_line.hpp"
#include "direct_linear.hpp"
#include "op-call/job.hpp"
#include "op-call/placed_call.hpp"
#include "op-call/requested.hpp"
#include "race.hpp"

namespace gpu_tests {
namespace {

using nlohmann::json;
using opdock::op_call::DeviceBuffer;
using opdock::op_call::Operand;

constexpr const char *usage = R"(usage: gpu-linear [OPTION...]

Times a prepared call of linear_fwd with a bias in bf16, or of linear_fp8 with
the same bias and output, and in turn with it a direct call of cuBLASLt on the
same tensors: the first algorithm of its heuristic, with a workspace of 32 MiB,
summed in f32, the bias in the epilogue. Prints the medians, and fails when the
two do not compute the same.

  --modules PATH   search this plugin file or directory first; may be repeated
  --impl IMPL_ID   of this implementation; vendor.cuda without it
  --device D       where to run; cuda:0 without it
  --dtype T        of input and weight: bf16, or e4m3 for linear_fp8; bf16
                   without it
  --rows N         of the input and the output; 8192 without it
  --columns N      of the output; 8192 without it
  --depth N        8192 without it
  --rounds N       in each of which both take a turn; 101 without it
  --json FILE      write the results there too
  --help           this text

Examples:
  gpu-linear --modules lib/opdock/plugins --json linear.json
  gpu-linear --rows 4096 --columns 14336 --depth 4096 --rounds 301

Exit codes: 0 both compute the same; 1 they do not, or something fails; 2 wrong
usage.
)";

struct Request {
    std::vector<std::string> modules;
    std::string impl = "vendor.cuda";
    std::string device = "cuda:0";
    std::string dtype = "bf16";
    int rows = 8192;
    int columns = 8192;
    int depth = 8192;
    int rounds = 101;
    std::string json_file;
};

Request request_of(const std::vector<std::string> &arguments) {
    Request request;
    const auto text = [](std::string &to) { return [&to](const std::string &value) { to = value; }; };
    const auto number = [](const char *option, int &to) {
        return [option, &to](const std::string &value) { to = number_of(option, value, 1); };
    };
    parse(arguments, {{"--modules",
                       [&](const std::string &value) { request.modules.push_back(opdock::cli::absolute_path(value)); }},
                      {"--impl", text(request.impl)},
                      {"--device", text(request.device)},
                      {"--dtype", text(request.dtype)},
                      {"--rows", number("--rows", request.rows)},
                      {"--columns", number("--columns", request.columns)},
                      {"--depth", number("--depth", request.depth)},
                      {"--rounds", number("--rounds", request.rounds)},
                      {"--json", text(request.json_file)}});
    if (request.dtype != "bf16" && request.dtype != "e4m3") {
        throw WrongUsage("--dtype " + request.dtype + ": expected bf16 or e4m3");
    }
    return request;
}

// Measures with the device's clock.
class Stopwatch {
  public:
    explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
        check_cuda("creating an event", cudaEventCreate(&begin_));
        check_cuda("creating an event", cudaEventCreate(&end_));
    }
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch &operator=(const Stopwatch &) = delete;
    ~Stopwatch() {
        static_cast<void>(cudaEventDestroy(begin_));
        static_cast<void>(cudaEventDestroy(end_));
    }

    // Microseconds per run, over `runs` runs.
    template<class Run>
    double operator()(int runs, const Run &run) const {
        check_cuda("recording an event", cudaEventRecord(begin_, stream_));
        for (int i = 0; i < runs; ++i) {
            run();
        }
        check_cuda("recording an event", cudaEventRecord(end_, stream_));
        check_cuda("waiting for the stream", cudaEventSynchronize(end_));
        float milliseconds = 0;
        check_cuda("reading the time", cudaEventElapsedTime(&milliseconds, begin_, end_));
        return 1000.0 * static_cast<double>(milliseconds) / runs;
    }

  private:
    cudaStream_t stream_;
    cudaEvent_t begin_ = nullptr;
    cudaEvent_t end_ = nullptr;
};

std::vector<uint16_t> read(const void *memory, size_t count) {
    std::vector<uint16_t> values(count);
    check_cuda("copying an output", cudaMemcpy(values.data(), memory, count * 2, cudaMemcpyDeviceToHost));
    return values;
}

float widened(uint16_t bf16) {
    const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

struct Difference {
    size_t elements; // with different bits
    double largest;  // as a fraction of the largest value; NaN if one of the values is NaN
};

Difference difference_of(const std::vector<uint16_t> &a, const std::vector<uint16_t> &b) {
    Difference difference{0, 0};
    double largest_value = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        difference.elements += a[i] != b[i] ? 1 : 0;
        const double off = std::abs(static_cast<double>(widened(a[i])) - static_cast<double>(widened(b[i])));
        if (std::isnan(off)) {
            return {i + 1, off};
        }
        difference.largest = std::max(difference.largest, off);
        largest_value = std::max(largest_value, std::abs(static_cast<double>(widened(a[i]))));
    }
    difference.largest /= largest_value;
    return difference;
}

struct Op {
    const char *name;
    std::vector<opdock::op_call::Named> inputs;
    std::vector<opdock::op_call::Named> attributes;
};

Op op_of(const Request &request) {
    const auto source = [](const std::string &dtype, const std::string &dims) {
        return "random:" + dtype + "[" + dims + "]:-2..2";
    };
    const std::string depth = "," + std::to_string(request.depth);
    const std::string columns = std::to_string(request.columns);
    Op op = {"linear_fwd",
             {{"input", source(request.dtype, std::to_string(request.rows) + depth)},
              {"weight", source(request.dtype, columns + depth)},
              {"bias", source("bf16", columns)}},
             {}};
    if (request.dtype == "e4m3") {
        op.name = "linear_fp8";
        op.inputs.push_back({"input_scale", source("f32", "1")});
        op.inputs.push_back({"weight_scale", source("f32", "1")});
        op.attributes.push_back({"dtype", "bf16"});
    }
    return op;
}

// `pointers` are in the op's order: if there are scales, the bias comes last.
Linear linear_of(const Request &request, const std::vector<void *> &pointers, void *output) {
    Linear linear = {request.rows, request.columns, request.depth, pointers[0], pointers[1], pointers[2], output};
    if (request.dtype == "e4m3") {
        linear.bias = pointers[4];
        linear.input_scale = pointers[2];
        linear.weight_scale = pointers[3];
    }
    return linear;
}

// Prints a side's time, and adds it to the side's entry of the document.
void report_side(const Request &request, json &entry, const char *text, size_t workspace) {
    const double flops = 2.0 * request.rows * request.columns * request.depth;
    const double microseconds = entry.at("microseconds").get<double>();
    entry["flops_per_second"] = flops / microseconds * 1e6;
    entry["workspace"] = workspace;
    std::printf("  %-24s %9.1f us  %7.1f TFLOP/s  %6.3f times as long  workspace %.1f MiB\n", text, microseconds,
                flops / microseconds * 1e-6, entry.at("ratio").get<double>(),
                static_cast<double>(workspace) / (1 << 20));
}

// Prints whether both results agree, adds that to the document, and returns it.
bool report_difference(json &document, const Difference &difference, size_t count) {
    constexpr double most = 1.0 / 128; // two roundings to bf16, of sums in a different order
    const bool are_same = difference.largest <= most;
    std::printf("  %zu of %zu elements differ, by at most %.2g of the largest%s\n", difference.elements, count,
                difference.largest, are_same ? "" : ": NOT THE SAME");
    document.update({{"elements", count},
                     {"different", difference.elements},
                     {"largest_difference", difference.largest},
                     {"same", are_same}});
    return are_same;
}

void report(const Request &request, const char *op, int runs, json &document) {
    std::printf("%s of %s[%d,%d], %d columns, with a bias (medians of %d rounds of %d runs); cuBLASLt %s\n", op,
                request.dtype.c_str(), request.rows, request.depth, request.columns, request.rounds, runs,
                DirectLinear::version().c_str());
    document.update({{"op", op},
                     {"dtype", request.dtype},
                     {"impl_id", request.impl},
                     {"device", request.device},
                     {"cublaslt", DirectLinear::version()},
                     {"rows", request.rows},
                     {"columns", request.columns},
                     {"depth", request.depth},
                     {"rounds", request.rounds},
                     {"runs", runs}});
}

int run(const Request &request) {
    const opdock::Host host = opdock::cli::open_host(request.modules, false);
    const DLDevice device = host.device(request.device);
    check_cuda("choosing the device", cudaSetDevice(device.device_id));
    cudaStream_t stream = nullptr;
    check_cuda("creating a stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    const Op of = op_of(request);
    const opdock::op_call::Job job = opdock::op_call::job_of(host, {of.name, request.impl, of.inputs, of.attributes});
    const opdock::Op op = host.op(of.name);
    const opdock::op_call::PlacedCall placed(host, op, job.signature, job.arguments,
                                             opdock::op_call::shapes_or_sources_spelling, device);
    const opdock::Prepared prepared =
        op.prepare(placed.args(), opdock::op_call::nothing_but(host, of.name, request.impl));
    std::optional<DeviceBuffer> workspace;
    if (prepared.workspace_size() != 0) {
        workspace.emplace(host, device, prepared.workspace_size());
    }
    std::vector<void *> pointers = opdock::op_call::pointers_of(job.signature, placed.inputs(), placed.outputs());
    const Operand &output = placed.outputs()[0][0];
    const DeviceBuffer direct_output(host, device, opdock::op_call::bytes_of(output));
    const DirectLinear direct(linear_of(request, pointers, direct_output.get()));
    check_cuda("waiting for the device", cudaDeviceSynchronize());

    const auto run_opdock = [&] {
        opdock::detail::check(prepared.run(pointers, stream, workspace ? workspace->get() : nullptr));
    };
    const auto run_direct = [&] { direct.run(stream); };
    const Stopwatch time(stream);
    run_opdock();
    const double once = time(2, run_direct);
    const int runs = static_cast<int>(std::clamp(10'000 / once, 1.0, 1000.0)); // one turn takes about 10 ms
    json document =
        race({{"direct", [&] { return time(runs, run_direct); }}, {"opdock", [&] { return time(runs, run_opdock); }}},
             request.rounds);

    report(request, of.name, runs, document);
    report_side(request, document["direct"], "cublasLtMatmul", direct.workspace_size());
    report_side(request, document["opdock"], "prepared call", prepared.workspace_size());
    const auto count = static_cast<size_t>(request.rows) * static_cast<size_t>(request.columns);
    const bool are_same =
        report_difference(document, difference_of(read(direct_output.get(), count), read(output.data, count)), count);
    std::fflush(stdout);
    write_json(request.json_file, document);
    check_cuda("removing the stream", cudaStreamDestroy(stream));
    return are_same ? 0 : 1;
}

} // namespace
} // namespace gpu_tests

int main(int argc, char **argv) {
    return gpu_tests::run_program("gpu-linear", gpu_tests::usage, argc, argv, [](const auto &arguments) {
        return gpu_tests::run(gpu_tests::request_of(arguments));
    });
}
