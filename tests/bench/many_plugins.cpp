// Cost of opening a host with many plugins: cold, when each is tried in a process of its own; warm, when the scan cache
// knows them all; and, for comparison, a plain dlopen of all of them.
//
// Usage: many-plugins [PLUGINS [ROUNDS]], by default 1000 and 5. Each measurement runs in a process of its own; rounds
// are interleaved, and the median is printed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "opdock/opdock.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Makes copies of one plugin that differ only in the number at the end of their ids.
void make_plugins(const std::filesystem::path &folder, int count) {
    std::ifstream file(BENCH_PLUGIN, std::ios::binary);
    const std::string plugin((std::istreambuf_iterator<char>(file)), {});
    const std::string placeholder = "number-0000";
    for (int i = 0; i < count; ++i) {
        std::array<char, 16> number{};
        std::snprintf(number.data(), number.size(), "number-%04d", i);
        std::string copy = plugin;
        for (std::size_t at = 0; (at = copy.find(placeholder, at)) != std::string::npos; at += placeholder.size()) {
            copy.replace(at, placeholder.size(), number.data());
        }
        std::ofstream(folder / (std::string("lib") + number.data() + ".so"), std::ios::binary) << copy;
    }
}

// Returns milliseconds, as measured by the child.
template<class Work>
double in_child(Work work) {
    int ends[2];
    if (pipe(ends) != 0) {
        std::abort();
    }
    const pid_t child = fork();
    if (child == 0) {
        const double taken = work();
        _exit(write(ends[1], &taken, sizeof taken) == sizeof taken ? 0 : 1);
    }
    close(ends[1]);
    double taken = -1;
    int status = 0;
    if (read(ends[0], &taken, sizeof taken) != sizeof taken || waitpid(child, &status, 0) != child || status != 0) {
        std::cerr << "a measurement failed\n";
        std::exit(1);
    }
    close(ends[0]);
    return taken;
}

double open_and_call(const std::string &folder) {
    const auto begin = Clock::now();
    opdock::Options options;
    options.modules = {folder};
    options.log = [](int32_t level, std::string_view line) {
        if (level >= OPDOCK_LOG_WARNING) {
            std::cerr << line << "\n";
        }
    };
    const opdock::Host host(options);
    float in[4] = {1, 2, 3, 4};
    float out[4] = {};
    const opdock::Tensor a(in, opdock::f32, {4});
    const opdock::Tensor b(out, opdock::f32, {4});
    host.op("fixture.add")({&a, &a}, {&b});
    return milliseconds_since(begin);
}

double open_all(const std::filesystem::path &folder) {
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
        files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    const auto begin = Clock::now();
    for (const std::string &file : files) {
        void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr || dlsym(library, "opdock_register") == nullptr) {
            std::cerr << dlerror() << "\n";
            std::exit(1);
        }
    }
    return milliseconds_since(begin);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

} // namespace

int main(int argc, char **argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
    std::string folder = (std::filesystem::temp_directory_path() / "opdock-bench-XXXXXX").string();
    if (count < 1 || count > 9999 || rounds < 1 || mkdtemp(folder.data()) == nullptr) {
        std::cerr << "usage: many-plugins [PLUGINS [ROUNDS]]\n";
        return 2;
    }
    const std::string plugins = folder + "/plugins";
    std::filesystem::create_directory(plugins);
    make_plugins(plugins, count);
    setenv("XDG_CACHE_HOME", (folder + "/cache").c_str(), 1);
    setenv("PLUGIN_MODULES_ONLY", "1", 1);
    setenv("PLUGIN_PREFER", "vendor", 1);

    std::vector<double> cold;
    std::vector<double> warm;
    std::vector<double> plain;
    for (int round = 0; round < rounds; ++round) {
        std::filesystem::remove_all(folder + "/cache");
        cold.push_back(in_child([&] { return open_and_call(plugins); }));
        warm.push_back(in_child([&] { return open_and_call(plugins); }));
        plain.push_back(in_child([&] { return open_all(plugins); }));
    }
    std::printf("%d plugins, median of %d rounds\n", count, rounds);
    std::printf("  cold scan and first call   %8.1f ms  %5.2f of a plain dlopen of all\n", median(cold),
                median(cold) / median(plain));
    std::printf("  warm scan and first call   %8.1f ms  %5.2f\n", median(warm), median(warm) / median(plain));
    std::printf("  plain dlopen of all        %8.1f ms\n", median(plain));
    std::filesystem::remove_all(folder);
}
