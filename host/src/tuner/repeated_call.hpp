// One call, made again and again by different implementations or with different configs: what it writes is kept, put
// back, compared and timed.
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
    // Everything must outlive it. With `cold`, caches are flushed before each sample. Throws Error(OPDOCK_UNSUPPORTED)
    // for a call that cannot be repeated: written tensors with gaps.
    RepeatedCall(CallHost &host, const TunedCall &call, bool cold);
    // Inputs that the call writes hold again what they held before.
    ~RepeatedCall();
    RepeatedCall(const RepeatedCall &) = delete;
    RepeatedCall &operator=(const RepeatedCall &) = delete;

    struct Ready {
        std::unique_ptr<Attempt> attempt;
        std::string refused; // why it is not; empty when it is
    };
    // Ready to run with this config; null: as the implementation chooses without tuning.
    Ready prepare(Deployment &deployment, const TuneConfig *config);

    // What this one computes is what the others have to. Empty, or why it cannot be: it failed, or computes something
    // else each time.
    std::string learn(Attempt &attempt);
    struct Verdict {
        std::string refused; // why it did not run
        std::string wrong;   // where what it wrote differs by more than rounding does
        bool is_right() const { return refused.empty() && wrong.empty(); }
    };
    // Runs it from fresh inputs over one kind of garbage and over another, and then so many times in a row where the
    // call writes no input. Throws Error(OPDOCK_FAILED) when it changed what the op only reads, which nobody can put
    // back.
    Verdict check(Attempt &attempt, size_t runs);

    // How many runs make a sample that is long enough to time. Throws what fails, like sample().
    size_t runs_of(Attempt &attempt);
    // Microseconds of one run, over so many.
    double sample(Attempt &attempt, size_t runs);

    void synchronize() const { access_.synchronize(); }

  private:
    // A tensor that the call writes.
    struct Written {
        uint32_t tensor;
        uint32_t dtype;
        uint64_t bytes;
        bool is_input; // has to be put back before each run
    };

    // A tensor that the call only reads: too much to be kept, so that only a digest tells whether it was changed.
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
    std::vector<std::optional<DeviceMemory>> kept_; // of `written_`: what an input held
    std::vector<Read> read_;
    std::vector<std::vector<std::byte>> expected_; // of `written_`, with zeros in the gaps
    std::vector<std::vector<Gap>> gaps_;           // likewise
    bool writes_inputs_ = false;
    std::vector<std::byte> garbage_;
    std::optional<DeviceMemory> flushed_;
    uint64_t flush_bytes_ = 0;
};

} // namespace opdock::core
