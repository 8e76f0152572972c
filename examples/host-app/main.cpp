// A program that embeds opdock: it opens a host, calls an op, changes the policy in a scope, and prints a decision.
#include <cstdint>
#include <iostream>
#include <vector>

#include <opdock/opdock.hpp>

int main() {
    try {
        // Reads PLUGIN_PREFER and the other variables, and finds plugins. One host per program is the rule.
        opdock::Host host;

        const std::int64_t rows = 4, n = 256;
        std::vector<float> x(rows * n, 2.0f), w(n, 0.5f), y(rows * n);
        const opdock::Tensor input(x.data(), opdock::f32, {rows, n});
        const opdock::Tensor weight(w.data(), opdock::f32, {n});
        const opdock::Tensor output(y.data(), opdock::f32, {rows, n});

        // Looked up once and kept. The second output, rsigma, is optional: null says that it is not wanted.
        opdock::Op rmsnorm = host.op("rmsnorm_fwd");
        rmsnorm({&input, &weight}, {&output, nullptr}, {{"eps", 1e-6}});
        std::cout << "rmsnorm of a row of 2 with weight 0.5: " << y[0] << "\n";

        // In a loop: everything is checked and chosen once, and each run only takes the pointers. Nothing is tried in
        // place of a kernel that fails: the status is for the program to look at.
        opdock::Prepared prepared = rmsnorm.prepare({&input, &weight}, {&output, nullptr}, {{"eps", 1e-6}});
        for (int step = 0; step < 1000; ++step) {
            const opdock_status status = prepared.run({x.data(), w.data(), y.data(), nullptr});
            if (status != OPDOCK_OK) {
                throw opdock::Error(status, prepared.impl() + ": " + opdock_last_error());
            }
        }
        std::cout << "prepared: " << prepared.impl() << "\n";

        // A policy for this thread, as long as the scope lives.
        {
            const opdock::ScopedPolicy scope(host, host.policy({{"prefer", "reference"}}));
            rmsnorm({&input, &weight}, {&output, nullptr});
        }

        // Which implementations would be tried, in which order, and why not the others.
        std::cout << host.explain("rmsnorm_fwd", "cpu", "f32,f32") << "\n";
    } catch (const opdock::Error &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
