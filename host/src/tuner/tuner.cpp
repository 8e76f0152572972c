#include "tuner/tuner.hpp"

#include <algorithm>
#include <memory>

#include <spdlog/fmt/fmt.h>

#include "dispatch/attempt.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t exhaustive_rounds = 7;
constexpr size_t final_rounds = 15;
// To win, a config must be faster by needed_gain in the median and faster in needed_rounds of the
// final rounds: by chance that happens to one in 57 that are no faster.
constexpr double needed_gain = 0.02;
constexpr size_t needed_rounds = 12;

double median_of(std::vector<double> values) {
    if (values.empty()) {
        return 0;
    }
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double spread_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const double median = values[values.size() / 2];
    return median > 0 ? (values[values.size() * 3 / 4] - values[values.size() / 4]) / median : 0;
}

struct Runner {
    TimedConfig timed;
    std::unique_ptr<Attempt> attempt;
    size_t runs = 1;
    std::vector<double> samples;

    bool is_timed() const { return timed.outcome == TimedConfig::Outcome::timed; }
    void fail(TimedConfig::Outcome outcome, std::string reason) {
        timed.outcome = outcome;
        timed.reason = std::move(reason);
        samples.clear();
    }
};

class Search {
  public:
    Search(RepeatedCall &call, Deployment &deployment, const TuneOptions &options)
        : call_(call), deployment_(deployment), options_(options) {}

    TuneResult run(const TuneTask &task) {
        TuneResult result;
        result.key = task.key;
        result.key_text = task.key_text;
        result.dtypes = task.dtypes;
        start(result, task);
        if (options_.strategy == TuneOptions::Strategy::exhaustive) {
            time_all();
        } else {
            halve();
        }
        finish(result);
        return result;
    }

  private:
    double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

    // Returns false when it is time to stop.
    bool go_on() {
        if (!stopped_ && options_.progress &&
            !options_.progress({done_, std::max(total_, done_), seconds(), options_.budget})) {
            stopped_ = true;
        }
        return !stopped_ && seconds() < options_.budget;
    }

    // The config in force computes the reference; each of the others is run once and compared.
    void start(TuneResult &result, const TuneTask &task) {
        RepeatedCall::Ready first = call_.prepare(deployment_, nullptr);
        if (first.refused.empty()) {
            first.refused = call_.learn(*first.attempt);
        }
        if (!first.refused.empty()) {
            throw Error(OPDOCK_UNSUPPORTED,
                        fmt::format("the call does not run with the config in force: {}", first.refused));
        }
        result.before_source = first.attempt->chosen.source;
        std::vector<TuneConfig> configs = task.candidates;
        std::erase(configs, first.attempt->chosen.config);
        total_ =
            (configs.size() + 1) * (options_.strategy == TuneOptions::Strategy::exhaustive ? exhaustive_rounds : 3) +
            2 * final_rounds;
        runners_.push_back(std::make_unique<Runner>());
        runners_.back()->timed.config = first.attempt->chosen.config;
        runners_.back()->attempt = std::move(first.attempt);
        runners_.back()->runs = call_.runs_of(*runners_.back()->attempt);
        measure(*runners_.back());
        for (const TuneConfig &config : configs) {
            if (go_on()) {
                admit(config);
            } else {
                drop(config, TimedConfig::Outcome::left_out, "the time was up");
                cut_ = true;
            }
        }
    }

    void drop(const TuneConfig &config, TimedConfig::Outcome outcome, std::string reason) {
        dropped_.push_back({config, outcome, std::move(reason)});
    }

    // Adds it to the race if it runs and its results are right.
    void admit(const TuneConfig &config) {
        RepeatedCall::Ready ready = call_.prepare(deployment_, &config);
        RepeatedCall::Verdict verdict{std::move(ready.refused), {}};
        if (verdict.is_right()) {
            verdict = call_.check(*ready.attempt, 1);
        }
        if (!verdict.refused.empty()) {
            return drop(config, TimedConfig::Outcome::refused, std::move(verdict.refused));
        }
        if (!verdict.wrong.empty()) {
            return drop(config, TimedConfig::Outcome::wrong, std::move(verdict.wrong));
        }
        auto runner = std::make_unique<Runner>();
        runner->timed.config = config;
        runner->attempt = std::move(ready.attempt);
        try {
            runner->runs = call_.runs_of(*runner->attempt);
        } catch (const Error &error) { // it failed on the second run
            return drop(config, TimedConfig::Outcome::refused, error.what());
        }
        measure(*runner);
        runners_.push_back(std::move(runner));
    }

    // Drops a config that fails now; a failure of the config in force ends tuning.
    void measure(Runner &runner) {
        ++done_;
        if (!runner.is_timed()) {
            return;
        }
        try {
            runner.samples.push_back(call_.sample(*runner.attempt, runner.runs));
        } catch (const Error &error) {
            if (&runner == runners_.front().get()) {
                throw;
            }
            runner.fail(TimedConfig::Outcome::refused, error.what());
        }
    }

    void time_all() {
        for (size_t round = 1; round < exhaustive_rounds; ++round) {
            for (const auto &runner : runners_) {
                if (!go_on()) {
                    cut_ = true;
                    return;
                }
                measure(*runner);
            }
        }
    }

    void halve() {
        std::vector<Runner *> alive;
        for (const auto &runner : runners_) {
            alive.push_back(runner.get());
        }
        for (size_t samples = 2; alive.size() > 2; samples *= 2) {
            for (size_t i = 0; i < samples; ++i) {
                for (Runner *runner : alive) {
                    if (!go_on()) {
                        cut_ = true;
                        return;
                    }
                    measure(*runner);
                }
            }
            std::erase_if(alive, [](const Runner *runner) { return runner->samples.empty(); });
            std::stable_sort(alive.begin(), alive.end(), [](const Runner *a, const Runner *b) {
                return median_of(a->samples) < median_of(b->samples);
            });
            alive.resize((alive.size() + 1) / 2);
        }
    }

    Runner &fastest() {
        Runner *best = runners_.front().get();
        for (const auto &runner : runners_) {
            if (!runner->samples.empty() && median_of(runner->samples) < median_of(best->samples)) {
                best = runner.get();
            }
        }
        return *best;
    }

    // Times it interleaved with the config in force; true if it wins clearly.
    bool wins(Runner &one) {
        Runner &before = *runners_.front();
        std::vector<double> of_before;
        std::vector<double> of_one;
        size_t rounds_won = 0;
        for (size_t round = 0; round < final_rounds; ++round) {
            of_before.push_back(call_.sample(*before.attempt, before.runs));
            try {
                of_one.push_back(call_.sample(*one.attempt, one.runs));
            } catch (const Error &error) {
                one.fail(TimedConfig::Outcome::refused, error.what());
                break;
            }
            rounds_won += of_one.back() < of_before.back() ? 1 : 0;
            done_ += 2;
            if (options_.progress && !stopped_) {
                stopped_ = !options_.progress({done_, std::max(total_, done_), seconds(), options_.budget});
            }
        }
        before.samples = std::move(of_before);
        if (!one.is_timed()) {
            return false;
        }
        one.samples = std::move(of_one);
        return rounds_won >= needed_rounds && median_of(one.samples) < (1 - needed_gain) * median_of(before.samples);
    }

    // Checks again after the many timed runs: some are right only the first time.
    void check_again(Runner &runner) {
        RepeatedCall::Verdict verdict = call_.check(*runner.attempt, runner.runs);
        if (!verdict.refused.empty()) {
            runner.fail(TimedConfig::Outcome::refused, std::move(verdict.refused));
        } else if (!verdict.wrong.empty()) {
            runner.fail(TimedConfig::Outcome::wrong, std::move(verdict.wrong));
        }
    }

    // The fastest of those that win and are still right.
    Runner &winner() {
        Runner &before = *runners_.front();
        for (Runner *best = &fastest(); best != &before; best = &fastest()) {
            const bool is_faster = wins(*best);
            if (is_faster) {
                check_again(*best);
            }
            if (best->is_timed()) {
                return is_faster ? *best : before;
            }
        }
        return before;
    }

    void finish(TuneResult &result) {
        Runner &before = *runners_.front();
        Runner *best = &winner();
        for (const auto &runner : runners_) {
            if (!runner->samples.empty()) {
                runner->timed.median = median_of(runner->samples);
                runner->timed.spread = spread_of(runner->samples);
                runner->timed.samples = runner->samples.size();
            }
            result.tried.push_back(runner->timed);
        }
        std::move(dropped_.begin(), dropped_.end(), std::back_inserter(result.tried));
        std::stable_partition(result.tried.begin(), result.tried.end(),
                              [](const TimedConfig &one) { return one.outcome == TimedConfig::Outcome::timed; });
        result.before = before.timed;
        result.best = best->timed;
        result.is_complete = !cut_ && !stopped_;
        const RepeatedCall::Verdict last = call_.check(*before.attempt, 1); // leaves its results in the outputs
        call_.synchronize();
        result.seconds = seconds();
        if (!last.is_right()) {
            throw Error(OPDOCK_FAILED,
                        "after the other configs ran, the config in force no longer computes the same: " +
                            last.refused + last.wrong);
        }
    }

    RepeatedCall &call_;
    Deployment &deployment_;
    const TuneOptions &options_;
    const Clock::time_point began_ = Clock::now();
    std::vector<std::unique_ptr<Runner>> runners_; // the first one is the config in force without tuning
    std::vector<TimedConfig> dropped_;             // those that never were in the race
    size_t done_ = 0;
    size_t total_ = 0;
    bool stopped_ = false; // by the progress callback
    bool cut_ = false;     // some timed less often than planned
};

} // namespace

TuneResult tune(CallHost &host, Deployment &deployment, const TunedCall &call, const TuneTask &task,
                const TuneOptions &options) {
    if (task.candidates.empty()) {
        throw Error(
            OPDOCK_UNSUPPORTED,
            task.section == nullptr
                ? fmt::format("no tune file has configs of '{}' for these dtypes on this device",
                              deployment.implementation().impl_id)
                : fmt::format("where leaves no config of '{}' for this shape", deployment.implementation().impl_id));
    }
    if (host.devices().is_capturing(call.shape.device, call.stream)) {
        throw Error(OPDOCK_UNSUPPORTED, "the stream is being captured");
    }
    RepeatedCall repeated(host, call, options.cold);
    return Search(repeated, deployment, options).run(task);
}

void keep(CallHost &host, Deployment &deployment, const TuneTask &task, const TuneResult &result) {
    DeploymentTuning &tuning = *deployment.tuning();
    tuning.take(task, result.best.config, result.best.median, result.before.median);
    host.configs().database().write(tuning.identity(),
                                    {{task.section->space, task.dtypes, task.key,
                                      config_text(deployment.implementation().knobs, result.best.config),
                                      result.best.median, result.before.median}});
}

} // namespace opdock::core
