// The plugin of Triton kernels, without the kernels. `opdock triton build` copies this library, appends a description
// and the compiled code, and rewrites note, build id and `place` (opdock/triton/_library.py).
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "driver.hpp"
#include "opdock/plugin.hpp"
#include "plan.hpp"
#include "situation.hpp"

// Room for a longer note: blanks after the object are ignored.
#define BLANKS_64 "                                                                "
#define BLANKS_256 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64
OPDOCK_NOTE_OF(OPDOCK_NOTE_JSON("triton-plugin", "0", "opdock", "cuda", "") BLANKS_256 BLANKS_256 BLANKS_256)

namespace opdock::triton {
namespace {

// Location of the data: offset from here, and size.
struct Place {
    std::uint64_t distance, size;
};
__attribute__((section(".opdock.place"), used)) const volatile Place place = {0, 0};

const Plugin &plugin() {
    static const Plugin &made = *[] { // kernels may run as long as the process
        auto read = std::make_unique<Plugin>();
        read->data = {reinterpret_cast<const char *>(const_cast<const Place *>(&place)) + place.distance, place.size};
        if (place.size == 0) {
            throw std::runtime_error("this plugin has no kernels: `opdock triton build` makes plugins from it");
        }
        read->description = read_description(read->data);
        for (const Implementation &one : read->description.implementations) {
            read->registered.push_back({read.get(), &one});
        }
        return read.release();
    }();
    return made;
}

Status is_available(const Device &device) {
    const Driver &driver = Driver::of(device.c().device_type);
    if (!driver.why_not().empty()) {
        return unsupported(driver.why_not());
    }
    const opdock_device_properties *properties = device.properties();
    const std::string name = properties != nullptr ? properties->architecture : "";
    for (const Architecture &one : plugin().description.architectures) {
        const bool serves = std::find(one.serves.begin(), one.serves.end(), name) != one.serves.end();
        if (serves && one.toolkit > driver.cuda_major()) {
            return unsupported("the code for " + one.name + " was made by CUDA " + std::to_string(one.toolkit) +
                               ", but the driver is for CUDA " + std::to_string(driver.cuda_major()) +
                               "; a newer driver is needed");
        }
    }
    return {};
}

// Returns OK if one of the configs serves the problem, else the reason of the first config.
Status serves(const Problem &problem) {
    Situation situation(problem);
    Status first;
    for (const std::vector<std::int64_t> &config : situation.implementation().configs) {
        try {
            situation.set_config(config.data());
            static_cast<void>(situation.candidates());
            return {};
        } catch (const Failure &failure) {
            first = first.ok() ? Status(failure.code(), failure.what()) : std::move(first);
        }
    }
    return first;
}

// True if a config has the value that the heuristic suggests for its knob.
bool agrees(const Situation &situation, const Implementation::Heuristic &heuristic,
            const std::vector<std::int64_t> &config) {
    return evaluate_integer(heuristic.value, situation.values()) == config[static_cast<std::size_t>(heuristic.knob)];
}

// Picks a config among those that serve the call. Each heuristic in turn keeps the configs that agree with it, unless
// none of them does.
Status pick_config(const Problem &problem, std::int64_t *knobs) {
    Situation situation(problem);
    std::vector<const std::vector<std::int64_t> *> left;
    for (const std::vector<std::int64_t> &config : situation.implementation().configs) {
        try {
            situation.set_config(config.data());
            static_cast<void>(situation.candidates());
            left.push_back(&config);
        } catch (const Failure &) {
            continue;
        }
    }
    for (const Implementation::Heuristic &heuristic : situation.implementation().heuristics) {
        std::vector<const std::vector<std::int64_t> *> agreeing;
        for (const std::vector<std::int64_t> *config : left) {
            situation.set_config(config->data());
            if (agrees(situation, heuristic, *config)) {
                agreeing.push_back(config);
            }
        }
        left = agreeing.empty() ? left : agreeing;
    }
    if (left.empty()) {
        return unsupported("no config serves the call");
    }
    std::copy(left.front()->begin(), left.front()->end(), knobs);
    return {};
}

Status make_plan(const Problem &problem, std::unique_ptr<Plan> &plan) {
    Situation situation(problem);
    situation.set_config(problem.c().knobs);
    plan = std::make_unique<Plan>(situation);
    return {};
}

std::uint64_t workspace_of(const Problem &problem) {
    return problem.plan<Plan>()->workspace_size();
}

Status run(const Call &call) {
    return call.plan<Plan>()->run(call);
}

Impl describe(const Registered &registered) {
    const Implementation &one = *registered.implementation;
    Impl impl(one.impl_id);
    impl.device(one.device)
        .dtypes(one.dtypes)
        .architectures(one.architectures)
        .priority(static_cast<std::int32_t>(one.priority))
        .tune_version(static_cast<std::uint32_t>(plugin().description.tune_version))
        .capture_safe()
        .user_data(const_cast<Registered *>(&registered))
        .available(available<&is_available>)
        .supports(supports<&serves>)
        .heuristic(heuristic<&pick_config>)
        .plan(opdock::plan<&make_plan>)
        .workspace_size(workspace_size<&workspace_of>)
        .kernel(kernel<&run>);
    if (one.is_deterministic) {
        impl.deterministic();
    }
    if (one.needs_contiguous) {
        impl.needs_contiguous();
    }
    for (std::size_t i = 0; i < one.knobs.size(); ++i) {
        const Knob &knob = one.knobs[i];
        impl.knob(knob.name, knob.minimum, knob.maximum, one.configs.front()[i]);
    }
    return impl;
}

void register_all(opdock::Registry &registry) {
    for (const Registered &one : plugin().registered) {
        OpDeclaration op("x() -> ()"); // of a text that is no literal
        op.name = one.implementation->op;
        op.signature = one.implementation->signature;
        registry.implement(op, describe(one));
    }
}

} // namespace
} // namespace opdock::triton

OPDOCK_ENTRY opdock_status opdock_register(opdock_registry *registry) {
    return opdock::register_plugin(registry, opdock::triton::register_all);
}
