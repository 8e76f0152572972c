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
opdock::Status my_rmsnorm(const opdock::Call &call) {
    const auto input = call.input<const float>(0);
    const auto weight = call.input<const float>(1);
    const auto output = call.output<float>(0);
    const double eps = call.get_float(0);
    if (call.get_bool(1) || call.has_output(1)) {
        return opdock::unsupported("zero_centered_gamma and rsigma are left to others");
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

// 2. Register: the function that a plugin exports as opdock_register.
opdock_status register_mine(opdock_registry *registry) {
    return opdock::register_plugin(registry, [](opdock::Registry &mine) {
        mine.implement(
            opdock::ops::rmsnorm_fwd,
            opdock::Impl("vendor.mine").kind(OPDOCK_KIND_VENDOR).dtypes("f32,f32").kernel(opdock::kernel<&my_rmsnorm>));
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
    } catch (const opdock::Error &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
