#include "dispatch/attempt.hpp"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_host.hpp"
#include "dispatch/observed_kernel.hpp"
#include "load/cancellation.hpp"
#include "load/plugin_call.hpp"
#include "load/tenancy.hpp"
#include "observe/call_files.hpp"

namespace opdock::core {

namespace {

// The kernel of an implementation whose code may be unloaded.
opdock_status run_while_there(const opdock_problem *problem, const opdock_call *call) {
    const Implementation &implementation = static_cast<const Attempt *>(problem->host_data)->implementation;
    const Tenancy::Visit visit(implementation.tenancy.get());
    return visit.is_refused() ? problem->host->fail(problem->host, OPDOCK_UNSUPPORTED, Tenancy::gone)
                              : implementation.callbacks().kernel(problem, call);
}

} // namespace

Attempt::~Attempt() {
    if (observed.counts) {
        observed.call->count_rest(observed_calls);
    }
    if (problem.plan == nullptr) {
        return;
    }
    if (Tenancy *tenancy = implementation.tenancy.get()) {
        Tenancy::Plans &plans = tenancy->plans();
        const std::lock_guard lock(plans.mutex);
        if (plans.held.erase(this) != 0) { // otherwise it went with the code or belongs to a parent process
            destroy_plan();
        }
        return;
    }
    destroy_plan();
}

void Attempt::destroy_plan() noexcept {
    const Uncancellable host_work; // a destructor must not be cancelled
    const Callbacks &callbacks = implementation.callbacks();
    // If entering the device fails, the plan's host resources are still released.
    const CurrentDevice current = host.devices().enter(deployment.device());
    call_plugin([&] {
        callbacks.plan_destroy(&host.api(), callbacks.user_data, deployment.device(), problem.plan);
        return OPDOCK_OK;
    });
}

opdock_status Attempt::declined(const std::string &why) {
    reason = why;
    return OPDOCK_UNSUPPORTED;
}

opdock_status Attempt::check_limits(const CallShape &shape) {
    if (!fits) {
        return declined(
            fmt::format("it implements the shorter signature {}, but the call uses more", implementation.form->text));
    }
    if ((implementation.required_flags & OPDOCK_IMPL_NEEDS_CONTIGUOUS) != 0) {
        for (uint32_t p = 0; p < shape.signature->n_params(); ++p) {
            for (uint32_t t = shape.first[p]; t < shape.first[p + 1]; ++t) {
                if (!shape.tensors[t].absent && !shape.tensors[t].contiguous) {
                    return declined(fmt::format("it needs contiguous tensors, and '{}' is not",
                                                shape.signature->parameter(p).name));
                }
            }
        }
    }
    return OPDOCK_OK;
}

void Attempt::fill_problem(const CallShape &shape) {
    const Signature &form = *implementation.form;
    const bool shorter = form.n_params() != shape.signature->n_params();
    if (shorter) {
        // The longer form appends parameters to inputs and to outputs: leave them out.
        const size_t full_inputs = shape.signature->inputs.size();
        first_ = {0};
        for (size_t p = 0; p < form.n_params(); ++p) {
            const size_t full = p < form.inputs.size() ? p : full_inputs + (p - form.inputs.size());
            for (uint32_t t = shape.first[full]; t < shape.first[full + 1]; ++t) {
                map.push_back(t);
                tensors_.push_back(shape.pointers[t]);
            }
            first_.push_back(static_cast<uint32_t>(map.size()));
        }
    }
    attributes = shape.attributes;
    problem.struct_size = OPDOCK_STRUCT_SIZE(opdock_problem, host_data);
    problem.n_inputs = static_cast<uint32_t>(form.inputs.size());
    problem.n_outputs = static_cast<uint32_t>(form.outputs.size());
    problem.n_tensors = shorter ? static_cast<uint32_t>(map.size()) : shape.n_tensors;
    problem.n_attributes = static_cast<uint32_t>(form.attributes.size());
    problem.n_knobs = 0;
    problem.knobs = nullptr;
    problem.tensors = shorter ? tensors_.data() : shape.pointers.data();
    problem.tensor_offsets = shorter ? first_.data() : shape.first.data();
    problem.attributes = attributes.data();
    problem.device = shape.device;
    problem.user_data = implementation.callbacks().user_data;
    problem.host = &host.api();
    problem.host_data = this;
}

opdock_status Attempt::choose_config(const TuneConfig *given) {
    chosen = {};
    excluded.clear();
    if (implementation.knobs.empty()) {
        return OPDOCK_OK;
    }
    DeploymentTuning *tuning = given == nullptr ? deployment.tuning() : nullptr;
    std::vector<std::string> *told = explains_config ? &excluded : nullptr;
    std::optional<ChosenConfig> known;
    if (given != nullptr) {
        known = ChosenConfig{*given, ConfigSource::given, {}};
    } else if (tuning != nullptr && is_tuned) {
        known = tuning->look_up(problem, told);
    }
    if (!known) {
        const opdock_status status = ask_heuristic(tuning);
        if (status != OPDOCK_OK) {
            return status;
        }
        if (chosen.source == ConfigSource::defaults && tuning != nullptr) {
            std::string why;
            known = tuning->heuristic(problem, told, &why);
            if (!why.empty()) {
                if (const auto more = deployment.heuristic_lines().pass(host.now())) {
                    host.log().warning(
                        fmt::format("{}; the defaults of '{}' are used{}", why, implementation.impl_id, *more));
                }
            }
            if (!known) {
                known = tuning->in_place_of_defaults(problem, told);
            }
        }
    }
    if (known) {
        chosen = std::move(*known);
    }
    problem.knobs = chosen.config.data();
    problem.n_knobs = static_cast<uint32_t>(chosen.config.size());
    return OPDOCK_OK;
}

// Chooses the config that the implementation's heuristic returns, or the defaults if there is no
// heuristic, if it has no opinion, or if `where` excludes its config.
opdock_status Attempt::ask_heuristic(const DeploymentTuning *tuning) {
    for (const Knob &knob : implementation.knobs) {
        chosen.config.push_back(knob.default_value);
    }
    const auto heuristic = implementation.callbacks().heuristic;
    if (heuristic == nullptr) {
        return OPDOCK_OK;
    }
    TuneConfig config = chosen.config;
    const opdock_status status = call_plugin([&] { return heuristic(&problem, config.data()); });
    if (status == OPDOCK_UNSUPPORTED) { // it has no opinion
        return OPDOCK_OK;
    }
    if (status != OPDOCK_OK) {
        reason = "heuristic: " + take_message(status);
        return status;
    }
    for (size_t k = 0; k < config.size(); ++k) {
        const Knob &knob = implementation.knobs[k];
        if (config[k] < knob.minimum || config[k] > knob.maximum) {
            reason = fmt::format("heuristic: knob '{}' is {}, outside its range {} to {}", knob.name, config[k],
                                 knob.minimum, knob.maximum);
            return OPDOCK_FAILED_CLEAN;
        }
    }
    ChosenConfig opinion{std::move(config), ConfigSource::heuristic_function, {}};
    if (tuning == nullptr || tuning->allows(problem, opinion, explains_config ? &excluded : nullptr)) {
        chosen = std::move(opinion);
    }
    return OPDOCK_OK;
}

std::string Attempt::misalignment(const CallShape &shape, void *const *data) const {
    for (uint32_t p = 0; p < shape.signature->n_params(); ++p) {
        for (uint32_t t = shape.first[p]; t < shape.first[p + 1]; ++t) {
            const uint64_t mask =
                implementation.alignment == 0 ? shape.tensors[t].alignment_mask : implementation.alignment - 1;
            if (data[t] != nullptr && (reinterpret_cast<uint64_t>(data[t]) & mask) != 0) {
                return fmt::format("it needs data aligned to {} bytes, and '{}' is not", mask + 1,
                                   shape.signature->parameter(p).name);
            }
        }
    }
    return {};
}

opdock_status Attempt::choose(const CallShape &shape, bool ask_supports, const TuneConfig *given) {
    if (is_declined) {
        return OPDOCK_UNSUPPORTED; // `reason` holds its answer
    }
    const Tenancy::Visit visit(implementation.tenancy.get());
    if (visit.is_refused()) {
        return declined(Tenancy::gone);
    }
    const Availability availability = deployment.ask_availability();
    if (availability.answer != Availability::yes) {
        return declined("not available: " + availability.reason);
    }
    const Callbacks &callbacks = implementation.callbacks(); // the plugin is open by now
    opdock_status status = check_limits(shape);
    if (status != OPDOCK_OK) {
        return status;
    }
    map.clear();
    tensors_.clear();
    fill_problem(shape);
    provider = host.devices().provider_to_enter(shape.device);
    const CurrentDevice current(host.api(), provider, shape.device.device_id);
    status = current.status();
    if (status != OPDOCK_OK) {
        reason = take_message(status);
        return status;
    }
    if (ask_supports && callbacks.supports != nullptr) {
        status = call_plugin([&] { return callbacks.supports(&problem); });
        if (status != OPDOCK_OK) {
            is_declined = status == OPDOCK_UNSUPPORTED;
            reason = take_message(status);
            return status;
        }
    }
    status = deployment.device_state(&problem.device_state, &reason);
    return status == OPDOCK_OK ? choose_config(given) : status;
}

void Attempt::put_observer_before_kernel(const CallShape &shape) {
    CallObserver *const observer = is_observed ? host.observer() : nullptr;
    if (observer != nullptr) {
        std::string config = chosen.config.empty() ? "" : config_text(implementation.knobs, chosen.config);
        observed = observer->observe(
            kernel,
            describe_call(implementation, shape, attributes, host.devices().text(shape.device), std::move(config)),
            shape.device, provider);
        kernel = observing_kernel(observed);
    }
}

void Attempt::put_shadow_beside_kernel() {
    shadow.rule = is_observed ? shadow_rule_for(host.shadow_rules(), implementation.op) : nullptr;
    shadow.written =
        is_observed && host.call_files() != nullptr ? host.call_files()->numbers_for(implementation.op) : nullptr;
    if (shadow.rule != nullptr || shadow.written != nullptr) {
        shadow.kernel = std::exchange(kernel, run_with_shadow);
    }
}

opdock_status Attempt::prepare(const CallShape &shape, bool ask_supports, const TuneConfig *given) {
    const Tenancy::Visit visit(implementation.tenancy.get());
    opdock_status status = choose(shape, ask_supports, given);
    if (status != OPDOCK_OK) {
        return status;
    }
    const CurrentDevice current(host.api(), provider, shape.device.device_id);
    status = current.status();
    if (status != OPDOCK_OK) {
        reason = take_message(status);
        return status;
    }
    const Callbacks &callbacks = implementation.callbacks();
    if (callbacks.plan_create != nullptr && problem.plan == nullptr) {
        void *plan = nullptr;
        status = call_plugin([&] { return callbacks.plan_create(&problem, &plan); });
        if (status != OPDOCK_OK) {
            reason = "plan_create: " + take_message(status);
            return status;
        }
        problem.plan = plan;
        if (Tenancy *tenancy = implementation.tenancy.get(); tenancy != nullptr && plan != nullptr) {
            Tenancy::Plans &plans = tenancy->plans();
            const std::lock_guard lock(plans.mutex);
            plans.held.insert(this);
        }
    }
    if (callbacks.workspace_size != nullptr) {
        status = call_plugin([&] { return callbacks.workspace_size(&problem, &workspace_size); });
        if (status != OPDOCK_OK) {
            reason = "workspace_size: " + take_message(status);
            return status;
        }
    }
    kernel = implementation.tenancy ? run_while_there : callbacks.kernel;
    put_observer_before_kernel(shape);
    put_shadow_beside_kernel();
    alignment_mask = implementation.alignment > 1 ? implementation.alignment - 1 : 0;
    plain = workspace_size == 0 && map.empty();
    ready = true;
    return OPDOCK_OK;
}

} // namespace opdock::core
