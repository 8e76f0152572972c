// The CPU plugin in a program: effects that depend on both its own threads and the host's.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "opdock/opdock.hpp"

namespace {

// A call large enough for the plugin to distribute over threads.
struct Call {
    explicit Call(const opdock::Host &host) : rmsnorm(host.op("rmsnorm_fwd")) {}

    // True if every row was written: the root mean square of equal elements is their magnitude.
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

// The plugin as built, not beside the library, so its kind must be granted by name.
opdock::Options with_cpu_plugin() {
    setenv("OPDOCK_TEST_DEFAULT_PLUGINS", "cpu", 1);
    return {.modules = {CPU_PLUGIN}, .prefix = "OPDOCK_TEST_", .log = [](int32_t, std::string_view) {}};
}

} // namespace

TEST_CASE("a forked child's calls are served, also when another thread was calling during the fork") {
    const opdock::Host host(with_cpu_plugin());
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
            alarm(30); // a hanging child is a failure, rather than a test that never ends
            _exit(call.works() && call.works() ? 0 : 1);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    stop.store(true);
    other.join();
}

// AddressSanitizer of GCC 12 can leave a child with a locked allocator if other threads allocate, as they do here.
TEST_CASE("the plugin computes on the threads that the program lends, and the same") {
    // A pool that runs its chunks in reverse order on the calling thread: no code may rely on the order.
    struct Lent {
        std::vector<std::pair<int64_t, int64_t>> chunks;
        opdock_thread_pool pool = {.struct_size = OPDOCK_STRUCT_SIZE(opdock_thread_pool, parallel_for),
                                   .reserved = 0,
                                   .user_data = this,
                                   .parallel_for = run};

        static void run(void *self, int64_t items, int64_t grain, void (*body)(void *, int64_t, int64_t),
                        void *context) {
            for (int64_t end = items; end > 0;) {
                const int64_t begin = (end - 1) / grain * grain;
                static_cast<Lent *>(self)->chunks.emplace_back(begin, end);
                body(context, begin, end);
                end = begin;
            }
        }
    } lent;
    opdock::Options options = with_cpu_plugin();
    options.extension_user_data = &lent.pool;
    options.get_extension = [](void *pool, const char *name) -> const void * {
        return std::string_view(name) == OPDOCK_THREAD_POOL ? pool : nullptr;
    };
    const opdock::Host host(options);
    Call call(host);
    CHECK(call.works());
    REQUIRE(lent.chunks.size() > 1);
    CHECK(lent.chunks.front().second == Call::rows);
    CHECK(lent.chunks.back().first == 0);
}

#ifndef __SANITIZE_ADDRESS__
// OpenBLAS takes a lock in each call. The products are small, so that calls do little else.
TEST_CASE("a forked child can multiply matrices, also when other threads were at it during the fork") {
    const opdock::Host host(with_cpu_plugin());
    const opdock::Op linear = host.op("linear_fwd");
    const auto multiplies = [&] {
        constexpr int64_t rows = 17; // more than the plugin's own kernels handle
        std::vector<float> input(rows, 2.0F), weight(1, 3.0F), output(rows);
        const opdock::Tensor x(input.data(), opdock::f32, {rows, 1});
        const opdock::Tensor w(weight.data(), opdock::f32, {1, 1});
        const opdock::Tensor y(output.data(), opdock::f32, {rows, 1});
        return linear.try_call({x, w, nullptr}, {y}) == OPDOCK_OK && output.back() == 6;
    };
    REQUIRE(multiplies());
    std::atomic<bool> stop{false};
    std::atomic<int> calling{0};
    std::vector<std::thread> others;
    for (int i = 0; i < 3; ++i) {
        others.emplace_back([&] {
            for (bool first = true; !stop.load(); first = false) {
                multiplies();
                calling += first ? 1 : 0;
            }
        });
    }
    while (calling.load() < 3) {
        std::this_thread::yield();
    }
    int failed = 0;
    for (int i = 0; i < 200 && failed == 0; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60); // ends a child that hangs
            _exit(multiplies() ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        failed += status == 0 ? 0 : 1;
    }
    stop.store(true);
    for (std::thread &other : others) {
        other.join();
    }
    CHECK(failed == 0);
}
#endif

TEST_CASE("matrix products of several threads at once are what one thread computes") {
    const opdock::Host host(with_cpu_plugin());
    const opdock::Op linear = host.op("linear_fwd");
    constexpr int64_t rows = 64, columns = 48, depth = 40; // small, so that threads often meet
    std::vector<float> input(rows * depth);
    std::vector<float> gains(columns * depth);
    for (size_t i = 0; i < input.size(); ++i) {
        input[i] = static_cast<float>(i * 37 % 101) / 8;
    }
    for (size_t i = 0; i < gains.size(); ++i) {
        gains[i] = static_cast<float>(i * 17 % 31) / 4;
    }
    const opdock::Tensor x(input.data(), opdock::f32, {rows, depth});
    const opdock::Tensor w(gains.data(), opdock::f32, {columns, depth});
    const auto product = [&] {
        std::vector<float> output(rows * columns, -1);
        const opdock::Tensor y(output.data(), opdock::f32, {rows, columns});
        linear({x, w, nullptr}, {y});
        return output;
    };
    const std::vector<float> expected = product();
    std::atomic<int> wrong{0};
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                for (int call = 0; call < 2000; ++call) {
                    wrong += product() == expected ? 0 : 1;
                }
            });
        }
    }
    CHECK(wrong == 0);
}

TEST_CASE("the time of work on the CPU is that of the work, and its status comes back") {
    const opdock::Host host(with_cpu_plugin());
    const auto sleep = [](void *user_data) -> opdock_status {
        usleep(2000);
        return *static_cast<opdock_status *>(user_data);
    };
    opdock_status status = OPDOCK_OK;
    double microseconds = 0;
    const auto timed = [&] {
        return opdock_device_time(host.c(), {kDLCPU, 0}, nullptr, sleep, &status, &microseconds);
    };
    CHECK(timed() == OPDOCK_OK);
    CHECK(microseconds >= 2000);
    status = OPDOCK_FAILED;
    CHECK(timed() == OPDOCK_FAILED);
    CHECK(microseconds == 0);
    CHECK(opdock_device_time(host.c(), {kDLVPI, 0}, nullptr, sleep, &status, &microseconds) == OPDOCK_UNSUPPORTED);
}
