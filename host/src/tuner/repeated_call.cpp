#include "tuner/repeated_call.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_host.hpp"
#include "dispatch/workspace.hpp"
#include "load/plugin_call.hpp"
#include "observe/agreement.hpp"
#include "signature/dtype.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

constexpr double sample_microseconds = 300; // duration that the runs of a sample should fill
constexpr size_t most_runs = 2000;          // in one sample
// Large numbers of either sign, for integers and for every kind of float: a kernel that adds to them,
// or takes a maximum or minimum with them, gives a wrong result for one of them.
constexpr std::byte positive{0x77};
constexpr std::byte negative{0xf7};
constexpr uint64_t piece_bytes = 16u << 20; // unit in which tensors of any size are filled and read

uint64_t digest_on(uint64_t digest, const std::byte *bytes, uint64_t count) {
    constexpr uint64_t prime = 0x9e3779b97f4a7c15; // odd, so that no change of one word is lost
    uint64_t i = 0;
    for (; i + sizeof(uint64_t) <= count; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        std::memcpy(&word, bytes + i, sizeof word);
        digest = std::rotl(digest ^ word, 29) * prime;
    }
    for (; i < count; ++i) {
        digest = std::rotl(digest ^ static_cast<uint64_t>(bytes[i]), 29) * prime;
    }
    return digest;
}

} // namespace

RepeatedCall::RepeatedCall(CallHost &host, const TunedCall &call, bool cold)
    : host_(host), call_(call), cold_(cold), access_(host.devices(), call.shape.device, call.stream), current_(access_),
      begin_(access_), end_(access_) {
    find_written();
    find_read();
    for (const Written &one : written_) {
        if (one.is_input) {
            kept_.emplace_back(DeviceMemory(access_, one.bytes));
            access_.copy(kept_.back()->get(), call_.data[one.tensor], one.bytes);
        } else {
            kept_.emplace_back();
        }
    }
    if (cold) {
        const opdock_device_properties *properties = host.devices().properties(call.shape.device);
        const uint64_t cache = properties != nullptr && properties->cache != 0 ? properties->cache : 64u << 20;
        flushed_.emplace(access_, 4 * cache); // one half is copied to the other
        flush_bytes_ = 2 * cache;
    }
}

RepeatedCall::~RepeatedCall() {
    try {
        put_back();
    } catch (...) { // NOLINT(bugprone-empty-catch): the device says so to whoever uses it next
    }
}

RepeatedCall::Ready RepeatedCall::prepare(Deployment &deployment, const TuneConfig *config) {
    Ready ready;
    ready.attempt = std::make_unique<Attempt>(host_, deployment);
    ready.attempt->is_tuned = false;
    ready.attempt->is_observed = false;
    const opdock_status status = ready.attempt->prepare(call_.shape, true, config);
    if (status != OPDOCK_OK) {
        ready.refused = fmt::format("{}: {}", status_text(status), ready.attempt->reason);
    } else if (!ready.attempt->map.empty()) {
        ready.refused = "it implements a shorter signature of the op";
    } else if (std::string why = ready.attempt->misalignment(call_.shape, call_.data); !why.empty()) {
        ready.refused = why;
    } else {
        std::copy_n(call_.attributes, ready.attempt->attributes.size(), ready.attempt->attributes.begin());
    }
    return ready;
}

std::string RepeatedCall::learn(Attempt &attempt) {
    std::string failure = run_over(attempt, positive, 1);
    if (!failure.empty()) {
        return failure;
    }
    expected_ = results();
    failure = run_over(attempt, negative, 1);
    if (!failure.empty()) {
        return failure;
    }
    find_gaps(expected_, results());
    for (size_t i = 0; i < written_.size(); ++i) {
        take_gaps(i, expected_[i], positive);
    }
    check_read(attempt);
    const std::string difference = compare(negative);
    return difference.empty() ? ""
                              : "its results differ from run to run, or depend on what its outputs held: " + difference;
}

RepeatedCall::Verdict RepeatedCall::check(Attempt &attempt, size_t runs) {
    Verdict verdict;
    for (const auto &[garbage, times] : {std::pair(positive, size_t{1}), std::pair(negative, size_t{1}),
                                         std::pair(positive, writes_inputs_ ? size_t{1} : runs)}) {
        if (verdict.is_right()) {
            verdict.refused = run_over(attempt, garbage, times);
        }
        if (verdict.is_right()) {
            verdict.wrong = compare(garbage);
        }
    }
    check_read(attempt);
    return verdict;
}

std::vector<std::vector<std::byte>> RepeatedCall::results() const {
    std::vector<std::vector<std::byte>> results;
    for (const Written &one : written_) {
        results.emplace_back(one.bytes);
        access_.copy_to_host(results.back().data(), call_.data[one.tensor], one.bytes);
    }
    return results;
}

// Elements that still hold either kind of garbage after a run of the config in force.
void RepeatedCall::find_gaps(const std::vector<std::vector<std::byte>> &one,
                             const std::vector<std::vector<std::byte>> &other) {
    gaps_.assign(written_.size(), {});
    for (size_t i = 0; i < written_.size(); ++i) {
        const size_t element = bytes_of(opdock_dtype_unpack(written_[i].dtype));
        const auto holds = [&](const std::vector<std::byte> &found, size_t at, std::byte garbage) {
            return std::all_of(found.begin() + static_cast<std::ptrdiff_t>(at),
                               found.begin() + static_cast<std::ptrdiff_t>(std::min(at + element, found.size())),
                               [&](std::byte byte) { return byte == garbage; });
        };
        for (size_t at = 0; !written_[i].is_input && at < one[i].size(); at += element) {
            if (!holds(one[i], at, positive) || !holds(other[i], at, negative)) {
                continue;
            }
            if (gaps_[i].empty() || gaps_[i].back().end != at) {
                gaps_[i].push_back({at, at});
            }
            gaps_[i].back().end = std::min(at + element, one[i].size());
        }
    }
}

// Puts zeros where the config in force writes nothing. Returns an empty text, or where such a place was written.
std::string RepeatedCall::take_gaps(size_t written, std::vector<std::byte> &found, std::byte garbage) const {
    for (const Gap &gap : gaps_[written]) {
        for (size_t i = gap.begin; i < gap.end; ++i) {
            if (found[i] != garbage) {
                return fmt::format("byte {} is written, but the config in force does not write it", i);
            }
            found[i] = std::byte{0};
        }
    }
    return {};
}

std::string RepeatedCall::compare(std::byte garbage) const {
    auto found = results();
    for (size_t i = 0; i < written_.size(); ++i) {
        std::string difference = take_gaps(i, found[i], garbage);
        if (difference.empty()) {
            difference = disagreement(written_[i].dtype, expected_[i], found[i]);
        }
        if (!difference.empty()) {
            return fmt::format("in {}, {}", name_of(written_[i].tensor), difference);
        }
    }
    return {};
}

double RepeatedCall::sample(Attempt &attempt, size_t runs) {
    put_back();
    flush();
    begin_.record();
    const std::string failure = run(attempt, runs, {});
    end_.record();
    if (!failure.empty()) {
        throw Error(OPDOCK_FAILED, failure);
    }
    return begin_.microseconds_until(end_) / static_cast<double>(runs);
}

size_t RepeatedCall::runs_of(Attempt &attempt) {
    double once = sample(attempt, 1);
    once = std::min(once, sample(attempt, 1)); // the first one had cold caches and page faults
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
            if (call_.data[t] == nullptr) { // absent or empty
                continue;
            }
            if (!is_output && !shape.signature->parameter(p).mut && !is_overwritten(t)) {
                continue;
            }
            if (shape.signature->parameter(p).host && !access_.is_host()) {
                throw Error(OPDOCK_UNSUPPORTED, fmt::format("it writes {} in host memory", name_of(t)));
            }
            if (!tensor.contiguous) {
                throw Error(OPDOCK_UNSUPPORTED, fmt::format("{} has gaps, which may belong to another tensor: what the "
                                                            "call writes cannot be restored between runs",
                                                            name_of(t)));
            }
            if (is_output && is_written_input(call_.data[t])) {
                continue;
            }
            written_.push_back({t, opdock_dtype_pack(tensor.tensor.dtype), tensor.extent, !is_output});
            writes_inputs_ = writes_inputs_ || !is_output;
        }
    }
    if (written_.empty()) {
        throw Error(OPDOCK_UNSUPPORTED, "the call writes nothing, so a wrong config cannot be detected");
    }
}

// Tensors with gaps are left out: the gaps may belong to others, who may write them meanwhile.
void RepeatedCall::find_read() {
    const CallShape &shape = call_.shape;
    for (uint32_t p = 0; p < shape.signature->inputs.size(); ++p) {
        for (uint32_t t = shape.first[p]; t < shape.first[p + 1]; ++t) {
            const TensorShape &tensor = shape.tensors[t];
            if (call_.data[t] == nullptr || !tensor.contiguous || is_written_input(call_.data[t])) {
                continue;
            }
            read_.push_back({t, tensor.extent, access_.is_host() || shape.signature->parameter(p).host, 0});
            read_.back().digest = digest_of(read_.back());
        }
    }
}

uint64_t RepeatedCall::digest_of(const Read &read) const {
    const auto *memory = static_cast<const std::byte *>(call_.data[read.tensor]);
    if (read.on_host) {
        return digest_on(0, memory, read.bytes);
    }
    uint64_t digest = 0;
    std::vector<std::byte> piece(std::min(read.bytes, piece_bytes));
    for (uint64_t begin = 0; begin < read.bytes; begin += piece.size()) {
        const uint64_t bytes = std::min<uint64_t>(piece.size(), read.bytes - begin);
        access_.copy_to_host(piece.data(), memory + begin, bytes);
        digest = digest_on(digest, piece.data(), bytes);
    }
    return digest;
}

void RepeatedCall::check_read(const Attempt &attempt) const {
    for (const Read &read : read_) {
        if (digest_of(read) != read.digest) {
            throw Error(
                OPDOCK_FAILED,
                fmt::format("with {}, '{}' changed {}, which the op only reads and which keeps the changed contents",
                            config_text(attempt.implementation.knobs, attempt.chosen.config),
                            attempt.implementation.impl_id, name_of(read.tensor)));
        }
    }
}

// True for an input that an output overlaps.
bool RepeatedCall::is_overwritten(uint32_t input) const {
    const CallShape &shape = call_.shape;
    const auto *begin = static_cast<const char *>(call_.data[input]);
    for (uint32_t t = shape.n_input_tensors; t < shape.n_tensors; ++t) {
        const auto *other = static_cast<const char *>(call_.data[t]);
        if (other != nullptr && other < begin + shape.tensors[input].extent &&
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

void RepeatedCall::put_back() {
    for (size_t i = 0; i < written_.size(); ++i) {
        if (written_[i].is_input) {
            access_.copy(call_.data[written_[i].tensor], kept_[i]->get(), written_[i].bytes);
        }
    }
}

void RepeatedCall::fill(void *memory, uint64_t bytes, std::byte garbage) {
    garbage_.assign(std::min(bytes, piece_bytes), garbage);
    for (uint64_t begin = 0; begin < bytes; begin += garbage_.size()) {
        access_.copy_from_host(static_cast<std::byte *>(memory) + begin, garbage_.data(),
                               std::min<uint64_t>(garbage_.size(), bytes - begin));
    }
}

// Runs with restored inputs and garbage in outputs and workspace, so no results of another config are left there.
std::string RepeatedCall::run_over(Attempt &attempt, std::byte garbage, size_t runs) {
    put_back();
    for (const Written &one : written_) {
        if (!one.is_input) {
            fill(call_.data[one.tensor], one.bytes, garbage);
        }
    }
    return run(attempt, runs, garbage);
}

void RepeatedCall::flush() {
    if (flushed_) {
        auto *half = static_cast<char *>(flushed_->get());
        access_.copy(half + flush_bytes_, half, flush_bytes_);
    }
}

std::string RepeatedCall::run(Attempt &attempt, size_t runs, std::optional<std::byte> garbage) {
    opdock_args args = {};
    args.stream = call_.stream;
    std::string reason;
    Workspace workspace(attempt, args);
    if (workspace.provide(&reason) != OPDOCK_OK) {
        return reason;
    }
    if (garbage && workspace.memory() != nullptr) {
        fill(workspace.memory(), attempt.workspace_size, *garbage);
    }
    const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size),
                           0,
                           attempt.problem.n_tensors,
                           0,
                           call_.data,
                           call_.stream,
                           workspace.memory(),
                           workspace.memory() != nullptr ? attempt.workspace_size : 0};
    opdock_status status = OPDOCK_OK;
    Journal::Open entry = host_.note_first_call(attempt.deployment);
    for (size_t i = 0; i < runs && status == OPDOCK_OK; ++i) {
        status = call_plugin([&] { return attempt.kernel(&attempt.problem, &call); });
        entry.close();
    }
    if (status != OPDOCK_OK) {
        return fmt::format("{}: {}", status_text(status), take_message(status));
    }
    return {};
}

} // namespace opdock::core
