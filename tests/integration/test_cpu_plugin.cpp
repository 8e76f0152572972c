// The CPU plugin in a program: what depends on its threads and the host's together.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "opdock/opdock.hpp"

namespace {

// A call large enough that the plugin shares it out among threads.
struct Call {
    explicit Call(const opdock::Host &host) : rmsnorm(host.op("rmsnorm_fwd")) {}

    // True when every row was written: the root mean square of equal elements is their size.
    bool works() {
        output.assign(output.size(), 0);
        if (rmsnorm.try_call({x, weight}, {y, nullptr}, {{"eps", 0.0}}) != OPDOCK_OK) {
            return false;
        }
        for (const float element : output) {
            if (element != 1) {
                return false;
            }
        }
        return true;
    }

    static constexpr int64_t rows = 1024, n = 1024;
    opdock::Op rmsnorm;
    std::vector<float> input = std::vector<float>(rows * n, 2.0F);
    std::vector<float> gains = std::vector<float>(n, 1.0F);
    std::vector<float> output = std::vector<float>(rows * n);
    opdock::Tensor x{input.data(), opdock::f32, {rows, n}};
    opdock::Tensor weight{gains.data(), opdock::f32, {n}};
    opdock::Tensor y{output.data(), opdock::f32, {rows, n}};
};

} // namespace

TEST_CASE("a forked child's calls are served, also when another thread was calling during the fork") {
    const opdock::Host host({.modules = {CPU_PLUGIN}, .log = [](int32_t, std::string_view) {}});
    Call call(host);
    REQUIRE(call.works());
    std::atomic<bool> stop{false};
    std::atomic<bool> calling{false};
    std::thread other([&] {
        Call own(host);
        while (!stop.load()) {
            own.works();
            calling.store(true);
        }
    });
    while (!calling.load()) {
        std::this_thread::yield();
    }
    for (int i = 0; i < 10; ++i) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            alarm(30); // a child that hangs is a failure and not a test that never ends
            _exit(call.works() && call.works() ? 0 : 1);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    stop.store(true);
    other.join();
}
