#include "tune/tuner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>

#include <spdlog/fmt/fmt.h>

#include "dispatch/attempt.hpp"
#include "dispatch/workspace.hpp"
#include "host/host.hpp"
#include "load/plugin_call.hpp"
#include "text/error.hpp"
#include "tune/agreement.hpp"
#include "tune/device_memory.hpp"

namespace opdock::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double sample_microseconds = 300; // as many runs as fill this make a sample
constexpr size_t most_runs = 2000;          // of one sample
constexpr size_t exhaustive_rounds = 7;
constexpr size_t final_rounds = 15;
// A config wins that is faster by this in the median, and faster in so many of the final rounds: by chance that happens
// to one of 57 that are no faster.
constexpr double needed_gain = 0.02;
constexpr size_t needed_rounds = 12;
constexpr std::byte garbage{0xa5};

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

// A tensor that the call writes.
struct Written {
    uint32_t tensor;
    uint32_t dtype;
    uint64_t bytes;
    bool is_input; // has to be put back before each run
};

// The call, with its own copies of what it writes.
class Bench {
  public:
    Bench(Host &host, Deployment &deployment, const TunedCall &call, const TuneOptions &options)
        : host_(host), deployment_(deployment), call_(call), options_(options),
          access_(host, call.shape.device, call.stream), begin_(access_), end_(access_) {
        find_written();
        uint64_t most = 0;
        for (const Written &one : written_) {
            most = std::max(most, one.bytes);
            if (one.is_input) {
                kept_.emplace_back(DeviceMemory(access_, one.bytes));
                access_.copy(kept_.back()->get(), call_.data[one.tensor], one.bytes);
            } else {
                kept_.emplace_back();
            }
        }
        garbage_.assign(most, garbage);
        if (options.cold) {
            const opdock_device_properties *properties = host.device_properties(call.shape.device);
            const uint64_t cache = properties != nullptr && properties->cache != 0 ? properties->cache : 64u << 20;
            flushed_.emplace(access_, 4 * cache); // copied from one half to the other
            flush_bytes_ = 2 * cache;
        }
    }

    ~Bench() {
        try {
            put_back(false);
        } catch (...) { // NOLINT(bugprone-empty-catch): the device says so to whoever uses it next
        }
    }
    Bench(const Bench &) = delete;
    Bench &operator=(const Bench &) = delete;

    struct Ready {
        std::unique_ptr<Attempt> attempt;
        std::string refused;
    };

    // Ready to run with this config; null: as the implementation chooses without tuning.
    Ready prepare(const TuneConfig *config) {
        Ready ready;
        ready.attempt = std::make_unique<Attempt>(host_, deployment_);
        ready.attempt->is_tuned = false;
        const opdock_status status = ready.attempt->prepare(call_.shape, true, config);
        if (status != OPDOCK_OK) {
            ready.refused = fmt::format("{}: {}", status_text(status), ready.attempt->reason);
        } else if (!ready.attempt->map.empty()) {
            ready.refused = "it knows a shorter signature of the op";
        } else if (std::string why = ready.attempt->misalignment(call_.shape, call_.data); !why.empty()) {
            ready.refused = why;
        } else {
            std::copy_n(call_.attributes, ready.attempt->attributes.size(), ready.attempt->attributes.begin());
        }
        return ready;
    }

    // One run, from a fresh start, checked. Empty, or why it failed.
    std::string run_once(Attempt &attempt) {
        put_back(true);
        return run(attempt, 1);
    }

    // Everything written, on the host.
    std::vector<std::vector<std::byte>> results() {
        std::vector<std::vector<std::byte>> results;
        for (const Written &one : written_) {
            results.emplace_back(one.bytes);
            access_.copy_to_host(results.back().data(), call_.data[one.tensor], one.bytes);
        }
        return results;
    }

    std::string compare(const std::vector<std::vector<std::byte>> &expected) {
        const auto found = results();
        for (size_t i = 0; i < written_.size(); ++i) {
            if (std::string difference = disagreement(written_[i].dtype, expected[i], found[i]); !difference.empty()) {
                return fmt::format("wrong: in {}, {}", name_of(written_[i].tensor), difference);
            }
        }
        return {};
    }

    // Microseconds of one run, over a sample of `runs`. Throws what fails.
    double sample(Attempt &attempt, size_t runs) {
        put_back(false);
        flush();
        begin_.record();
        const std::string failure = run(attempt, runs);
        end_.record();
        if (!failure.empty()) {
            throw Error(OPDOCK_FAILED, failure);
        }
        return begin_.microseconds_until(end_) / static_cast<double>(runs);
    }

    // How many runs fill a sample.
    size_t runs_of(Attempt &attempt) {
        double once = sample(attempt, 1);
        once = std::min(once, sample(attempt, 1)); // the first one had cold caches, and pages to get
        return options_.cold ? 1
                             : static_cast<size_t>(std::clamp(sample_microseconds / std::max(once, 1e-3), 1.0,
                                                              static_cast<double>(most_runs)));
    }

    const DeviceAccess &access() const { return access_; }

  private:
    std::string name_of(uint32_t tensor) const {
        const CallShape &shape = call_.shape;
        size_t p = 0;
        while (p + 1 < shape.signature->n_params() && shape.first[p + 1] <= tensor) {
            ++p;
        }
        return fmt::format("'{}'", shape.signature->parameter(p).name);
    }

    void find_written() {
        const CallShape &shape = call_.shape;
        for (uint32_t p = 0; p < shape.signature->n_params(); ++p) {
            const bool is_output = p >= shape.signature->inputs.size();
            for (uint32_t t = shape.first[p]; t < shape.first[p + 1]; ++t) {
                const TensorShape &tensor = shape.tensors[t];
                if (tensor.absent || tensor.extent == 0 || call_.data[t] == nullptr) {
                    continue;
                }
                if (!is_output && !shape.signature->parameter(p).mut && !is_overwritten(t)) {
                    continue;
                }
                if (shape.signature->parameter(p).host && !access_.is_host()) {
                    throw Error(OPDOCK_UNSUPPORTED, fmt::format("it writes {} in host memory", name_of(t)));
                }
                if (!tensor.contiguous) {
                    throw Error(OPDOCK_UNSUPPORTED,
                                fmt::format("{} has gaps, which may be another tensor's: what the call writes "
                                            "cannot be put back between runs",
                                            name_of(t)));
                }
                if (is_output && is_written_input(call_.data[t])) {
                    continue;
                }
                written_.push_back({t, opdock_dtype_pack(tensor.tensor.dtype), tensor.extent, !is_output});
            }
        }
    }

    // An input that an output lies on.
    bool is_overwritten(uint32_t input) const {
        const CallShape &shape = call_.shape;
        const auto *begin = static_cast<const char *>(call_.data[input]);
        for (uint32_t t = shape.n_input_tensors; t < shape.n_tensors; ++t) {
            const auto *other = static_cast<const char *>(call_.data[t]);
            if (!shape.tensors[t].absent && other != nullptr && other < begin + shape.tensors[input].extent &&
                begin < other + shape.tensors[t].extent) {
                return true;
            }
        }
        return false;
    }

    bool is_written_input(const void *data) const {
        return std::any_of(written_.begin(), written_.end(),
                           [&](const Written &one) { return one.is_input && call_.data[one.tensor] == data; });
    }

    void put_back(bool with_garbage) {
        for (size_t i = 0; i < written_.size(); ++i) {
            if (written_[i].is_input) {
                access_.copy(call_.data[written_[i].tensor], kept_[i]->get(), written_[i].bytes);
            } else if (with_garbage) {
                access_.copy_from_host(call_.data[written_[i].tensor], garbage_.data(), written_[i].bytes);
            }
        }
    }

    void flush() {
        if (flushed_) {
            auto *half = static_cast<char *>(flushed_->get());
            access_.copy(half + flush_bytes_, half, flush_bytes_);
        }
    }

    std::string run(Attempt &attempt, size_t runs) {
        opdock_args args = {};
        args.stream = call_.stream;
        std::string reason;
        const opdock_status current = host_.make_current(call_.shape.device);
        if (current != OPDOCK_OK) {
            return take_message(current);
        }
        Workspace workspace(attempt, args);
        if (workspace.provide(&reason) != OPDOCK_OK) {
            return reason;
        }
        const opdock_call call{
            OPDOCK_STRUCT_SIZE(opdock_call, workspace_size),           0, call_.data, call_.stream, workspace.memory(),
            workspace.memory() != nullptr ? attempt.workspace_size : 0};
        opdock_status status = OPDOCK_OK;
        const Journal::Open entry = host_.note_first_call(deployment_);
        for (size_t i = 0; i < runs && status == OPDOCK_OK; ++i) {
            status = call_plugin([&] { return attempt.kernel(&attempt.problem, &call); });
        }
        if (status != OPDOCK_OK) {
            return fmt::format("{}: {}", status_text(status), take_message(status));
        }
        return {};
    }

    Host &host_;
    Deployment &deployment_;
    const TunedCall &call_;
    const TuneOptions &options_;
    DeviceAccess access_;
    DeviceEvent begin_;
    DeviceEvent end_;
    std::vector<Written> written_;
    std::vector<std::optional<DeviceMemory>> kept_; // of `written_`: what an input held
    std::vector<std::byte> garbage_;
    std::optional<DeviceMemory> flushed_;
    uint64_t flush_bytes_ = 0;
};

struct Runner {
    TimedConfig timed;
    std::unique_ptr<Attempt> attempt;
    size_t runs = 1;
    std::vector<double> samples;
};

class Search {
  public:
    Search(Bench &bench, const TuneOptions &options) : bench_(bench), options_(options) {}

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

    // False when it is time to stop.
    bool go_on() {
        if (!stopped_ && options_.progress &&
            !options_.progress({done_, std::max(total_, done_), seconds(), options_.budget})) {
            stopped_ = true;
        }
        return !stopped_ && seconds() < options_.budget;
    }

    // The config in force computes what the others have to; each of them is run once and compared.
    void start(TuneResult &result, const TuneTask &task) {
        Bench::Ready first = bench_.prepare(nullptr);
        if (first.refused.empty()) {
            first.refused = bench_.run_once(*first.attempt);
        }
        if (!first.refused.empty()) {
            throw Error(OPDOCK_UNSUPPORTED,
                        fmt::format("the call does not run with the config in force: {}", first.refused));
        }
        expected_ = bench_.results();
        result.before_source = first.attempt->chosen.source;
        std::vector<TuneConfig> configs = task.candidates;
        std::erase(configs, first.attempt->chosen.config);
        total_ =
            (configs.size() + 1) * (options_.strategy == TuneOptions::Strategy::exhaustive ? exhaustive_rounds : 3) +
            2 * final_rounds;
        runners_.push_back(std::make_unique<Runner>());
        runners_.back()->timed.config = first.attempt->chosen.config;
        runners_.back()->attempt = std::move(first.attempt);
        runners_.back()->runs = bench_.runs_of(*runners_.back()->attempt);
        measure(*runners_.back());
        for (const TuneConfig &config : configs) {
            auto runner = std::make_unique<Runner>();
            runner->timed.config = config;
            if (!go_on()) {
                runner->timed.refused = "not timed: the time was up";
                refused_.push_back(std::move(runner));
                cut_ = true;
                continue;
            }
            Bench::Ready ready = bench_.prepare(&config);
            std::string refused = std::move(ready.refused);
            if (refused.empty()) {
                refused = bench_.run_once(*ready.attempt);
            }
            if (refused.empty()) {
                refused = bench_.compare(expected_);
                runner->timed.is_wrong = !refused.empty();
            }
            runner->timed.refused = std::move(refused);
            if (!runner->timed.refused.empty()) {
                refused_.push_back(std::move(runner));
                continue;
            }
            runner->attempt = std::move(ready.attempt);
            try {
                runner->runs = bench_.runs_of(*runner->attempt);
            } catch (const Error &error) { // it failed the second time
                runner->timed.refused = error.what();
                refused_.push_back(std::move(runner));
                continue;
            }
            measure(*runner);
            runners_.push_back(std::move(runner));
        }
    }

    // One that fails now is out of the race; so is all of tuning when that is the config in force.
    void measure(Runner &runner) {
        ++done_;
        if (!runner.timed.refused.empty()) {
            return;
        }
        try {
            runner.samples.push_back(bench_.sample(*runner.attempt, runner.runs));
        } catch (const Error &error) {
            if (&runner == runners_.front().get()) {
                throw;
            }
            runner.timed.refused = error.what();
            runner.samples.clear();
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

    // The fastest against the one in force, interleaved; it has to win clearly.
    void finish(TuneResult &result) {
        Runner &before = *runners_.front();
        Runner *best = &before;
        for (const auto &runner : runners_) {
            if (!runner->samples.empty() && median_of(runner->samples) < median_of(best->samples)) {
                best = runner.get();
            }
        }
        if (best != &before) {
            std::vector<double> of_before;
            std::vector<double> of_best;
            size_t rounds_won = 0;
            for (size_t round = 0; round < final_rounds; ++round) {
                of_before.push_back(bench_.sample(*before.attempt, before.runs));
                try {
                    of_best.push_back(bench_.sample(*best->attempt, best->runs));
                    rounds_won += of_best.back() < of_before.back() ? 1 : 0;
                } catch (const Error &error) {
                    best->timed.refused = error.what();
                    best->samples.clear();
                    break;
                }
                done_ += 2;
                if (options_.progress && !stopped_) {
                    stopped_ = !options_.progress({done_, std::max(total_, done_), seconds(), options_.budget});
                }
            }
            before.samples = std::move(of_before);
            if (best->timed.refused.empty()) {
                best->samples = std::move(of_best);
            }
            const bool wins = best->timed.refused.empty() && rounds_won >= needed_rounds &&
                              median_of(best->samples) < (1 - needed_gain) * median_of(before.samples);
            best = wins ? best : &before;
        }
        for (auto *list : {&runners_, &refused_}) {
            for (const auto &runner : *list) {
                if (!runner->samples.empty()) {
                    runner->timed.median = median_of(runner->samples);
                    runner->timed.spread = spread_of(runner->samples);
                    runner->timed.samples = runner->samples.size();
                }
                result.tried.push_back(runner->timed);
            }
        }
        result.before = before.timed;
        result.best = best->timed;
        result.is_complete = !cut_ && !stopped_;
        const std::string failure = bench_.run_once(*before.attempt); // what the caller finds in the outputs
        bench_.access().synchronize();
        result.seconds = seconds();
        if (!failure.empty()) {
            throw Error(OPDOCK_FAILED, failure);
        }
    }

    Bench &bench_;
    const TuneOptions &options_;
    const Clock::time_point began_ = Clock::now();
    std::vector<std::vector<std::byte>> expected_;
    std::vector<std::unique_ptr<Runner>> runners_; // the first is the config in force without tuning
    std::vector<std::unique_ptr<Runner>> refused_;
    size_t done_ = 0;
    size_t total_ = 0;
    bool stopped_ = false; // by the one who watches
    bool cut_ = false;     // something was not timed as often as planned
};

} // namespace

TuneResult tune(Host &host, Deployment &deployment, const TunedCall &call, const TuneTask &task,
                const TuneOptions &options) {
    if (task.candidates.empty()) {
        throw Error(
            OPDOCK_UNSUPPORTED,
            task.section == nullptr
                ? fmt::format("no tune file has configs of '{}' for these dtypes on this device",
                              deployment.implementation().impl_id)
                : fmt::format("where leaves no config of '{}' for this shape", deployment.implementation().impl_id));
    }
    if (host.is_capturing(call.shape.device, call.stream)) {
        throw Error(OPDOCK_UNSUPPORTED, "the stream is being captured");
    }
    Bench bench(host, deployment, call, options);
    return Search(bench, options).run(task);
}

void keep(Host &host, Deployment &deployment, const TuneTask &task, const TuneResult &result) {
    DeploymentTuning &tuning = *deployment.tuning();
    tuning.take(task, result.best.config, result.best.median, result.before.median);
    host.tune_database().write(tuning.identity(), {{task.section->space, task.dtypes, task.key,
                                                    config_text(deployment.implementation().knobs, result.best.config),
                                                    result.best.median, result.before.median}});
}

} // namespace opdock::core
