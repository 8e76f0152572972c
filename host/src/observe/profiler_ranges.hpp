// Ranges around kernels in the time line of a profiler: NVTX for NVIDIA's, roctx for AMD's.
#pragma once

#include <map>
#include <memory>
#include <string>

struct nvtxDomainRegistration_st;
struct nvtxStringRegistration_st;

namespace opdock::core {

// Its names are added by one thread at a time; ranges begin and end on any.
class ProfilerRanges {
  public:
    // As the profiler has it.
    struct Name {
        std::string text;
        nvtxStringRegistration_st *registered = nullptr; // null without NVTX
    };

    // Null where no profiler listens in this process: NVTX_INJECTION64_PATH names none, and none has loaded roctx for
    // all to see.
    static std::unique_ptr<ProfilerRanges> of_listening_profiler();

    // Valid as long as this.
    const Name *name(const std::string &text);

    // On one thread the range that began last ends first.
    void begin(const Name &name) const noexcept;
    void end() const noexcept;

  private:
    nvtxDomainRegistration_st *nvtx_ = nullptr;
    int (*roctx_push_)(const char *) = nullptr;
    int (*roctx_pop_)() = nullptr;
    std::map<std::string, Name> names_;
};

} // namespace opdock::core
