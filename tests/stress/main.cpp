// One program for all claims, because they share the host, which is large.
#include "stress.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include <unistd.h>

namespace opdock::stress {

void Stress::progress(std::uint64_t done, std::uint64_t of) {
    static const bool terminal = isatty(STDERR_FILENO) == 1;
    if (terminal && of > 0 && done % std::max<std::uint64_t>(1, of / 200) == 0) {
        std::fprintf(stderr, "\r%llu of %llu", static_cast<unsigned long long>(done),
                     static_cast<unsigned long long>(of));
        on_a_line_ = true;
    }
}

void Stress::violated(const std::string &what) {
    constexpr std::uint64_t shown = 20;
    if (++violations_ <= shown) {
        std::fprintf(stderr, "%sviolated: %s\n", on_a_line_ ? "\n" : "", what.c_str());
    } else if (violations_ == shown + 1) {
        std::fprintf(stderr, "more violations are only counted\n");
    }
    on_a_line_ = false;
}

namespace {

const Claim *const claims[] = {
    &truncation,   &corruption, &failed_loads, &cache_kill,
#ifndef __SANITIZE_THREAD__ // ThreadSanitizer's run-time library does not support these changes to the C library
    &allocation,   &io_errors,
#endif
    &policy_flips, &forks,
};

int usage(FILE *to) {
    std::fputs("usage: stress CLAIM [--rounds N] [--seed S]\n"
               "\n"
               "Does something very often and says what came of it; exits with 1 when the claim does not hold.\n"
               "Without --seed a new one is taken, and printed.\n"
               "\n",
               to);
    for (const Claim *claim : claims) {
        std::fprintf(to, "  %-14s %s\n                 (%llu rounds)\n", claim->name, claim->says,
                     static_cast<unsigned long long>(claim->rounds));
    }
    return to == stdout ? 0 : 2;
}

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Restarts the program without malloc's per-thread cache. Cached blocks count as in use, which makes the heap of a
// program that frees everything grow by up to 70 KB.
void leave_out_thread_cache(char **argv) {
    constexpr const char *tunable = "glibc.malloc.tcache_count=0";
    const char *given = std::getenv("GLIBC_TUNABLES"); // NOLINT(concurrency-mt-unsafe): the only thread
    if (given != nullptr && std::strstr(given, "tcache_count") != nullptr) {
        return;
    }
    const std::string tunables = given == nullptr ? tunable : std::string(given) + ":" + tunable;
    setenv("GLIBC_TUNABLES", tunables.c_str(), 1); // NOLINT(concurrency-mt-unsafe)
    execv("/proc/self/exe", argv);
    std::perror("stress: starting over");
}

int run(const Claim &claim, std::uint64_t rounds, std::uint32_t seed) {
    std::printf("stress %s --rounds %llu --seed %u\n", claim.name, static_cast<unsigned long long>(rounds), seed);
    std::fflush(stdout); // before anything forks
    const auto begin = std::chrono::steady_clock::now();
    Stress stress(rounds, seed);
    try {
        claim.check(stress);
    } catch (const std::exception &exception) {
        stress.violated(std::string("it ended early: ") + exception.what());
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (isatty(STDERR_FILENO) == 1) {
        std::fputs("\r", stderr);
    }
    std::printf("%s: %s; %llu violations; %.1f s\n", claim.name, stress.summary().c_str(),
                static_cast<unsigned long long>(stress.violations()), took.count());
    return stress.violations() == 0 ? 0 : 1;
}

int main_of(int argc, char **argv) {
    if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
        return usage(stdout);
    }
    const Claim *wanted = nullptr;
    for (const Claim *claim : claims) {
        wanted = argc > 1 && std::strcmp(argv[1], claim->name) == 0 ? claim : wanted;
    }
    if (wanted == nullptr) {
        return usage(stderr);
    }
    std::uint64_t rounds = wanted->rounds;
    std::uint32_t seed = std::random_device()();
    for (int i = 2; i < argc; i += 2) {
        const std::string_view option = argv[i];
        if (option == "--help") {
            return usage(stdout);
        }
        const std::optional<std::uint64_t> value = i + 1 < argc ? number(argv[i + 1]) : std::nullopt;
        if (!value || (option != "--rounds" && option != "--seed")) {
            return usage(stderr);
        }
        if (option == "--rounds") {
            rounds = *value;
        } else {
            seed = static_cast<std::uint32_t>(*value);
        }
    }
    return run(*wanted, rounds, seed);
}

} // namespace
} // namespace opdock::stress

int main(int argc, char **argv) {
    opdock::stress::leave_out_thread_cache(argv);
    return opdock::stress::main_of(argc, argv);
}
