// A program that brings an implementation of its own, without a shared object: define, register, call.
#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

#include <opdock/opdock.hpp>
#include <opdock/plugin.hpp>
#include <opdock/standard_ops.h>

namespace {

// 1. Define. The same code could be a plugin.
//
// Declares the calls that it declines before it is chosen: a prepared call has no fallback.
opdock::Status plain_only(const opdock::Problem &problem) {
    if (problem.get_bool(1) || problem.has_output(1)) {
        return opdock::unsupported("zero_centered_gamma and rsigma are left to others");
    }
    return {};
}

opdock::Status my_rmsnorm(const opdock::Call &call) {
    const auto input = call.input<const float>(0);
    const auto weight = call.input<const float>(1);
    const auto output = call.output<float>(0);
    const double eps = call.get_float(0);
    // Calls that were not prepared get here without a check by plain_only.
    if (opdock::Status status = plain_only(call); !status.ok()) {
        return status;
    }
    for (std::int64_t r = 0; r < input.rows(); ++r) {
        const auto row = input.row(r);
        double sum = 0;
        for (std::int64_t i = 0; i < row.size(); ++i) {
            sum += double(row[i]) * row[i];
        }
        const double scale = 1 / std::sqrt(sum / double(row.size()) + eps);
        for (std::int64_t i = 0; i < row.size(); ++i) {
            output.row(r)[i] = float(row[i] * scale * weight[i]);
        }
    }
    return {};
}

// 2. Register: the same function that a plugin exports as opdock_register.
opdock_status register_mine(opdock_registry *registry) {
    return opdock::register_plugin(registry, [](opdock::Registry &mine) {
        mine.implement(opdock::ops::rmsnorm_fwd, opdock::Impl("vendor.mine")
                                                     .dtypes("f32,f32")
                                                     .supports(opdock::supports<&plain_only>)
                                                     .kernel(opdock::kernel<&my_rmsnorm>));
    });
}

} // namespace

int main() {
    try {
        opdock::Host host;
        host.register_module("my-program", "mine", register_mine);

        // 3. Call. The policy decides as it does for plugins: here, vendors go first.
        const opdock::ScopedPolicy scope(host, host.policy({{"prefer", "vendor"}}));
        const std::int64_t n = 4;
        std::vector<float> x{1, 2, 3, 4}, w(n, 1.0f), y(n);
        const opdock::Tensor input(x.data(), opdock::f32, {n});
        const opdock::Tensor weight(w.data(), opdock::f32, {n});
        const opdock::Tensor output(y.data(), opdock::f32, {n});
        host.call("rmsnorm_fwd", {&input, &weight}, {&output, nullptr}, {{"eps", 1e-6}});

        std::cout << "vendor.mine served " << host.served("rmsnorm_fwd", "vendor.mine") << " call:";
        for (const float value : y) {
            std::cout << ' ' << value;
        }
        std::cout << "\n";

        // A prepared call is not bound to an implementation that does not support it.
        std::vector<float> r(1);
        const opdock::Tensor rsigma(r.data(), opdock::f32, {});
        const opdock::Prepared prepared =
            host.op("rmsnorm_fwd").prepare({&input, &weight}, {&output, &rsigma}, {{"eps", 1e-6}});
        std::cout << "prepared with rsigma: " << prepared.impl() << "\n";
    } catch (const opdock::Error &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
