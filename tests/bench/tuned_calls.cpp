// Cost of the config lookup in a validated call: calls of a plugin with a tune file (a pinned config, and one from the
// database) compared with the same plugin without one. Interleaved; medians over rounds.
//
//     cmake --preset release -DOPDOCK_BUILD_BENCHMARKS=ON && cmake --build build/release --target tuned-calls
//     build/release/tests/bench/tuned-calls
//
// "repeated" is a call that its thread made before. "new shape" cycles through more shapes than a thread remembers, so
// that each call is validated, resolved and made ready, which includes the config lookup.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "opdock/opdock.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int rounds = 41;
constexpr const char *configs =
    "schema: opdock.tune/1\nops:\n  fixture.knobs:\n    key: {n: exact}\n    configs: [{block: 1}, "
    "{block: 2}]\n";

// A host with a copy of the plugin, and calls with more shapes than a thread remembers.
class Subject {
  public:
    Subject(const std::filesystem::path &folder, const std::string &tune_file, const std::string &imported) {
        std::filesystem::create_directories(folder);
        const std::string plugin = (folder / "libtunable.so").string();
        std::filesystem::copy_file(TUNABLE_PLUGIN, plugin);
        if (!tune_file.empty()) {
            std::ofstream(folder / "tunable.tune.yaml") << tune_file;
        }
        const auto open = [&] {
            host_ = std::make_unique<opdock::Host>(
                opdock::Options{.modules = {plugin}, .log = [](int32_t, std::string_view) {}});
        };
        open();
        if (!imported.empty()) {
            host_->import_tuning(imported, "imported.yaml");
            open();
        }
        op_ = std::make_unique<opdock::Op>(host_->op("fixture.knobs"));
    }

    // Nanoseconds per call.
    double repeated() { return timed(20'000, 1); }
    double new_shape() { return timed(2'048, shapes); }
    int64_t block() {
        call(0);
        return values_[0];
    }

  private:
    static constexpr size_t shapes = 64;

    void call(size_t shape) {
        const opdock::Tensor x(input_.data(), opdock::f32, {1, static_cast<int64_t>(shape) + 1});
        const opdock::Tensor y(values_.data(), opdock::i64, {3});
        (*op_)({x}, {y});
    }

    double timed(size_t calls, size_t different) {
        const auto begin = Clock::now();
        for (size_t i = 0; i < calls; ++i) {
            call(i % different);
        }
        return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / static_cast<double>(calls);
    }

    std::unique_ptr<opdock::Host> host_;
    std::unique_ptr<opdock::Op> op_;
    std::array<float, 64> input_ = {};
    std::array<int64_t, 3> values_ = {};
};

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + rounds / 2, values.end());
    return values[rounds / 2];
}

} // namespace

int main() {
    std::string pattern = (std::filesystem::temp_directory_path() / "opdock-bench-XXXXXX").string();
    const std::filesystem::path folder = mkdtemp(pattern.data());
    setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    std::string pins = "    pinned:\n";
    for (int n = 1; n <= 64; ++n) {
        pins += "      - {key: {n: " + std::to_string(n) + "}, config: {block: 2}}\n";
    }
    const std::string results =
        "schema: opdock.tune/1\nops:\n  fixture.knobs:\n    dtypes: f32\n    key: {n: exact}\n" + pins;
    const std::array<const char *, 3> names = {"no tune file", "pinned", "database"};
    std::array<Subject, 3> subjects = {Subject(folder / "without", "", ""),
                                       Subject(folder / "pinned", configs + pins, ""),
                                       Subject(folder / "database", configs, results)};
    std::array<std::vector<double>, 3> repeated;
    std::array<std::vector<double>, 3> new_shape;
    for (int round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < subjects.size(); ++i) {
            repeated[i].push_back(subjects[i].repeated());
            new_shape[i].push_back(subjects[i].new_shape());
        }
    }
    std::printf("%-14s %8s %16s %16s\n", "config from", "block", "repeated ns", "new shape ns");
    for (size_t i = 0; i < subjects.size(); ++i) {
        std::printf("%-14s %8lld %8.1f (%+.1f) %8.0f (%+.0f)\n", names[i], static_cast<long long>(subjects[i].block()),
                    median(repeated[i]), median(repeated[i]) - median(repeated[0]), median(new_shape[i]),
                    median(new_shape[i]) - median(new_shape[0]));
    }
    std::filesystem::remove_all(folder);
}
