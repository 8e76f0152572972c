#include "tune/repeated_call.hpp"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "dispatch/workspace.hpp"
#include "host/host.hpp"
#include "load/plugin_call.hpp"
#include "text/error.hpp"
#include "tune/agreement.hpp"

namespace opdock::core {
namespace {

constexpr double sample_microseconds = 300; // as many runs as fill this make a sample
constexpr size_t most_runs = 2000;          // of one sample
constexpr std::byte garbage{0xa5};

} // namespace

RepeatedCall::RepeatedCall(Host &host, Deployment &deployment, const TunedCall &call, bool cold)
    : host_(host), deployment_(deployment), call_(call), cold_(cold), access_(host, call.shape.device, call.stream),
      begin_(access_), end_(access_) {
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
    if (cold) {
        const opdock_device_properties *properties = host.device_properties(call.shape.device);
        const uint64_t cache = properties != nullptr && properties->cache != 0 ? properties->cache : 64u << 20;
        flushed_.emplace(access_, 4 * cache); // copied from one half to the other
        flush_bytes_ = 2 * cache;
    }
}

RepeatedCall::~RepeatedCall() {
    try {
        put_back(false);
    } catch (...) { // NOLINT(bugprone-empty-catch): the device says so to whoever uses it next
    }
}
RepeatedCall::Ready RepeatedCall::prepare(const TuneConfig *config) {
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

std::string RepeatedCall::run_once(Attempt &attempt) {
    put_back(true);
    return run(attempt, 1);
}

std::vector<std::vector<std::byte>> RepeatedCall::results() {
    std::vector<std::vector<std::byte>> results;
    for (const Written &one : written_) {
        results.emplace_back(one.bytes);
        access_.copy_to_host(results.back().data(), call_.data[one.tensor], one.bytes);
    }
    return results;
}

std::string RepeatedCall::compare(const std::vector<std::vector<std::byte>> &expected) {
    const auto found = results();
    for (size_t i = 0; i < written_.size(); ++i) {
        if (std::string difference = disagreement(written_[i].dtype, expected[i], found[i]); !difference.empty()) {
            return fmt::format("in {}, {}", name_of(written_[i].tensor), difference);
        }
    }
    return {};
}

double RepeatedCall::sample(Attempt &attempt, size_t runs) {
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

size_t RepeatedCall::runs_of(Attempt &attempt) {
    double once = sample(attempt, 1);
    once = std::min(once, sample(attempt, 1)); // the first one had cold caches, and pages to get
    return cold_ ? 1
                 : static_cast<size_t>(
                       std::clamp(sample_microseconds / std::max(once, 1e-3), 1.0, static_cast<double>(most_runs)));
}

std::string RepeatedCall::name_of(uint32_t tensor) const {
    const CallShape &shape = call_.shape;
    size_t p = 0;
    while (p + 1 < shape.signature->n_params() && shape.first[p + 1] <= tensor) {
        ++p;
    }
    return fmt::format("'{}'", shape.signature->parameter(p).name);
}

void RepeatedCall::find_written() {
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
bool RepeatedCall::is_overwritten(uint32_t input) const {
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

bool RepeatedCall::is_written_input(const void *data) const {
    return std::any_of(written_.begin(), written_.end(),
                       [&](const Written &one) { return one.is_input && call_.data[one.tensor] == data; });
}

void RepeatedCall::put_back(bool with_garbage) {
    for (size_t i = 0; i < written_.size(); ++i) {
        if (written_[i].is_input) {
            access_.copy(call_.data[written_[i].tensor], kept_[i]->get(), written_[i].bytes);
        } else if (with_garbage) {
            access_.copy_from_host(call_.data[written_[i].tensor], garbage_.data(), written_[i].bytes);
        }
    }
}

void RepeatedCall::flush() {
    if (flushed_) {
        auto *half = static_cast<char *>(flushed_->get());
        access_.copy(half + flush_bytes_, half, flush_bytes_);
    }
}

std::string RepeatedCall::run(Attempt &attempt, size_t runs) {
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

} // namespace opdock::core
