// gpu-graphs: captures every op of an implementation into a CUDA graph and compares its replay with an
// uncaptured run; tests the host's extensions with a plugin in this program; measures a call's cost on
// the host beside a raw launch, and a graph of calls beside a hand-made graph of the same kernels.
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
#include "cli/arguments.hpp"
#include "cli/open_host.hpp"
#include "command_line.hpp"
#include "cost.hpp"
#include "extensions.hpp"
#include "op-call/requested.hpp"
#include "reference.hpp"

namespace gpu_tests {
namespace {

using nlohmann::json;
using opdock::op_call::Signature;
using opdock::plugin_check::Case;
using opdock::plugin_check::Subject;

constexpr const char *usage = R"(usage: gpu-graphs [OPTION...]

Captures each op of an implementation into a CUDA graph, replays it, and compares
the bits with those of a run that was not captured. Tries the extensions of the
host by an op of this program. Then measures what a call costs the host; and
captures 100 calls, says which nodes their graph has, and replays it in turn with
a graph of the same kernels that was made by hand.

  --modules PATH   search this plugin file or directory first; may be repeated
  --impl IMPL_ID   of this implementation; vendor.cuda without it
  --device D       where to run; cuda:0 without it
  --op OP          this op alone; may be repeated
  --cases N        calls for each tuple of dtypes, and more until one is not declined;
                   3 without it
  --seed N         of the inputs; 1 without it
  --cost-op OP     what the costs are measured with: an op whose inputs and
                   outputs have one shape and that one kernel computes; add
                   without it
  --rounds N       of the costs; 201 without it, 0 measures none
  --json FILE      write the results there too
  --help           this text

Examples:
  gpu-graphs --modules lib/opdock/plugins --json graphs.json
  gpu-graphs --op rmsnorm_fwd --op rmsnorm_bwd --cases 8 --rounds 0
  gpu-graphs --op add --cost-op gelu --rounds 1001

Exit codes: 0 all the same; 1 something differs or fails, or a call became more
than one kernel in the graph; 2 wrong usage.
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

Request request_of(const std::vector<std::string> &arguments) {
    Request request;
    const auto text = [](std::string &to) { return [&to](const std::string &value) { to = value; }; };
    const auto number = [](const char *option, int smallest, auto &to) {
        return [=, &to](const std::string &value) {
            to = static_cast<std::decay_t<decltype(to)>>(number_of(option, value, smallest));
        };
    };
    parse(arguments, {{"--modules",
                       [&](const std::string &value) { request.modules.push_back(opdock::cli::absolute_path(value)); }},
                      {"--impl", text(request.impl)},
                      {"--device", text(request.device)},
                      {"--op", [&](const std::string &value) { request.ops.push_back(value); }},
                      {"--cases", number("--cases", 1, request.cases)},
                      {"--seed", number("--seed", 0, request.seed)},
                      {"--cost-op", text(request.cost_op)},
                      {"--rounds", number("--rounds", 0, request.rounds)},
                      {"--json", text(request.json_file)}});
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
                Subject subject;
                subject.op = name;
                subject.signature = op.at("signature").get<std::string>();
                subject.impl_id = request.impl;
                subject.device = request.device;
                subject.deterministic = one.at("deterministic").get<bool>();
                subject.tuples = one.at("dtypes").get<std::vector<std::string>>();
                if (subject.tuples.empty()) {
                    subject.tuples.emplace_back(); // for signatures without dtype variables
                }
                // The test is about which kernels run, not about layouts of elements.
                subject.needs_contiguous = true;
                subjects.push_back(std::move(subject));
            }
        }
    }
    return subjects;
}

// For each tuple of dtypes, `for_each_tuple` cases from small to large, followed by the others.
std::vector<Case> cases_in_turn(const std::vector<Case> &cases, size_t for_each_tuple) {
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
        std::vector<bool> is_chosen(all.size());
        for (size_t i = 0; i < count; ++i) {
            chosen.push_back(all[i * all.size() / count]);
            is_chosen[i * all.size() / count] = true;
        }
        for (size_t i = 0; i < all.size(); ++i) {
            if (!is_chosen[i]) {
                chosen.push_back(all[i]);
            }
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
        [&](const opdock::plugin_check::Shapes &shapes) { return reference.takes(shapes); }, {},
        [&](const opdock::plugin_check::Shapes &shapes) { return reference.takes(shapes, true); });
    size_t same = 0;
    size_t declined = 0;
    json failures = json::array();
    std::map<std::string, size_t> tried, captured; // for each tuple of dtypes
    for (const Case &one : cases_in_turn(cases, request.cases)) {
        captured[one.tuple] += 0;
        // Beyond the requested number only until one is taken: kernels compiled for few widths decline most cases.
        if (++tried[one.tuple] > request.cases && captured[one.tuple] > 0) {
            continue;
        }
        std::string problem;
        try {
            const auto inputs = opdock::plugin_check::draw_inputs(one, signature, forward);
            CapturedCall call(host, op, signature, one, inputs, host.device(request.device), stream);
            if (!call.prepare(op, policy)) {
                ++declined;
                continue;
            }
            ++captured[one.tuple];
            problem = call.compare_replay(subject.deterministic);
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
        // After some errors every later call would fail too, which would hide the call that caused it.
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
        std::printf("  %-34s %9.3f us  %+9.3f us  %6.3f times\n", what, of.at("microseconds").get<double>(),
                    of.at("over_first").get<double>(), of.at("ratio").get<double>());
    };
    std::printf("what the host spends on %s of %lld f32 (medians of %d rounds)\n",
                cost.at("op").get<std::string>().c_str(), cost.at("elements").get<long long>(),
                cost.at("rounds").get<int>());
    row("cudaLaunchKernel, empty kernel", cost.at("call").at("raw"));
    row("prepared call", cost.at("call").at("prepared"));
    row("call by handle", cost.at("call").at("handle"));
    const json &graph = cost.at("graph");
    std::string nodes;
    for (const auto &[kind, count] : graph.at("nodes").items()) {
        nodes += (nodes.empty() ? "" : ", ") + std::to_string(count.get<size_t>()) + " " + kind;
    }
    std::printf("a graph of %d captured calls; its nodes: %s\n", graph.at("calls").get<int>(), nodes.c_str());
    if (graph.contains("captured")) {
        row("a replay of its kernels by hand", graph.at("by_hand"));
        row("a replay", graph.at("captured"));
    }
    for (const json &problem : cost.at("problems")) {
        std::printf("%s\n", problem.get<std::string>().c_str());
    }
    std::fflush(stdout);
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
    check_cuda("creating a stream", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

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
    document["extensions"] = try_extensions(host, device, stream);
    for (const json &problem : document["extensions"]) {
        std::cout << problem.get<std::string>() << std::endl;
        ++failed;
    }
    if (request.rounds > 0) {
        document["cost"] = measure_cost(host, request.cost_op, request.impl, device, stream, request.rounds);
        print_cost(document["cost"]);
        failed += document["cost"].at("problems").size();
    }
    check_cuda("removing the stream", cudaStreamDestroy(stream));
    write_json(request.json_file, document);
    return failed == 0 ? 0 : 1;
}

} // namespace
} // namespace gpu_tests

int main(int argc, char **argv) {
    return gpu_tests::run_program("gpu-graphs", gpu_tests::usage, argc, argv, [](const auto &arguments) {
        return gpu_tests::run(gpu_tests::request_of(arguments));
    });
}
