// gpu-graphs: every op of an implementation, captured into a CUDA graph and replayed, against the run that was not
// captured; and what a call costs the host beside a raw launch.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "capture.hpp"
#include "cases.hpp"
#include "cli/open_host.hpp"
#include "cost.hpp"
#include "op-call/requested.hpp"
#include "reference.hpp"

namespace gpu_graphs {
namespace {

using nlohmann::json;
using opdock::op_call::Signature;
using opdock::plugin_check::Case;
using opdock::plugin_check::Subject;

constexpr const char *usage = R"(usage: gpu-graphs [OPTION...]

Captures each op of an implementation into a CUDA graph, replays it, and compares
the bits with those of a run that was not captured. Then measures what a call
costs the host, and what a graph of 100 calls takes.

  --modules PATH   search this plugin file or directory first; may be repeated
  --impl IMPL_ID   of this implementation; vendor.cuda without it
  --device D       where to run; cuda:0 without it
  --op OP          this op alone; may be repeated
  --cases N        calls for each tuple of dtypes; 3 without it
  --seed N         of the inputs; 1 without it
  --cost-op OP     what the costs are measured with: an op whose inputs and
                   outputs have one shape; add without it
  --rounds N       of the costs; 201 without it, 0 measures none
  --json FILE      write the results there too
  --help           this text

Examples:
  gpu-graphs --modules lib/opdock/plugins --json graphs.json
  gpu-graphs --op rmsnorm_fwd --op rmsnorm_bwd --cases 8 --rounds 0

Exit codes: 0 all the same; 1 something differs or fails; 2 wrong usage.
)";

struct Request {
    std::vector<std::string> modules;
    std::string impl = "vendor.cuda";
    std::string device = "cuda:0";
    std::vector<std::string> ops;
    size_t cases = 3;
    uint64_t seed = 1;
    std::string cost_op = "add";
    int rounds = 201;
    std::string json_file;
};

struct WrongUsage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

Request parse(const std::vector<std::string> &arguments) {
    Request request;
    for (size_t i = 0; i < arguments.size(); i += 2) {
        const std::string &option = arguments[i];
        if (i + 1 == arguments.size()) {
            throw WrongUsage("what does '" + option + "' mean? See --help");
        }
        const std::string &value = arguments[i + 1];
        const auto number = [&](int smallest) {
            try {
                size_t end = 0;
                const int found = std::stoi(value, &end);
                if (end == value.size() && found >= smallest) {
                    return found;
                }
            } catch (const std::logic_error &) { // not a number, or too large a one: said below
            }
            throw WrongUsage(option + " " + value + ": expected a number from " + std::to_string(smallest));
        };
        if (option == "--modules") {
            request.modules.push_back(value);
        } else if (option == "--impl") {
            request.impl = value;
        } else if (option == "--device") {
            request.device = value;
        } else if (option == "--op") {
            request.ops.push_back(value);
        } else if (option == "--cases") {
            request.cases = static_cast<size_t>(number(1));
        } else if (option == "--seed") {
            request.seed = static_cast<uint64_t>(number(0));
        } else if (option == "--cost-op") {
            request.cost_op = value;
        } else if (option == "--rounds") {
            request.rounds = number(0);
        } else if (option == "--json") {
            request.json_file = value;
        } else {
            throw WrongUsage("unknown option '" + option + "'. See --help");
        }
    }
    return request;
}

std::vector<Subject> subjects_of(const opdock::Host &host, const Request &request) {
    std::vector<Subject> subjects;
    const json document = json::parse(host.describe());
    for (const json &op : document.at("ops")) {
        const auto name = op.at("op").get<std::string>();
        if (!request.ops.empty() && std::find(request.ops.begin(), request.ops.end(), name) == request.ops.end()) {
            continue;
        }
        for (const json &one : op.at("implementations")) {
            if (one.at("impl_id") == request.impl) {
                Subject subject{name, request.impl, request.device, one.at("dtypes").get<std::vector<std::string>>()};
                if (subject.tuples.empty()) {
                    subject.tuples.emplace_back(); // of signatures without dtype variables
                }
                // What matters here is which kernels run, not how elements lie.
                subject.needs_contiguous = true;
                subjects.push_back(std::move(subject));
            }
        }
    }
    return subjects;
}

// For each tuple of dtypes, from small to large.
std::vector<Case> chosen_cases(const std::vector<Case> &cases, size_t for_each_tuple) {
    std::map<std::string, std::vector<Case>> by_tuple;
    for (const Case &one : cases) {
        if (one.exercise == opdock::plugin_check::Exercise::call &&
            one.values == opdock::plugin_check::Values::normal &&
            one.layout == opdock::plugin_check::Layout::contiguous) {
            by_tuple[one.tuple].push_back(one);
        }
    }
    std::vector<Case> chosen;
    for (const auto &[tuple, all] : by_tuple) {
        const size_t count = std::min(all.size(), for_each_tuple);
        for (size_t i = 0; i < count; ++i) {
            chosen.push_back(all[i * all.size() / count]);
        }
    }
    return chosen;
}

json try_op(const opdock::Host &host, const Subject &subject, const Request &request, cudaStream_t stream) {
    const opdock::Op op = host.op(subject.op);
    const Signature signature = opdock::op_call::signature_of(op);
    const opdock::plugin_check::Reference reference(host, signature);
    const opdock::Policy policy = opdock::op_call::nothing_but(host, subject.op, subject.impl_id);
    const auto forward = [&](const opdock::plugin_check::Forward &of, const Case &one, const auto &known) {
        return reference.forward(of, one, known);
    };
    const std::vector<Case> cases = opdock::plugin_check::cases_for(
        subject, signature, request.seed,
        [&](const opdock::plugin_check::Shapes &shapes) { return reference.takes(shapes); });
    size_t same = 0;
    size_t declined = 0;
    json failures = json::array();
    std::map<std::string, size_t> captured; // for each tuple of dtypes
    for (const Case &one : chosen_cases(cases, request.cases)) {
        captured[one.tuple] += 0;
        std::string problem;
        try {
            const auto inputs = opdock::plugin_check::draw_inputs(one, signature, forward);
            CapturedCall call(host, op, signature, one, inputs, host.device(request.device), stream);
            if (!call.prepare(op, policy)) {
                ++declined;
                continue;
            }
            ++captured[one.tuple];
            problem = call.compare_replay();
        } catch (const std::exception &error) {
            problem = error.what();
        }
        if (problem.empty()) {
            ++same;
            continue;
        }
        const std::string label = opdock::plugin_check::label_of(one, signature);
        failures.push_back({{"call", label}, {"message", problem}});
        std::cout << subject.op << "  " << label << ": " << problem << std::endl;
        // After some errors every later call would fail too, and hide which one did it.
        check_cuda("the device is lost", cudaDeviceSynchronize());
    }
    for (const auto &[tuple, count] : captured) {
        if (count == 0) {
            failures.push_back({{"call", tuple}, {"message", "every call was declined"}});
            std::cout << subject.op << "  " << tuple << ": every call was declined" << std::endl;
        }
    }
    if (captured.empty()) {
        failures.push_back({{"call", ""}, {"message", "there is no call to try"}});
        std::cout << subject.op << "  there is no call to try" << std::endl;
    }
    return {{"op", subject.op}, {"same", same}, {"declined", declined}, {"failures", failures}};
}

void print_cost(const json &cost) {
    const auto row = [](const char *what, const json &of) {
        std::printf("  %-34s %9.3f us  %+9.3f us\n", what, of.at("microseconds").get<double>(),
                    of.at("over_raw").get<double>());
    };
    std::printf("what the host spends on %s of %lld f32 (medians of %d rounds)\n",
                cost.at("op").get<std::string>().c_str(), cost.at("elements").get<long long>(),
                cost.at("rounds").get<int>());
    row("cudaLaunchKernel, empty kernel", cost.at("call").at("raw"));
    row("prepared call", cost.at("call").at("prepared"));
    row("call by handle", cost.at("call").at("handle"));
    std::printf("a replay of a graph of %d nodes\n", cost.at("graph").at("nodes").get<int>());
    row("raw launches", cost.at("graph").at("raw"));
    row("prepared calls", cost.at("graph").at("prepared"));
    std::fflush(stdout);
}

void write_json(const std::string &path, const json &document) {
    if (path.empty()) {
        return;
    }
    std::FILE *file = std::fopen(path.c_str(), "w");
    const std::string text = document.dump(1) + "\n";
    const bool is_written = file != nullptr && std::fputs(text.c_str(), file) >= 0;
    if ((file != nullptr && std::fclose(file) != 0) || !is_written) {
        throw std::runtime_error("--json " + path + ": it cannot be written");
    }
}

int run(const Request &request) {
    const opdock::Host host = opdock::cli::open_host(request.modules, false);
    const std::vector<Subject> subjects = subjects_of(host, request);
    if (subjects.empty()) {
        throw std::runtime_error("no op has an implementation '" + request.impl +
                                 "'; is its plugin there (--modules)?");
    }
    const DLDevice device = host.device(request.device);
    check_cuda("choosing the device", cudaSetDevice(device.device_id));
    cudaStream_t stream = nullptr;
    check_cuda("making a stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    json document = {{"impl_id", request.impl}, {"device", request.device}, {"ops", json::array()}};
    size_t same = 0;
    size_t declined = 0;
    size_t failed = 0;
    for (const Subject &subject : subjects) {
        document["ops"].push_back(try_op(host, subject, request, stream));
        const json &one = document["ops"].back();
        same += one.at("same").get<size_t>();
        declined += one.at("declined").get<size_t>();
        failed += one.at("failures").size();
    }
    std::cout << subjects.size() << " ops: " << same << " calls replayed with the same bits, " << declined
              << " declined, " << failed << " failures" << std::endl;
    if (request.rounds > 0) {
        document["cost"] = measure_cost(host, request.cost_op, request.impl, device, stream, request.rounds);
        print_cost(document["cost"]);
    }
    check_cuda("removing the stream", cudaStreamDestroy(stream));
    write_json(request.json_file, document);
    return failed == 0 ? 0 : 1;
}

} // namespace
} // namespace gpu_graphs

int main(int argc, char **argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    try {
        if (arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h")) {
            std::cout << gpu_graphs::usage;
            return 0;
        }
        return gpu_graphs::run(gpu_graphs::parse(arguments));
    } catch (const gpu_graphs::WrongUsage &error) {
        std::cerr << "gpu-graphs: " << error.what() << "\n";
        return 2;
    } catch (const std::exception &error) {
        std::cerr << "gpu-graphs: " << error.what() << "\n";
        return 1;
    }
}
