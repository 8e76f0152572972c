#include "matmul_rate.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/statistics.hpp"
#include "cli/suggest.hpp"

namespace opdock::plugin_bench {
namespace {

using nlohmann::json;

constexpr double size = 2048;
constexpr double flops = 2 * size * size * size;

op_call::Job square(const Host &host, const std::string &op, const std::vector<std::string> &inputs,
                    const std::string &dtype, int64_t n) {
    op_call::Subject subject{op, "", {}, {}};
    for (const std::string &input : inputs) {
        subject.inputs.push_back({input, dtype + "[" + std::to_string(n) + "," + std::to_string(n) + "]"});
    }
    return op_call::job_of(host, subject);
}

// The implementations that may be the fastest.
std::vector<std::string> candidates(const Host &host, const std::string &op, const std::string &kind) {
    std::vector<std::string> ids;
    const json document = json::parse(host.describe());
    for (const json &one : document.at("ops")) {
        for (const json &implementation : one.at("implementations")) {
            if (one.at("op") == op && implementation.at("kind") != "reference" &&
                cli::same_name(implementation.at("device").get<std::string>(), kind)) {
                ids.push_back(implementation.at("impl_id").get<std::string>());
            }
        }
    }
    return ids;
}

} // namespace

MatmulRate::MatmulRate(const Host &host, const DeviceFacts &facts, std::string dtype) : dtype_(std::move(dtype)) {
    add(host, facts, "matmul", {"a", "b"});
    add(host, facts, "linear_fwd", {"input", "weight"});
}

void MatmulRate::add(const Host &host, const DeviceFacts &facts, const std::string &op,
                     const std::vector<std::string> &inputs) {
    constexpr int64_t small = 256;
    constexpr double too_long = 2e6; // microseconds
    const std::vector<std::string> ids = candidates(host, op, facts.name.substr(0, facts.name.find(':')));
    if (ids.empty()) {
        return;
    }
    const auto place = [&](int64_t n) {
        const op_call::Job job = square(host, op, inputs, dtype_, n);
        return std::make_unique<op_call::PlacedCall>(host, host.op(op), job.signature, job.arguments,
                                                     op_call::shapes_or_sources_spelling, facts.device);
    };
    std::unique_ptr<op_call::PlacedCall> small_call;
    try {
        small_call = place(small);
    } catch (const Error &) { // the op has no such dtype
        return;
    }
    const op_call::Signature signature = op_call::signature_of(host.op(op));
    Rotation small_rotation(host, signature, *small_call, facts.device, 1);
    Problem problem{op, place(static_cast<int64_t>(size)), nullptr, {}};
    problem.rotation = std::make_unique<Rotation>(host, signature, *problem.call, facts.device, 1);
    for (const std::string &id : ids) {
        try {
            const Contender trial(host, op, id, *small_call, facts.device);
            trial.sample(small_rotation, 1);
            const double growth = size / small;
            if (trial.sample(small_rotation, 1) * growth * growth * growth < too_long) {
                problem.contenders.emplace_back(id,
                                                std::make_unique<Contender>(host, op, id, *problem.call, facts.device));
                problem.contenders.back().second->sample(*problem.rotation, 1);
            }
        } catch (const Error &) { // it declines the dtype or fails, so it is not the fastest
            std::erase_if(problem.contenders, [&](const auto &one) { return one.first == id; });
        }
    }
    if (!problem.contenders.empty()) {
        problems_.push_back(std::move(problem));
    }
}

std::optional<MatmulRate::Best> MatmulRate::measure() {
    constexpr size_t rounds = 3;
    std::vector<std::pair<Best, std::vector<double>>> times;
    for (size_t round = 0; round < rounds; ++round) {
        size_t at = 0;
        for (const Problem &problem : problems_) {
            for (const auto &[id, contender] : problem.contenders) {
                if (round == 0) {
                    times.push_back({{0, problem.op, id}, {}});
                }
                times[at++].second.push_back(contender->sample(*problem.rotation, 1));
            }
        }
    }
    std::optional<Best> best;
    for (auto &[one, samples] : times) {
        one.flops_per_second = 1e6 * flops / cli::summarize(samples).median;
        best = best && best->flops_per_second >= one.flops_per_second ? best : std::optional(one);
    }
    return best;
}

} // namespace opdock::plugin_bench
