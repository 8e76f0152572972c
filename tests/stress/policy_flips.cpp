// Threads call while another one switches between two policies. Each policy is an order and a list of denied vendors;
// an order combined with the other policy's list would select an implementation that neither policy selects.
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "installation.hpp"
#include "stress.hpp"
#include "text/error.hpp"

namespace opdock::stress {
namespace {

struct Adder {
    const char *impl_id;
    const char *vendor;
    float bias;
};
constexpr std::array<Adder, 4> adders = {
    {{"vendor.a", "a", 1}, {"vendor.b", "b", 2}, {"vendor.c", "c", 3}, {"vendor.d", "d", 4}}};
constexpr float of_first = 1, of_second = 2;

opdock_status add(const opdock_problem *problem, const opdock_call *call) {
    *static_cast<float *>(call->data[1]) =
        *static_cast<const float *>(call->data[0]) + static_cast<const Adder *>(problem->user_data)->bias;
    return OPDOCK_OK;
}

opdock_status register_adders(opdock_registry *registry) {
    test::declare(registry, "stress.add(input: T[n]) -> (output: T[n])");
    for (const Adder &adder : adders) {
        opdock_impl impl = {};
        impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, workspace_size);
        impl.kind = OPDOCK_KIND_VENDOR;
        impl.op = "stress.add";
        impl.impl_id = adder.impl_id;
        impl.vendor = adder.vendor;
        impl.device = "cpu";
        impl.dtypes = "f32";
        impl.user_data = const_cast<Adder *>(&adder);
        impl.kernel = add;
        registry->register_impl(registry, &impl);
    }
    return OPDOCK_OK;
}

core::PolicyPtr policy(core::Host &host, const char *order, const char *denied) {
    const core::Setting settings[] = {{"per_op", order}, {"deny_vendors", denied}};
    return std::make_shared<const core::Policy>(host.make_policy(settings));
}

struct Shared {
    core::Host &host;
    core::PolicyPtr scoped; // the first policy
    std::uint64_t rounds;
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> mixed{0};
    std::atomic<std::uint64_t> prepared{0};

    bool is_whole(float bias) const { return bias == of_first || bias == of_second; }
};

constexpr std::uint64_t at_once = 1000; // calls between two looks at the shared state

// Makes validated calls.
void call(Shared &shared) {
    const Op op(&shared.host.op("stress.add"));
    float in = 10, out = 0;
    const Tensor x(&in, f32, {1});
    const Tensor y(&out, f32, {1});
    while (shared.calls.load(std::memory_order_relaxed) < shared.rounds) {
        std::uint64_t mixed = 0;
        for (std::uint64_t i = 0; i < at_once; ++i) {
            out = 0;
            mixed += op.try_call({x}, {y}) != OPDOCK_OK || !shared.is_whole(out - in);
        }
        shared.mixed += mixed;
        shared.calls += at_once;
    }
}

// Makes prepared calls, renews them when they are stale, and checks what they report.
void call_prepared(Shared &shared) {
    const Op op(&shared.host.op("stress.add"));
    float in = 10, out = 0;
    const Tensor x(&in, f32, {1});
    const Tensor y(&out, f32, {1});
    while (shared.calls.load(std::memory_order_relaxed) < shared.rounds) {
        const Prepared prepared = op.prepare({x}, {y});
        const float bias = prepared.impl() == "vendor.a" ? of_first : of_second;
        ++shared.prepared;
        std::uint64_t mixed = !shared.is_whole(bias);
        do {
            for (std::uint64_t i = 0; i < at_once; ++i) {
                out = 0;
                mixed += prepared.run({&in, &out}) != OPDOCK_OK || out - in != bias;
            }
            shared.calls += at_once;
        } while (!prepared.stale() && shared.calls.load(std::memory_order_relaxed) < shared.rounds);
        shared.mixed += mixed;
    }
}

// Alternates calls inside a scope, whose policy takes precedence over the program's, and outside of it.
void call_in_scopes(Shared &shared) {
    const Op op(&shared.host.op("stress.add"));
    float in = 10, out = 0;
    const Tensor x(&in, f32, {1});
    const Tensor y(&out, f32, {1});
    while (shared.calls.load(std::memory_order_relaxed) < shared.rounds) {
        std::uint64_t mixed = 0;
        shared.host.push_scope(shared.scoped);
        for (std::uint64_t i = 0; i < at_once; ++i) {
            mixed += op.try_call({x}, {y}) != OPDOCK_OK || out - in != of_first;
        }
        shared.host.pop_scope();
        mixed += op.try_call({x}, {y}) != OPDOCK_OK || !shared.is_whole(out - in);
        shared.mixed += mixed;
        shared.calls += at_once + 1;
    }
}

void check(Stress &stress) {
    const auto host = quiet_host({}, {});
    host->register_module("adders", "a", register_adders);
    const core::PolicyPtr policies[] = {policy(*host, "stress.add=vendor:a|vendor:c", "b"),
                                        policy(*host, "stress.add=vendor:b|vendor:d", "a")};
    host->set_program_policy(policies[0]);
    Shared shared{*host, policies[0], stress.rounds};
    const std::uint64_t wanted = std::clamp<std::uint64_t>(stress.rounds / 100'000, 1000, 10'000);
    std::uint64_t flips = 0;
    {
        std::vector<std::jthread> threads;
        for (void (*work)(Shared &) : {call, call_prepared, call_in_scopes}) {
            threads.emplace_back([&shared, work] { work(shared); });
        }
        while (flips < wanted) {
            // Waits, so that the flips are spread over all calls.
            while (shared.calls.load(std::memory_order_relaxed) < flips * (stress.rounds / wanted)) {
                std::this_thread::yield();
            }
            host->set_program_policy(policies[++flips % 2]);
            stress.progress(flips, wanted);
        }
    }
    if (shared.mixed != 0) {
        stress.violated(std::to_string(shared.mixed) + " calls were served by what neither policy gives");
    }
    if (host->served_count("stress.add", "vendor.c") != 0 || host->served_count("stress.add", "vendor.d") != 0) {
        stress.violated("implementations that no policy gives served calls");
    }
    stress.checked(std::to_string(shared.calls) + " calls, " + std::to_string(flips) + " flips, " +
                   std::to_string(shared.prepared) + " calls prepared anew; " + std::to_string(shared.mixed) +
                   " mixtures");
}

} // namespace

const Claim policy_flips = {
    "policy-flips",
    "While the policy flips every 100,000 calls, each call is served whole by one policy or the "
    "other: validated, prepared and in scopes.",
    1'000'000'000, check};

} // namespace opdock::stress
