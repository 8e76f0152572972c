// Plugins that fail in every way are loaded again and again, into one host and into hosts that do not open because of
// them. Afterwards the process must not hold more resources than before.
#include <algorithm>
#include <fstream>
#include <iterator>

#include <malloc.h>

#include "installation.hpp"
#include "paths.hpp"
#include "stress.hpp"
#include "text/error.hpp"

namespace opdock::stress {
namespace {

struct Held {
    std::int64_t mappings = 0;
    std::int64_t descriptors = 0;
    std::int64_t heap = 0; // bytes
};

Held held() {
    Held now;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
#ifdef __SANITIZE_ADDRESS__ // AddressSanitizer's allocator maps more memory now and then
        now.mappings += line.find('/') != std::string::npos ? 1 : 0;
#else
        ++now.mappings;
#endif
    }
    now.descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    const struct mallinfo2 heap = mallinfo2();
    now.heap = static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
    return now;
}

// Rejected by file, by inspection, by the probe, by registration, and by conflict with others.
constexpr const char *failing[] = {
    "libno_note.so",         "libother_abi.so",         "libbad_note.so", "libneeds_cpu.so",
    "libmissing_library.so", "libunresolved_symbol.so", "libno_entry.so", "libfaults_when_opened.so",
    "libaborts_in_entry.so", "libreturns_error.so",     "libthrows.so",   "libduplicate.so",
    "libmany_faults.so",     "libother_signature.so",   "libsame_id.so",  "libbad_signature.so",
    "libnone-such.so",
};

std::string fixture(const char *name) {
    return (opdock::test::fixtures_folder() / name).string();
}

// Loads each kind once into one host; returns how many failed.
std::uint64_t load_all(Stress &stress, core::Host &host) {
    std::uint64_t failed = 0;
    for (const char *name : failing) {
        try {
            host.load(fixture(name));
            stress.violated(std::string(name) + " was loaded");
        } catch (const core::Error &) {
            ++failed;
        }
    }
    return failed;
}

// Opens a host in strict mode, which fails because of a plugin.
std::uint64_t open_strictly(Stress &stress, core::RawEnvironment environment) {
    environment.emplace("PLUGIN_STRICT", "1");
    try {
        (void)quiet_host(environment, {fixture("libduplicate.so")});
        stress.violated("a strict host opened");
    } catch (const core::Error &) {
        return 1;
    }
    return 0;
}

// A plugin that is refused when it is opened for its first call. Its code ran in this process, so it stays mapped; it
// may have kept the two tables that it was given, so they stay too.
std::uint64_t call_what_fails(Stress &stress, const core::RawEnvironment &environment) {
    const auto host = quiet_host(environment, {fixture("libfails_in_host.so")});
    float in[] = {1};
    float out[] = {0};
    const Tensor a(in, f32, {1});
    const Tensor b(out, f32, {1});
    if (Op(&host->op("badco.next")).try_call({a}, {b}) == OPDOCK_OK) {
        stress.violated("libfails_in_host.so serves a call");
    }
    return 1;
}

// Fails that many times, and compares the resources held at the end with those held after the first few times.
template<class Fail>
void repeat(Stress &stress, std::uint64_t times, const std::string &what, std::int64_t bytes_each, Fail fail_some,
            std::string &said) {
    for (int warm_up = 0; warm_up < 5; ++warm_up) {
        (void)fail_some();
    }
    const Held before = held();
    std::uint64_t failed = 0;
    while (failed < times) {
        failed += fail_some();
        stress.progress(failed, times);
    }
    const Held after = held();
    const auto compare = [&](const char *name, std::int64_t was, std::int64_t is, std::int64_t most) {
        if (is > was + most) {
            stress.violated(what + ": " + std::to_string(is - was) + " " + name + " more after " +
                            std::to_string(failed) + " failures");
        }
    };
    compare("mappings", before.mappings, after.mappings, 0);
    compare("descriptors", before.descriptors, after.descriptors, 0);
    // Strings keep the capacity of their longest value.
    compare("bytes of heap", before.heap, after.heap, 1024 + bytes_each * static_cast<std::int64_t>(failed));
    said += (said.empty() ? "" : "; ") + std::to_string(failed) + " " + what + ": " +
            std::to_string(after.mappings - before.mappings) + " mappings, " +
            std::to_string(after.descriptors - before.descriptors) + " descriptors, " +
            std::to_string(after.heap - before.heap) + " bytes of heap more";
}

void check(Stress &stress) {
    const Installation place;
    const core::RawEnvironment uncached = {{"PLUGIN_SCAN_CACHE", "off"}};
    const core::RawEnvironment cached = place.environment();
    const std::uint64_t few = std::max<std::uint64_t>(1, stress.rounds / 10);
    std::string said;
    {
        const auto host = quiet_host(uncached, {fixture("libgood.so")});
        repeat(
            stress, stress.rounds, "loads", 0, [&] { return load_all(stress, *host); }, said);
    }
    {
        const auto host = quiet_host(cached, {fixture("libgood.so")});
        repeat(
            stress, few, "loads with a scan cache", 0, [&] { return load_all(stress, *host); }, said);
    }
    repeat(
        stress, few, "strict hosts", 0, [&] { return open_strictly(stress, uncached); }, said);
    constexpr std::int64_t both_tables = 2048;
    repeat(
        stress, few, "first calls", both_tables, [&] { return call_what_fails(stress, cached); }, said);
    stress.checked(said);
}

} // namespace

const Claim failed_loads = {"failed-loads", "Failed loads of every kind leave no mapping, descriptor or memory behind.",
                            10'000, check};

} // namespace opdock::stress
