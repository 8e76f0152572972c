#include "call_cost.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "cli/statistics.hpp"
#include "op-call/dims.hpp"
#include "op-call/placed_call.hpp"

namespace opdock::plugin_bench {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

opdock_status nothing(const opdock_problem * /*problem*/, const opdock_call * /*call*/) {
    return OPDOCK_OK;
}

// Runs this many calls; returns the status of the first one that fails.
using Loop = std::function<opdock_status(size_t runs)>;

template<class One>
Loop loop_of(One one) {
    return [one](size_t runs) {
        opdock_status status = OPDOCK_OK;
        for (size_t i = 0; i < runs && status == OPDOCK_OK; ++i) {
            status = one();
        }
        return status;
    };
}

struct Way {
    const char *name;
    Loop loop;
    std::vector<double> samples = {}; // nanoseconds of a call
};

class Ways {
  public:
    Ways(const Host &host, const op_call::Job &job, DLDevice device)
        : host_(host), device_(device), op_(host.op(job.subject.op)),
          placed_(host, op_, job.signature, job.arguments, op_call::shapes_or_sources_spelling, device),
          prepared_(op_.prepare(placed_.args())),
          pointers_(op_call::pointers_of(job.signature, placed_.inputs(), placed_.outputs())) {
        if (prepared_.workspace_size() != 0) {
            workspace_.emplace(host, device, prepared_.workspace_size());
        }
        call_ = {OPDOCK_STRUCT_SIZE(opdock_call, workspace_size),
                 0,
                 prepared_.n_data(),
                 0,
                 pointers_.data(),
                 nullptr,
                 workspace_ ? workspace_->get() : nullptr,
                 prepared_.workspace_size()};
        // After the first run, the prepared call points directly to the kernel and its counter.
        detail::check(op_.try_call(placed_.args()));
        const opdock_status status = prepared_.run(call_);
        if (status != OPDOCK_OK) {
            throw Error(opdock_prepared_failed(prepared_.c(), status), opdock_last_error());
        }
        kernel_ = prepared_.c()->kernel;
        const char *name = job.signature.op.c_str();
        ways_ = {
            {"indirect", loop_of([this] { return nothing_.load(std::memory_order_relaxed)(nullptr, nullptr); })},
            {"kernel",
             loop_of([this] { return kernel_.load(std::memory_order_relaxed)(&prepared_.problem(), &call_); })},
            {"prepared", loop_of([this] { return prepared_.run(call_); })},
            {"handle", loop_of([this] { return op_.try_call(placed_.args()); })},
            {"by_name", loop_of([this, name] { return opdock_call_by_name(host_.c(), name, &placed_.args().c()); })}};
    }
    Ways(const Ways &) = delete;
    Ways &operator=(const Ways &) = delete;

    void measure() {
        constexpr size_t rounds = 25;
        for (Way &way : ways_) {
            sample(way, 2);
        }
        std::vector<size_t> runs;
        for (Way &way : ways_) {
            runs.push_back(runs_of(sample(way, 10)));
        }
        for (size_t round = 0; round < rounds; ++round) {
            for (size_t i = 0; i < ways_.size(); ++i) {
                ways_[i].samples.push_back(sample(ways_[i], runs[i]));
            }
        }
    }

    std::string impl() const { return prepared_.impl(); }
    const std::vector<Way> &ways() const { return ways_; }

  private:
    // A device's queue holds fewer calls than a CPU can submit; once it is full, the device would be timed instead.
    size_t runs_of(double nanoseconds) const {
        constexpr double length = 200'000;
        const double most = device_.device_type == kDLCPU ? 100'000 : 200;
        return static_cast<size_t>(std::clamp(length / std::max(nanoseconds, 0.1), 10.0, most));
    }

    double sample(Way &way, size_t runs) {
        const auto begin = Clock::now();
        const opdock_status status = way.loop(runs);
        const auto end = Clock::now();
        detail::check(status);
        detail::check(opdock_device_synchronize(host_.c(), device_, nullptr));
        return std::chrono::duration<double, std::nano>(end - begin).count() / static_cast<double>(runs);
    }

    const Host &host_;
    const DLDevice device_;
    const Op op_;
    const op_call::PlacedCall placed_;
    const Prepared prepared_;
    std::vector<void *> pointers_;
    std::optional<op_call::DeviceBuffer> workspace_;
    opdock_call call_ = {};
    std::atomic<opdock_kernel> nothing_{nothing};
    std::atomic<opdock_kernel> kernel_{nullptr};
    std::vector<Way> ways_;
};

// "bf16,f32": the dtype of each dtype variable in the call.
std::string dtypes_of(const op_call::Job &job) {
    const op_call::Operands inputs = op_call::shapes_of(job.arguments);
    std::string dtypes;
    for (const std::string &variable : job.signature.dtype_variables) {
        std::string dtype = "f32"; // the default for a variable that no input has
        for (size_t i = inputs.size(); i-- > 0;) {
            if (job.signature.inputs[i].dtype == variable && !inputs[i].empty()) {
                dtype = files::dtype_name(inputs[i].front().dtype);
            }
        }
        dtypes += (dtypes.empty() ? "" : ",") + dtype;
    }
    return dtypes;
}

// The extra time of a way over the kernel, round by round, so that slow rounds cancel out.
cli::Summary difference(const Way &way, const Way &kernel) {
    std::vector<double> more;
    for (size_t i = 0; i < way.samples.size(); ++i) {
        more.push_back(way.samples[i] - kernel.samples[i]);
    }
    return cli::summarize(std::move(more));
}

} // namespace

json call_cost(const Host &host, const op_call::Job &tiny, DLDevice device) {
    Ways ways(host, tiny, device);
    ways.measure();
    json cost = op_call::subject_json(tiny.subject);
    cost["impl_id"] = ways.impl();
    const double indirect = cli::summarize(ways.ways()[0].samples).median;
    const Way &kernel = ways.ways()[1];
    cost["indirect"] = indirect;
    for (size_t i = 1; i < ways.ways().size(); ++i) {
        const Way &way = ways.ways()[i];
        const cli::Summary summary = cli::summarize(way.samples);
        json &one = cost[way.name];
        one = {{"ns", summary.median}, {"spread", summary.spread()}};
        if (i > 1) {
            const cli::Summary more = difference(way, kernel);
            one["over_kernel"] = more.median;
            one["ratio"] = summary.median / cli::summarize(kernel.samples).median;
            one["ratio_if_empty"] = more.low > 0 ? json(1 + more.median / indirect) : json(nullptr);
        }
    }
    return cost;
}

std::optional<op_call::Job> tiny_job(const Host &host, const op_call::Job &shape, DLDevice device) {
    constexpr op_call::BuiltinSize tiny{64, 8};
    std::string reason;
    const auto takes = [&](const op_call::Job &job) { op_call::check_call(host, job, device); };
    return op_call::builtin_job(host, {shape.subject.op, "", {}, {}}, dtypes_of(shape), tiny, takes, reason);
}

} // namespace opdock::plugin_bench
