// Ranges around kernels in a profiler's time line: NVTX for NVIDIA, roctx for AMD.
#pragma once

#include <map>
#include <memory>
#include <string>

struct nvtxDomainRegistration_st;
struct nvtxStringRegistration_st;

namespace opdock::core {

// Names are added by one thread at a time; ranges begin and end on any thread.
class ProfilerRanges {
  public:
    // A range's name as registered with the profiler.
    struct Name {
        std::string text;
        nvtxStringRegistration_st *registered = nullptr; // null without NVTX
    };

    // Null if no profiler listens in this process: NVTX_INJECTION64_PATH names none, and none has
    // loaded roctx globally.
    static std::unique_ptr<ProfilerRanges> of_listening_profiler();

    // Valid as long as this object.
    const Name *name(const std::string &text);

    // Ranges of a thread are nested: the last one to begin ends first.
    void begin(const Name &name) const noexcept;
    void end() const noexcept;

  private:
    nvtxDomainRegistration_st *nvtx_ = nullptr;
    int (*roctx_push_)(const char *) = nullptr;
    int (*roctx_pop_)() = nullptr;
    std::map<std::string, Name> names_;
};

} // namespace opdock::core
