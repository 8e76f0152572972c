// Each allocation of an operation fails once, alone or with all that follow it. Each attempt runs in a forked child, so
// that a crash does not affect the next attempt, and no caches are warm that would not be in reality.
//
// Listing (describe, explain) is left out: it makes nlohmann's JSON values, whose destructor allocates and ends the
// process if there is no memory.
#include <algorithm>
#include <ctime>
#include <functional>
#include <iterator>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>

#include "child_report.hpp"
#include "failing_allocator.hpp"
#include "installation.hpp"
#include "stress.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace opdock::stress {
namespace {

using HostPtr = std::unique_ptr<core::Host>;

// Two plugins for an op, a policy file, and another module.
class Place {
  public:
    Place()
        : plugins_{installed.plugin("libgood.so", "libone.so"), installed.plugin("libsecond_vendor.so", "libtwo.so")} {
        late = installed.plugin("libscaler.so", "libthree.so");
        installed.plugin("libgood.so", "warm-up.so");
    }
    HostPtr host() const {
        core::RawEnvironment environment = installed.environment();
        environment.emplace("PLUGIN_CONFIG", (installed.folder() / "policy.yaml").string());
        return quiet_host(environment, plugins_);
    }
    void write_policy(const char *prefer) const {
        FILE *const file = std::fopen((installed.folder() / "policy.yaml").c_str(), "w");
        std::fprintf(file, "prefer: %s\nper_op:\n  fixture.add: [vendor:globex, vendor]\n", prefer);
        std::fclose(file);
    }

    const Installation installed;
    std::string late;

  private:
    std::vector<std::string> plugins_;
};

constexpr std::int64_t blocks_of_registry = 6;
constexpr std::int64_t blocks_of_plugin = 16;

struct Operation {
    const char *name;
    bool with_cache;
    bool with_host; // opened before the operation
    // Objects that may remain beyond those of a run without failures: registries that plugins may have kept, one for
    // each run of their entry, and plugins that were opened because they could not be tried.
    int registries;
    int plugins;
    std::function<void(const Place &, HostPtr &)> run;
};

const Operation operations[] = {
    {"open", false, false, 0, 2, [](const Place &place, HostPtr &host) { host = place.host(); }},
    {"open, all cached", true, false, 0, 0, [](const Place &place, HostPtr &host) { host = place.host(); }},
    {"first call", true, true, 1, 0,
     [](const Place &, HostPtr &host) {
         const float added = added_by(Op(&host->op("fixture.add")));
         if (added != 200 && added != 100) {
             throw std::runtime_error(opdock_last_error());
         }
     }},
    {"load", false, true, 0, 1, [](const Place &place, HostPtr &host) { host->load(place.late); }},
    {"reload of the policy", true, true, 0, 0, [](const Place &, HostPtr &host) { host->reload_policy(); }},
    {"policy of the program", true, true, 0, 0,
     [](const Place &, HostPtr &host) {
         const core::Setting setting{"deny_vendors", "globex"};
         host->set_program_policy(std::make_shared<const core::Policy>(host->make_policy(std::span(&setting, 1))));
     }},
    {"prepare", true, true, 1, 0,
     [](const Place &, HostPtr &host) {
         float numbers[] = {1, 2};
         const Tensor tensor(numbers, f32, {2});
         float sums[] = {0, 0};
         const Tensor output(sums, f32, {2});
         const auto prepared = Op(&host->op("fixture.add")).prepare({&tensor, &tensor}, {&output});
     }},
};

std::int64_t open_descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

void expect_serving(core::Host &host, const char *when, ChildReport &report) {
    if (added_by(Op(&host.op("fixture.add"))) < 100) {
        report.say(std::string(when) + " calls are not served: " + opdock_last_error());
    }
    const auto described = host.describe();
    for (const auto &plugin : described["plugins"]) {
        if (plugin["status"] != "loaded") {
            report.say(std::string(when) + " a plugin is not loaded: " + plugin.dump());
        }
    }
}

// Runs the operation with one failure, and then everything once more without.
void attempt(const Place &place, const Operation &operation, std::uint64_t nth, Failing how, ChildReport &report) {
    place.write_policy("vendor");
    if (!operation.with_cache) {
        place.installed.remove_cache();
    }
    const std::int64_t blocks = live_blocks();
    const std::int64_t descriptors = open_descriptors();
    {
        HostPtr host = operation.with_host ? place.host() : nullptr;
        place.write_policy("reference");
        fail_allocation(nth, how);
        try {
            operation.run(place, host);
            report.allocations = stop_failing_allocations();
        } catch (const std::exception &exception) {
            report.allocations = stop_failing_allocations();
            if (*exception.what() == '\0') {
                report.say("an error without a word");
            }
            if (nth == 0) {
                report.say(std::string("without any failure it throws: ") + exception.what());
            }
        }
        if (operation.with_host) {
            expect_serving(*host, "in the same host", report);
            host->reload_policy();
        }
    }
    {
        const auto host = place.host();
        expect_serving(*host, "in the next host", report);
    }
    report.blocks = live_blocks() - blocks;
    report.descriptors = open_descriptors() - descriptors;
#ifdef __SANITIZE_ADDRESS__
    if (__lsan_do_recoverable_leak_check() != 0) {
        report.say("memory was lost");
    }
#endif
}

void check(Stress &stress) {
    const Place place;
    place.write_policy("vendor");
    { // made once per process; without the plugins that the children open
        const auto warm =
            quiet_host(place.installed.environment(), {(place.installed.folder() / "plugins/warm-up.so").string()});
        (void)added_by(Op(&warm->op("fixture.add")));
        (void)warm->describe();
        (void)Op(&warm->op("fixture.add")).try_call({}, {}); // the thread keeps the text of its last error
        const std::time_t now = std::time(nullptr);
        (void)std::localtime(&now); // used by spdlog to report that it cannot log
    }
    std::uint64_t points = 0;
    std::string counts;
    for (const Operation &operation : operations) {
        { const auto fill = place.host(); }
        const ChildReport whole =
            in_child([&](ChildReport &report) { attempt(place, operation, 0, Failing::once, report); });
        if (whole.violation[0] != '\0') {
            stress.violated(std::string(operation.name) + ", nothing fails: " + whole.violation.data());
            continue;
        }
        // All of them, or that many spread evenly; other runs meet those that this one leaves out.
        const std::uint64_t step =
            std::max<std::uint64_t>(1, whole.allocations / std::max<std::uint64_t>(1, stress.rounds));
        counts += std::string(counts.empty() ? "" : ", ") + operation.name + " " + std::to_string(whole.allocations);
        for (std::uint64_t nth = 1 + stress.below(step); nth <= whole.allocations + 1; nth += step) {
            for (const Failing how : {Failing::once, Failing::from_then_on}) {
                const ChildReport found =
                    in_child([&](ChildReport &report) { attempt(place, operation, nth, how, report); });
                const auto violated = [&](const std::string &what) {
                    stress.violated(std::string(operation.name) + ", allocation " + std::to_string(nth) +
                                    (how == Failing::once ? "" : " and all after it") + ": " + what);
                };
                ++points;
                if (found.violation[0] != '\0') {
                    violated(found.violation.data());
                } else if (found.blocks > whole.blocks + operation.registries * blocks_of_registry +
                                              operation.plugins * blocks_of_plugin) {
                    violated(std::to_string(found.blocks) + " blocks are left, " + std::to_string(whole.blocks) +
                             " without a failure");
                } else if (found.descriptors > whole.descriptors) {
                    violated(std::to_string(found.descriptors - whole.descriptors) + " descriptors more are open");
                }
            }
            stress.progress(nth, whole.allocations);
        }
    }
    stress.checked(std::to_string(points) + " failures tried; allocations: " + counts);
}

} // namespace

const Claim allocation = {
    "allocation",
    "Whichever allocation of opening, calling, loading or reloading fails: no leak, no crash, and a "
    "clear error or success.",
    1'000'000, check};

} // namespace opdock::stress
