// One call, made again and again with different configs: what it writes is kept, put back, compared and timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/attempt.hpp"
#include "signature/call_shape.hpp"
#include "tune/deployment_tuning.hpp"
#include "tune/device_memory.hpp"

namespace opdock::core {

struct TunedCall {
    const CallShape &shape;
    void *const *data; // shape.n_tensors pointers
    const opdock_value *attributes;
    void *stream;
};

class RepeatedCall {
  public:
    // Everything must outlive it. With `cold`, caches are flushed before each sample. Throws Error(OPDOCK_UNSUPPORTED)
    // for a call that cannot be repeated: written tensors with gaps.
    RepeatedCall(Host &host, Deployment &deployment, const TunedCall &call, bool cold);
    // Inputs that the call writes hold again what they held before.
    ~RepeatedCall();
    RepeatedCall(const RepeatedCall &) = delete;
    RepeatedCall &operator=(const RepeatedCall &) = delete;

    struct Ready {
        std::unique_ptr<Attempt> attempt;
        std::string refused; // why it is not; empty when it is
    };
    // Ready to run with this config; null: as the implementation chooses without tuning.
    Ready prepare(const TuneConfig *config);

    // One run that finds garbage in its outputs. Empty, or why it failed.
    std::string run_once(Attempt &attempt);
    // Everything that was written.
    std::vector<std::vector<std::byte>> results();
    // Where what was written differs by more than rounding does; empty when it does not.
    std::string compare(const std::vector<std::vector<std::byte>> &expected);

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

    void find_written();
    bool is_overwritten(uint32_t input) const;
    bool is_written_input(const void *data) const;
    std::string name_of(uint32_t tensor) const;
    void put_back(bool with_garbage);
    void flush();
    std::string run(Attempt &attempt, size_t runs);

    Host &host_;
    Deployment &deployment_;
    const TunedCall &call_;
    const bool cold_;
    DeviceAccess access_;
    DeviceEvent begin_;
    DeviceEvent end_;
    std::vector<Written> written_;
    std::vector<std::optional<DeviceMemory>> kept_; // of `written_`: what an input held
    std::vector<std::byte> garbage_;
    std::optional<DeviceMemory> flushed_;
    uint64_t flush_bytes_ = 0;
};

} // namespace opdock::core
