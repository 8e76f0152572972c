// System calls on the cache's files and on a probe's channel fail: each call of each kind, once or for good. A host
// still opens and serves a call, and the next process finds nothing wrong.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "child_report.hpp"
#include "failing_calls.hpp"
#include "installation.hpp"
#include "probe/scan_cache.hpp"
#include "stress.hpp"

namespace opdock::stress {
namespace {

using test::MadeHost;

constexpr std::array<int, 5> codes = {ENOSPC, EIO, EROFS, EMFILE, EINTR};

struct Failure {
    Call call;
    std::uint64_t nth;
    int code;
    bool again; // the calls after it fail, too
    bool with_cache;

    std::string text() const {
        return std::string(name_of(call)) + " number " + std::to_string(nth) + (again ? " and later ones" : "") +
               " with " + strerrorname_np(code) + (with_cache ? ", to a cache with rows" : ", no cache yet");
    }
};

void expect_served(MadeHost &host, const char *who, ChildReport &report) {
    if (added_by(host.op("fixture.add")) < 100) {
        report.say(std::string(who) + " does not serve a call: " + opdock_last_error());
    }
    const auto described = host->describe();
    for (const auto &plugin : described["plugins"]) {
        if (plugin["status"] != "loaded") {
            report.say(std::string(who) + " has not loaded " + plugin.dump());
        }
    }
}

// Expects at most one warning per cause, and no others.
void expect_few_warnings(const MadeHost &host, ChildReport &report) {
    std::int64_t of_cache = host.logged("The cache of scanned plugins is not used");
    std::int64_t of_probe = host.logged("is opened without being tried");
    std::int64_t of_journal = host.logged("The journal of opened plugins is not kept");
    std::int64_t all = host.logged("[warning] ") + host.logged("[error] ");
    if (of_cache > 1 || of_probe > 1 || of_journal > 1 || all != of_cache + of_probe + of_journal) {
        std::string lines;
        for (const std::string &line : host.log()) {
            lines += "\n  " + line;
        }
        report.say("warnings are given more than once, or for nothing:" + lines);
    }
}

void attempt(const Installation &place, const std::vector<std::string> &plugins, const Failure &failure,
             ChildReport &report) {
    const std::string folder = place.cache_home().string() + "/opdock";
    place.remove_cache();
    if (failure.with_cache) {
        (void)quiet_host(place.environment(), {plugins[0]});
    }
    {
        // SQLite waits up to 10 s for locks, whatever their error.
        const bool passes = failure.code == EINTR || failure.call == Call::lock;
        const std::uint64_t more = !failure.again ? 0 : passes ? 10 : 1'000'000;
        fail_call(failure.call, failure.nth, more, failure.code, folder);
        MadeHost host(place.environment(), "/nonexistent", {plugins.back()});
        const float added = added_by(host.op("fixture.add"));
        report.allocations = stop_failing_calls(); // of calls of that kind
        if (added < 100) {
            report.say(std::string("the call is not served: ") + opdock_last_error());
        }
        expect_served(host, "the host", report);
        expect_few_warnings(host, report);
    }
    {
        MadeHost next(place.environment(), "/nonexistent", {plugins.back()});
        expect_served(next, "the next host", report);
        if (next.logged("[warning] ") != 0) {
            report.say("the next host warns");
        }
    }
    const core::Log none([](void *, std::int32_t, const char *) {}, nullptr);
    const core::ScanCache cache(folder, none);
    if (failure.with_cache && !cache.find_any(plugins[0])) {
        report.say("what the cache had is lost");
    }
    if (!cache.find_any(plugins.back())) {
        report.say("the cache is not used any more");
    }
    if (std::filesystem::exists(folder + "/scans.sqlite.damaged")) {
        report.say("the cache was set aside as damaged");
    }
}

void check(Stress &stress) {
    const Installation place;
    const std::vector<std::string> plugins = {place.plugin("libscaler.so", "libfirst.so"),
                                              place.plugin("libgood.so", "libsecond.so")};
    std::vector<Failure> failures;
    std::string counts;
    for (const bool with_cache : {false, true}) {
        for (int call = 0; call < static_cast<int>(Call::count); ++call) {
            const Failure none = {static_cast<Call>(call), 0, EIO, false, with_cache};
            const ChildReport whole = in_child([&](ChildReport &report) { attempt(place, plugins, none, report); });
            if (whole.violation[0] != '\0') {
                stress.violated(std::string("nothing fails: ") + whole.violation.data());
            }
            counts += (counts.empty() ? "" : ", ") + std::string(name_of(none.call)) + " " +
                      std::to_string(whole.allocations);
            for (std::uint64_t nth = 1; nth <= whole.allocations; ++nth) {
                for (const int code : codes) {
                    failures.push_back({none.call, nth, code, false, with_cache});
                    failures.push_back({none.call, nth, code, true, with_cache});
                }
            }
        }
    }
    std::shuffle(failures.begin(), failures.end(), stress.random);
    failures.resize(std::min<std::uint64_t>(failures.size(), stress.rounds));
    for (std::size_t i = 0; i < failures.size(); ++i) {
        const ChildReport found = in_child([&](ChildReport &report) { attempt(place, plugins, failures[i], report); });
        if (found.violation[0] != '\0') {
            stress.violated(failures[i].text() + ": " + found.violation.data());
        }
        stress.progress(i, failures.size());
    }
    stress.checked(std::to_string(failures.size()) +
                   " failures of ENOSPC, EIO, EROFS, EMFILE and EINTR; calls: " + counts);
}

} // namespace

const Claim io_errors = {
    "io-errors",
    "Whatever fails on the cache and the probe's channel: hosts open, calls are served, each cause "
    "is one warning, and the cache stays.",
    1'000'000, check};

} // namespace opdock::stress
