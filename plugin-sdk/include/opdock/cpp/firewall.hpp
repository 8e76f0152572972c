// SPDX-License-Identifier: Apache-2.0
// Makes plain C functions from C++ ones. No exception leaves them: std::bad_alloc becomes OUT_OF_MEMORY, a Failure its
// own status, anything else FAILED with what() as the message. The unwinding of a cancelled thread (pthread_cancel)
// passes, because the C library ends the process if it is stopped.
//
//     Status scale(const Call &call);                            kernel<&scale>
//     Status have_avx512(const Device &device);                  available<&have_avx512>
//     Status even_only(const Problem &problem);                  supports<&even_only>
//     Status pick_block(const Problem &problem, int64_t *knobs); heuristic<&pick_block>
//     uint64_t scratch(const Problem &problem);                  workspace_size<&scratch>
//     Status make(const Problem &, std::unique_ptr<Plan> &);     plan<&make>
//     Status connect(const Device &, std::unique_ptr<State> &);  device_state<&connect>
//
// Functions that take a Device may take a DLDevice instead.
#ifndef OPDOCK_CPP_FIREWALL_HPP
#define OPDOCK_CPP_FIREWALL_HPP

#include <exception>
#include <memory>
#include <new>
#include <type_traits>

#include "opdock/abi/impl.h"
#include "opdock/cpp/problem.hpp"
#include "opdock/cpp/status.hpp"

namespace opdock {

namespace detail {

// Called inside a catch block; `fail` leaves the message and returns the status.
template<class Fail>
[[gnu::cold, gnu::noinline]] opdock_status status_of_exception(Fail fail) noexcept {
    try {
        throw;
    } catch (const Failure &failure) {
        return fail(failure.code(), failure.what());
    } catch (const std::bad_alloc &) {
        return fail(OPDOCK_OUT_OF_MEMORY, "out of host memory (std::bad_alloc)");
    } catch (const std::exception &exception) {
        return fail(OPDOCK_FAILED, exception.what());
    } catch (...) {
        return fail(OPDOCK_FAILED, "threw something that is not a std::exception");
    }
}

template<class Function>
opdock_status guarded(const opdock_host_api *host, Function &&function) {
    try {
        const Status status = function();
        return status.message() == nullptr ? status.code() : host->fail(host, status.code(), status.message());
    } catch (...) {
        let_cancellation_pass();
        return status_of_exception(
            [host](opdock_status status, const char *message) { return host->fail(host, status, message); });
    }
}

// For functions with an unexpected signature: the compiler's own message would not say what is expected.
template<auto function, class... Expected>
using IfOther = std::enable_if_t<!(std::is_convertible_v<decltype(function), Expected> || ...), int>;
template<auto function>
inline constexpr bool is_never = false;

} // namespace detail

template<Status (*function)(const Call &)>
opdock_status kernel(const opdock_problem *problem, const opdock_call *call) {
    return detail::guarded(problem->host, [&] { return function(Call(*problem, *call)); });
}

template<auto function, detail::IfOther<function, Status (*)(const Call &)> = 0>
opdock_status kernel(const opdock_problem * /*problem*/, const opdock_call * /*call*/) {
    static_assert(detail::is_never<function>, "kernel<&f> needs Status f(const opdock::Call &call)");
    return OPDOCK_FAILED;
}

template<Status (*function)(const Device &)>
opdock_status available(const opdock_host_api *host, void *user_data, DLDevice device) {
    return detail::guarded(host, [&] { return function(Device(*host, user_data, device)); });
}

template<Status (*function)(DLDevice)>
opdock_status available(const opdock_host_api *host, void * /*user_data*/, DLDevice device) {
    return detail::guarded(host, [&] { return function(device); });
}

template<auto function, detail::IfOther<function, Status (*)(const Device &), Status (*)(DLDevice)> = 0>
opdock_status available(const opdock_host_api * /*host*/, void * /*user_data*/, DLDevice /*device*/) {
    static_assert(detail::is_never<function>, "available<&f> needs Status f(const opdock::Device &device)");
    return OPDOCK_FAILED;
}

template<Status (*function)(const Problem &)>
opdock_status supports(const opdock_problem *problem) {
    return detail::guarded(problem->host, [&] { return function(Problem(*problem)); });
}

template<auto function, detail::IfOther<function, Status (*)(const Problem &)> = 0>
opdock_status supports(const opdock_problem * /*problem*/) {
    static_assert(detail::is_never<function>, "supports<&f> needs Status f(const opdock::Problem &problem)");
    return OPDOCK_FAILED;
}

template<Status (*function)(const Problem &, std::int64_t *knobs)>
opdock_status heuristic(const opdock_problem *problem, std::int64_t *knobs) {
    return detail::guarded(problem->host, [&] { return function(Problem(*problem), knobs); });
}

template<auto function, detail::IfOther<function, Status (*)(const Problem &, std::int64_t *)> = 0>
opdock_status heuristic(const opdock_problem * /*problem*/, std::int64_t * /*knobs*/) {
    static_assert(detail::is_never<function>,
                  "heuristic<&f> needs Status f(const opdock::Problem &problem, std::int64_t *knobs)");
    return OPDOCK_FAILED;
}

template<std::uint64_t (*function)(const Problem &)>
opdock_status workspace_size(const opdock_problem *problem, std::uint64_t *bytes) {
    return detail::guarded(problem->host, [&] {
        *bytes = function(Problem(*problem));
        return Status();
    });
}

template<auto function, detail::IfOther<function, std::uint64_t (*)(const Problem &)> = 0>
opdock_status workspace_size(const opdock_problem * /*problem*/, std::uint64_t * /*bytes*/) {
    static_assert(detail::is_never<function>,
                  "workspace_size<&f> needs std::uint64_t f(const opdock::Problem &problem)");
    return OPDOCK_FAILED;
}

// Argument of Impl::plan: the create and destroy functions of per-problem state.
struct PlanFunctions {
    decltype(opdock_impl::plan_create) create;
    decltype(opdock_impl::plan_destroy) destroy;
};

// Argument of Impl::device_state: the create and destroy functions of per-device state.
struct DeviceStateFunctions {
    decltype(opdock_impl::device_init) init;
    decltype(opdock_impl::device_fini) fini;
};

namespace detail {

template<class Signature>
struct StateOf;
template<class State, class First>
struct StateOf<Status (*)(First, std::unique_ptr<State> &)> {
    using type = State;
};

template<auto function>
opdock_status plan_create(const opdock_problem *problem, void **plan) {
    return guarded(problem->host, [&] {
        std::unique_ptr<typename StateOf<decltype(function)>::type> made;
        Status status = function(Problem(*problem), made);
        if (status.ok())
            *plan = made.release();
        return status;
    });
}

template<auto function>
void plan_destroy(const opdock_host_api * /*host*/, void * /*user_data*/, DLDevice /*device*/, void *plan) noexcept {
    delete static_cast<typename StateOf<decltype(function)>::type *>(plan);
}

template<auto function>
opdock_status device_init(const opdock_host_api *host, void *user_data, DLDevice device, void **state) {
    return guarded(host, [&] {
        std::unique_ptr<typename StateOf<decltype(function)>::type> made;
        Status status = function(Device(*host, user_data, device), made);
        if (status.ok())
            *state = made.release();
        return status;
    });
}

template<auto function>
void device_fini(const opdock_host_api * /*host*/, void * /*user_data*/, DLDevice /*device*/, void *state) noexcept {
    delete static_cast<typename StateOf<decltype(function)>::type *>(state);
}

} // namespace detail

// Takes Status function(const Problem &, std::unique_ptr<Plan> &); kernels find the plan in problem.plan<Plan>().
template<auto function>
inline constexpr PlanFunctions plan = {&detail::plan_create<function>, &detail::plan_destroy<function>};

// Takes Status function(const Device &, std::unique_ptr<State> &); kernels find it in problem.device_state<State>().
template<auto function>
inline constexpr DeviceStateFunctions device_state = {&detail::device_init<function>, &detail::device_fini<function>};

} // namespace opdock

#endif
