#include "race.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "contender.hpp"

namespace opdock::plugin_bench {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = Timing::Outcome;

// Fewer rounds say nothing about the spread.
constexpr size_t fewest_rounds = 3;

class Race {
  public:
    Race(Rotation &rotation, const RaceOptions &options, std::vector<Timing> &timings)
        : rotation_(rotation), options_(options), timings_(timings) {}

    void enter(const Host &host, const std::string &op, const op_call::PlacedCall &call, DLDevice device) {
        for (Timing &timing : timings_) {
            try {
                runners_.push_back({timing, std::make_unique<Contender>(host, op, timing.impl_id, call, device)});
            } catch (const Error &error) {
                fail(timing, Outcome::declined, error.what());
            }
        }
        total_ = runners_.size() * (options_.rounds + 1);
    }

    void run() {
        for (Runner &runner : runners_) {
            if (go_on()) {
                warm_up(runner);
            }
        }
        // Each round starts with a different runner, so that none always follows the same one.
        for (size_t round = 0; round < options_.rounds && (round < fewest_rounds || seconds() < options_.seconds);
             ++round) {
            for (size_t i = 0; i < runners_.size(); ++i) {
                Runner &runner = runners_[(round + i) % runners_.size()];
                if (!go_on()) {
                    return;
                }
                if (runner.races && runner.timing.outcome == Outcome::timed) {
                    measure(runner);
                }
            }
        }
    }

    void finish() {
        for (Timing &timing : timings_) {
            if (timing.outcome == Outcome::timed && timing.samples.empty()) {
                fail(timing, Outcome::skipped, "interrupted");
            }
        }
    }

  private:
    struct Runner {
        Timing &timing;
        std::unique_ptr<Contender> contender;
        bool races = false;
    };

    static void fail(Timing &timing, Outcome outcome, std::string reason) {
        timing.outcome = outcome;
        timing.reason = std::move(reason);
        timing.samples.clear();
    }

    double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

    bool go_on() { return options_.go_on(std::min(done_++, total_), total_, seconds()); }

    double sample(Runner &runner, size_t runs) {
        try {
            return runner.contender->sample(rotation_, runs);
        } catch (const Error &error) {
            fail(runner.timing,
                 error.status() == OPDOCK_UNSUPPORTED && runner.timing.samples.empty() ? Outcome::declined
                                                                                       : Outcome::failed,
                 error.what());
            return 0;
        }
    }

    // The first run absorbs page faults, cold caches and kernel setup; the batch after it absorbs a low clock rate.
    void warm_up(Runner &runner) {
        double once = sample(runner, 1);
        const double share = 1e6 * options_.seconds / static_cast<double>(runners_.size());
        if (runner.timing.outcome == Outcome::timed && once > share) {
            runner.timing.samples.push_back(once);
            return;
        }
        once = std::min(once, sample(runner, 1));
        runner.timing.batch = batch_of(once, options_, runners_.size());
        runner.races = true;
        sample(runner, runner.timing.batch);
    }

    void measure(Runner &runner) {
        const double microseconds = sample(runner, runner.timing.batch);
        if (runner.timing.outcome == Outcome::timed) {
            runner.timing.samples.push_back(microseconds);
        }
    }

    Rotation &rotation_;
    const RaceOptions &options_;
    std::vector<Timing> &timings_;
    std::vector<Runner> runners_;
    const Clock::time_point began_ = Clock::now();
    uint64_t done_ = 0;
    uint64_t total_ = 0;
};

} // namespace

size_t batch_of(double microseconds, const RaceOptions &options, size_t contenders) {
    constexpr double shortest = 300; // minimum batch, long enough for the clock and the launch of the first run
    constexpr double longest = 5000;
    constexpr double most = 100'000;
    const double share = 1e6 * options.seconds / static_cast<double>(options.rounds * std::max<size_t>(contenders, 1));
    const double length = std::clamp(share, shortest, longest);
    return static_cast<size_t>(std::clamp(length / std::max(microseconds, 1e-3), 1.0, most));
}

void race(const Host &host, const std::string &op, const op_call::PlacedCall &call, DLDevice device, Rotation &rotation,
          const RaceOptions &options, std::vector<Timing> &timings) {
    Race race(rotation, options, timings);
    race.enter(host, op, call, device);
    race.run();
    race.finish();
}

} // namespace opdock::plugin_bench
