#include "observe/profiler_ranges.hpp"

#include <dlfcn.h>

#ifdef OPDOCK_HAS_NVTX
#include <stdlib.h> // NOLINT(modernize-deprecated-headers): the headers below include it
// The headers load the library that NVTX_INJECTION64_PATH names: not into a program with more rights than its caller.
#define getenv secure_getenv // NOLINT(bugprone-reserved-identifier,cppcoreguidelines-macro-usage)
#include <nvtx3/nvToolsExt.h>
#undef getenv
#endif

namespace opdock::core {
namespace {

#ifdef OPDOCK_HAS_NVTX
// Null if no tool listens.
nvtxDomainHandle_t nvtx_domain() {
    return ::nvtxDomainCreateA("opdock");
}

nvtxStringHandle_t nvtx_string(nvtxDomainHandle_t domain, const char *text) {
    return ::nvtxDomainRegisterStringA(domain, text);
}

void nvtx_begin(nvtxDomainHandle_t domain, nvtxStringHandle_t text) noexcept {
    nvtxEventAttributes_t event = {};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = text;
    ::nvtxDomainRangePushEx(domain, &event);
}

void nvtx_end(nvtxDomainHandle_t domain) noexcept {
    ::nvtxDomainRangePop(domain);
}
#else
nvtxDomainRegistration_st *nvtx_domain() {
    return nullptr;
}
nvtxStringRegistration_st *nvtx_string(nvtxDomainRegistration_st * /*domain*/, const char * /*text*/) {
    return nullptr;
}
void nvtx_begin(nvtxDomainRegistration_st * /*domain*/, nvtxStringRegistration_st * /*text*/) noexcept {}
void nvtx_end(nvtxDomainRegistration_st * /*domain*/) noexcept {}
#endif

template<class Function>
Function global_function(const char *name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

} // namespace

std::unique_ptr<ProfilerRanges> ProfilerRanges::of_listening_profiler() {
    auto ranges = std::make_unique<ProfilerRanges>();
    ranges->nvtx_ = nvtx_domain();
    ranges->roctx_push_ = global_function<int (*)(const char *)>("roctxRangePushA");
    ranges->roctx_pop_ = global_function<int (*)()>("roctxRangePop");
    if (ranges->roctx_pop_ == nullptr) {
        ranges->roctx_push_ = nullptr;
    }
    if (ranges->nvtx_ == nullptr && ranges->roctx_push_ == nullptr) {
        return nullptr;
    }
    return ranges;
}

const ProfilerRanges::Name *ProfilerRanges::name(const std::string &text) {
    const auto [place, is_new] = names_.try_emplace(text);
    if (is_new) {
        place->second.text = text;
        if (nvtx_ != nullptr) {
            place->second.registered = nvtx_string(nvtx_, text.c_str());
        }
    }
    return &place->second;
}

void ProfilerRanges::begin(const Name &name) const noexcept {
    if (nvtx_ != nullptr) {
        nvtx_begin(nvtx_, name.registered);
    }
    if (roctx_push_ != nullptr) {
        roctx_push_(name.text.c_str());
    }
}

void ProfilerRanges::end() const noexcept {
    if (roctx_push_ != nullptr) {
        roctx_pop_();
    }
    if (nvtx_ != nullptr) {
        nvtx_end(nvtx_);
    }
}

} // namespace opdock::core
