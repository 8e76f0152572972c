// Cost of one call, as a ratio to a bare indirect call measured in the same process.
//
//     cmake --preset release -DOPDOCK_BUILD_BENCHMARKS=ON && cmake --build build/release --target call-overhead
//     build/release/tests/bench/call-overhead
//
// Rounds of all benchmarks are interleaved in random order; the result is the median over rounds. The kernel returns
// immediately, so that only the path to it is timed. Ratios of other systems were recorded on another machine and are
// printed beside ours for comparison only; they are not measured here.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <benchmark/benchmark.h>

#include "opdock/opdock.hpp"
#include "opdock/plugin.hpp"

namespace {

constexpr opdock::OpDeclaration bench_op("bench.op(input: T[..., n], *, eps: float = 1e-5) -> (output: T[..., n])");

opdock_status nothing(const opdock_problem * /*problem*/, const opdock_call * /*call*/) {
    return OPDOCK_OK;
}

opdock_status register_nothing(opdock_registry *registry) {
    return opdock::register_plugin(registry, [](opdock::Registry &wrapped) {
        wrapped.implement(bench_op, opdock::Impl("default.bench").kind(OPDOCK_KIND_DEFAULT).kernel(nothing));
    });
}

struct Fixture {
    opdock::Host host{{.modules = {}, .prefix = "OPDOCK_BENCH_", .log = [](int32_t, std::string_view) {}}};
    opdock::Op op = registered();
    std::array<float, 4096> in = {};
    std::array<float, 4096> out = {};
    opdock::Tensor x{in.data(), opdock::f32, {16, 64}};
    opdock::Tensor y{out.data(), opdock::f32, {16, 64}};
    opdock::Tensor small_x{in.data(), opdock::f32, {8, 64}};
    opdock::Tensor small_y{out.data(), opdock::f32, {8, 64}};
    opdock::Prepared prepared = op.prepare({x}, {y}, {1e-6});

  private:
    opdock::Op registered() {
        host.register_module("bench", "", register_nothing);
        return host.op("bench.op");
    }
};

Fixture &fixture() {
    static Fixture made;
    return made;
}

std::atomic<opdock_kernel> bare_kernel{nothing};

void bare(benchmark::State &state) {
    const opdock_problem &problem = fixture().prepared.problem();
    std::array<void *, 2> data = {fixture().in.data(), fixture().out.data()};
    const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size), 0, 2, 0, data.data(), nullptr, nullptr, 0};
    for (auto _ : state) {
        benchmark::DoNotOptimize(bare_kernel.load(std::memory_order_acquire)(&problem, &call));
    }
}

void prepared_kept_call(benchmark::State &state) {
    const opdock::Prepared &prepared = fixture().prepared;
    std::array<void *, 2> data = {fixture().in.data(), fixture().out.data()};
    const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size), 0, 2, 0, data.data(), nullptr, nullptr, 0};
    for (auto _ : state) {
        benchmark::DoNotOptimize(prepared.run(call));
    }
}

void prepared_pointers(benchmark::State &state) {
    const opdock::Prepared &prepared = fixture().prepared;
    std::array<void *, 2> data = {fixture().in.data(), fixture().out.data()};
    for (auto _ : state) {
        benchmark::DoNotOptimize(prepared.run(data));
    }
}

void validated(benchmark::State &state) {
    const Fixture &f = fixture();
    for (auto _ : state) {
        benchmark::DoNotOptimize(f.op.try_call({f.x}, {f.y}, {1e-6}));
    }
}

void validated_named_attribute(benchmark::State &state) {
    const Fixture &f = fixture();
    for (auto _ : state) {
        benchmark::DoNotOptimize(f.op.try_call({f.x}, {f.y}, {{"eps", 1e-6}}));
    }
}

void validated_two_shapes(benchmark::State &state) {
    const Fixture &f = fixture();
    for (auto _ : state) {
        benchmark::DoNotOptimize(f.op.try_call({f.x}, {f.y}, {1e-6}));
        benchmark::DoNotOptimize(f.op.try_call({f.small_x}, {f.small_y}, {1e-6}));
    }
    state.counters["calls"] = 2;
}

void validated_in_scope(benchmark::State &state) {
    const Fixture &f = fixture();
    const opdock::ScopedPolicy scope(f.host, f.host.policy({{"prefer", "vendor"}}));
    for (auto _ : state) {
        benchmark::DoNotOptimize(f.op.try_call({f.x}, {f.y}, {1e-6}));
    }
}

void by_name(benchmark::State &state) {
    const Fixture &f = fixture();
    for (auto _ : state) {
        f.host.call("bench.op", {f.x}, {f.y}, {1e-6});
    }
}

std::unordered_map<std::string, opdock_kernel> &table() {
    static std::unordered_map<std::string, opdock_kernel> kernels = {{"bench.op", nothing}, {"other", nothing}};
    return kernels;
}

void map_lookup(benchmark::State &state) {
    const std::string key = "bench.op";
    const opdock_problem &problem = fixture().prepared.problem();
    for (auto _ : state) {
        benchmark::DoNotOptimize(table().find(key)->second(&problem, nullptr));
    }
}

void mutex_and_lookup(benchmark::State &state) {
    static std::mutex mutex;
    const std::string key = "bench.op";
    const opdock_problem &problem = fixture().prepared.problem();
    for (auto _ : state) {
        const std::lock_guard lock(mutex);
        benchmark::DoNotOptimize(table().find(key)->second(&problem, nullptr));
    }
}

void shared_counter(benchmark::State &state) {
    static std::atomic<uint64_t> counter{0};
    const opdock_problem &problem = fixture().prepared.problem();
    for (auto _ : state) {
        counter.fetch_add(1, std::memory_order_relaxed);
        benchmark::DoNotOptimize(bare_kernel.load(std::memory_order_acquire)(&problem, nullptr));
    }
}

BENCHMARK(bare);
BENCHMARK(bare)->Threads(2)->UseRealTime();
BENCHMARK(prepared_kept_call);
BENCHMARK(prepared_pointers);
BENCHMARK(validated);
BENCHMARK(validated)->Threads(2)->UseRealTime();
BENCHMARK(validated_named_attribute);
BENCHMARK(validated_two_shapes);
BENCHMARK(validated_in_scope);
BENCHMARK(by_name);
BENCHMARK(map_lookup);
BENCHMARK(mutex_and_lookup);
BENCHMARK(shared_counter);
BENCHMARK(shared_counter)->Threads(2)->UseRealTime();

// Keeps the times of all rounds and prints medians as ratios.
class RatioReporter : public benchmark::BenchmarkReporter {
  public:
    bool ReportContext(const Context & /*context*/) override { return true; }

    void ReportRuns(const std::vector<Run> &runs) override {
        for (const Run &run : runs) {
            if (run.run_type != Run::RT_Iteration) {
                continue;
            }
            const auto calls = run.counters.find("calls");
            // With several threads: wall time over the iterations of all threads, which is per call of one thread.
            const double per_iteration = run.threads == 1
                                             ? run.GetAdjustedCPUTime() // time used by other processes does not count
                                             : run.GetAdjustedRealTime() * static_cast<double>(run.threads);
            rounds_[run.benchmark_name()].push_back(per_iteration /
                                                    (calls != run.counters.end() ? calls->second.value : 1));
        }
    }

    void Finalize() override {
        const double base = median("bare");
        std::printf("%-58s %8s %8s\n", "one call", "ns", "ratio");
        const auto row = [&](const char *what, const char *name) {
            std::printf("%-58s %8.2f %8.2f\n", what, median(name), median(name) / base);
        };
        row("bare indirect call through an atomic pointer", "bare");
        row("  the same on each of two threads", "bare/real_time/threads:2");
        row("prepared call, arguments kept by the program", "prepared_kept_call");
        row("prepared call, pointers given each time", "prepared_pointers");
        row("validated call: 2 tensors, 1 attribute", "validated");
        row("  the same on each of two threads", "validated/real_time/threads:2");
        row("  attribute given by name", "validated_named_attribute");
        row("  two shapes in turn", "validated_two_shapes");
        row("  in a scoped policy", "validated_in_scope");
        row("call by name", "by_name");
        row("unordered_map lookup by ready key", "map_lookup");
        row("mutex + lookup", "mutex_and_lookup");
        row("a shared fetch_add counter", "shared_counter");
        row("  the same on each of two threads", "shared_counter/real_time/threads:2");
        std::printf(
            "\nRecorded elsewhere, as ratios to a bare call there: Vulkan loader trampoline 1.1; tvm-ffi raw C call\n"
            "1.1, packed Function 2.1, typed tensors 8.7; FlexiBLAS wrapper 2.3; libtorch 1.13 typed 8.3, boxed 26;\n"
            "TE-FL OpManager.call 13,000.\n");
    }

  private:
    double median(const std::string &name) {
        std::vector<double> &times = rounds_[name];
        if (times.empty()) {
            return 0;
        }
        std::sort(times.begin(), times.end());
        return times[times.size() / 2];
    }

    std::map<std::string, std::vector<double>> rounds_;
};

} // namespace

int main(int argc, char **argv) {
    // glibc and libstdc++ take shortcuts in a process that has never had a second thread.
    std::thread([] {}).join();
    std::vector<std::string> defaults = {argv[0], "--benchmark_repetitions=15", "--benchmark_min_time=0.05",
                                         "--benchmark_enable_random_interleaving=true"};
    std::vector<char *> arguments;
    for (std::string &text : defaults) {
        arguments.push_back(text.data());
    }
    arguments.insert(arguments.end(), argv + 1, argv + argc);
    int count = static_cast<int>(arguments.size());
    benchmark::Initialize(&count, arguments.data());
    RatioReporter reporter;
    benchmark::RunSpecifiedBenchmarks(&reporter);
    return 0;
}
