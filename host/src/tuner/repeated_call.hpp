// One call that different implementations or configs make repeatedly: its outputs are kept, restored,
// compared and timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices/device_memory.hpp"
#include "dispatch/attempt.hpp"
#include "dispatch/call_host.hpp"
#include "signature/call_shape.hpp"
#include "tune/deployment_tuning.hpp"

namespace opdock::core {

class RepeatedCall {
  public:
    // All arguments must outlive it. `cold`: flush caches before each sample. Throws
    // Error(OPDOCK_UNSUPPORTED) for a call that cannot be repeated: written tensors with gaps.
    RepeatedCall(CallHost &host, const TunedCall &call, bool cold);
    // Restores inputs that the call writes.
    ~RepeatedCall();
    RepeatedCall(const RepeatedCall &) = delete;
    RepeatedCall &operator=(const RepeatedCall &) = delete;

    struct Ready {
        std::unique_ptr<Attempt> attempt;
        std::string refused; // why it is not ready; empty if it is
    };
    // Prepares it with this config; null: with the implementation's choice without tuning.
    Ready prepare(Deployment &deployment, const TuneConfig *config);

    // Makes its results the reference for the others. Returns an empty text, or why that is
    // impossible: it failed, or its results differ from run to run.
    std::string learn(Attempt &attempt);
    struct Verdict {
        std::string refused; // why it did not run
        std::string wrong;   // where its results differ by more than rounding
        bool is_right() const { return refused.empty() && wrong.empty(); }
    };
    // Runs it from fresh inputs over each of two kinds of garbage, and then `runs` times in a row if
    // the call writes no input. Throws Error(OPDOCK_FAILED) if it changed something that the op only
    // reads, which cannot be restored.
    Verdict check(Attempt &attempt, size_t runs);

    // Number of runs in a sample that is long enough to time. Throws if a run fails, like sample().
    size_t runs_of(Attempt &attempt);
    // Microseconds of one run, averaged over `runs`.
    double sample(Attempt &attempt, size_t runs);

    void synchronize() const { access_.synchronize(); }

  private:
    // A tensor that the call writes.
    struct Written {
        uint32_t tensor;
        uint32_t dtype;
        uint64_t bytes;
        bool is_input; // must be restored before each run
    };

    // A tensor that the call only reads: too large to keep, so a digest shows whether it was changed.
    struct Read {
        uint32_t tensor;
        uint64_t bytes;
        bool on_host;
        uint64_t digest;
    };
    // Elements that the config in force does not write: bytes from begin to end.
    struct Gap {
        size_t begin;
        size_t end;
    };

    void find_written();
    void find_read();
    uint64_t digest_of(const Read &read) const;
    void check_read(const Attempt &attempt) const;
    std::vector<std::vector<std::byte>> results() const;
    void find_gaps(const std::vector<std::vector<std::byte>> &one, const std::vector<std::vector<std::byte>> &other);
    std::string take_gaps(size_t written, std::vector<std::byte> &found, std::byte garbage) const;
    std::string compare(std::byte garbage) const;
    bool is_overwritten(uint32_t input) const;
    bool is_written_input(const void *data) const;
    std::string name_of(uint32_t tensor) const;
    void put_back();
    void fill(void *memory, uint64_t bytes, std::byte garbage);
    std::string run_over(Attempt &attempt, std::byte garbage, size_t runs);
    void flush();
    std::string run(Attempt &attempt, size_t runs, std::optional<std::byte> garbage);

    CallHost &host_;
    const TunedCall &call_;
    const bool cold_;
    DeviceAccess access_;
    DeviceInUse current_;
    DeviceEvent begin_;
    DeviceEvent end_;
    std::vector<Written> written_;
    std::vector<std::optional<DeviceMemory>> kept_; // for `written_`: contents of an input
    std::vector<Read> read_;
    std::vector<std::vector<std::byte>> expected_; // for `written_`, with zeros in the gaps
    std::vector<std::vector<Gap>> gaps_;           // likewise
    bool writes_inputs_ = false;
    std::vector<std::byte> garbage_;
    std::optional<DeviceMemory> flushed_;
    uint64_t flush_bytes_ = 0;
};

} // namespace opdock::core
