#include "devices/providers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "load/cancellation.hpp"
#include "load/plugin_call.hpp"
#include "text/error.hpp"
#include "text/fork_safe_once.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr size_t memory_alignment = 256;

opdock_status cpu_count(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t *count) {
    *count = 1;
    return OPDOCK_OK;
}

// The CPU model as the kernel names it; tuned configs of one model serve every machine with that model.
std::array<char, 128> read_cpu_model() {
    std::array<char, 128> name{"cpu"};
    if (FILE *file = std::fopen("/proc/cpuinfo", "re")) {
        std::array<char, 512> line{};
        while (std::fgets(line.data(), line.size(), file) != nullptr) {
            const std::string_view text = line.data();
            const size_t colon = text.find(": ");
            if (text.starts_with("model name") && colon != std::string_view::npos) {
                const std::string_view value = trimmed(text.substr(colon + 2)).substr(0, name.size() - 1);
                *std::copy(value.begin(), value.end(), name.begin()) = '\0';
                break;
            }
        }
        (void)std::fclose(file);
    }
    return name;
}

constinit ForkSafeOnce<std::array<char, 128>> cpu_model;

uint64_t last_level_cache() {
    for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
        if (const long bytes = sysconf(level); bytes > 0) {
            return static_cast<uint64_t>(bytes);
        }
    }
    return 0;
}

opdock_status cpu_properties(const opdock_host_api *host, void * /*user_data*/, int32_t index,
                             opdock_device_properties *properties) {
    if (index != 0) {
        return host->fail(host, OPDOCK_INVALID_ARGUMENT, "the host has one cpu device, cpu:0");
    }
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_size = sysconf(_SC_PAGESIZE);
    properties->memory = pages > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_size) : 0;
    (void)std::snprintf(properties->name, sizeof properties->name, "%s", cpu_model.get(read_cpu_model).data());
    properties->compute_units = std::thread::hardware_concurrency();
    properties->warp_size = 1;
    properties->cache = last_level_cache();
#if defined(__x86_64__)
    std::strcpy(properties->architecture, "x86_64");
#elif defined(__aarch64__)
    std::strcpy(properties->architecture, "aarch64");
#else
    std::strcpy(properties->architecture, "unknown");
#endif
    return OPDOCK_OK;
}

opdock_status cpu_get_current(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t *index) {
    *index = 0;
    return OPDOCK_OK;
}

opdock_status cpu_make_current(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/) {
    return OPDOCK_OK;
}

opdock_status cpu_allocate(const opdock_host_api *host, void * /*user_data*/, int32_t /*index*/, void * /*stream*/,
                           uint64_t bytes, void **memory) {
    // For sizes near the maximum, operator new overflows while rounding up.
    *memory = bytes > PTRDIFF_MAX ? nullptr : ::operator new (bytes, std::align_val_t{memory_alignment}, std::nothrow);
    return *memory != nullptr ? OPDOCK_OK : host->fail(host, OPDOCK_OUT_OF_MEMORY, "no memory left on the host");
}

opdock_status cpu_free(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void * /*stream*/,
                       void *memory) {
    ::operator delete (memory, std::align_val_t{memory_alignment});
    return OPDOCK_OK;
}

opdock_status cpu_copy(const opdock_host_api *host, void * /*user_data*/, void *to, DLDevice to_device,
                       const void *from, DLDevice from_device, uint64_t bytes, void * /*stream*/) {
    if (to_device.device_type != kDLCPU || from_device.device_type != kDLCPU) {
        return host->fail(host, OPDOCK_UNSUPPORTED,
                          "the cpu copies only between cpu memory; let the other device copy");
    }
    std::memcpy(to, from, bytes);
    return OPDOCK_OK;
}

opdock_status cpu_stream_create(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/,
                                void **stream) {
    *stream = nullptr;
    return OPDOCK_OK;
}

opdock_status cpu_stream(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void * /*stream*/) {
    return OPDOCK_OK;
}

opdock_status cpu_stream_is_capturing(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/,
                                      void * /*stream*/, int32_t *capturing) {
    *capturing = 0;
    return OPDOCK_OK;
}

using Clock = std::chrono::steady_clock;

opdock_status cpu_event_create(const opdock_host_api *host, void * /*user_data*/, int32_t /*index*/, void **event) {
    *event = new (std::nothrow) Clock::time_point;
    return *event != nullptr ? OPDOCK_OK : host->fail(host, OPDOCK_OUT_OF_MEMORY, "no memory left on the host");
}

opdock_status cpu_event_destroy(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/,
                                void *event) {
    delete static_cast<Clock::time_point *>(event);
    return OPDOCK_OK;
}

opdock_status cpu_event_record(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void *event,
                               void * /*stream*/) {
    *static_cast<Clock::time_point *>(event) = Clock::now();
    return OPDOCK_OK;
}

opdock_status cpu_event_elapsed(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void *begin,
                                void *end, float *milliseconds) {
    const auto passed = *static_cast<Clock::time_point *>(end) - *static_cast<Clock::time_point *>(begin);
    *milliseconds = std::chrono::duration<float, std::milli>(passed).count();
    return OPDOCK_OK;
}

opdock_status cpu_stream_callback(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/,
                                  void * /*stream*/, void (*function)(void *), void *argument) {
    function(argument);
    return OPDOCK_OK;
}

// DLPack's device types by the names that frameworks use, for tensors of types that no plugin provides.
constexpr std::array<std::pair<int32_t, const char *>, 8> dlpack_types = {{{kDLCPU, "cpu"},
                                                                           {kDLCUDA, "cuda"},
                                                                           {kDLCUDAHost, "cuda-host"},
                                                                           {kDLOpenCL, "opencl"},
                                                                           {kDLVulkan, "vulkan"},
                                                                           {kDLMetal, "metal"},
                                                                           {kDLROCM, "rocm"},
                                                                           {kDLROCMHost, "rocm-host"}}};

// Prefixes the function's name to its message.
void name_function(const char *function) {
    std::string said;
    said.swap(thread_state().message);
    leave_message(function, said.empty() ? "it gave no reason" : said.c_str());
}

} // namespace

void CurrentDevice::enter(int32_t index) {
    const opdock_device_provider &table = provider_->table;
    int32_t before = -1;
    status_ = call_plugin([&] { return table.get_current(&host_, table.user_data, &before); });
    if (status_ != OPDOCK_OK) {
        name_function("get_current: ");
        return;
    }
    if (before == index) {
        return;
    }
    before_ = before; // also if make_current fails: the current device is unknown then
    status_ = call_plugin([&] { return table.make_current(&host_, table.user_data, index); });
    if (status_ != OPDOCK_OK) {
        name_function("make_current: ");
    }
}

// Does not report a failure: the device fails again on its next use and is reported there.
void CurrentDevice::put_back() noexcept {
    const Uncancellable host_work; // a destructor must not be cancelled
    ThreadState &thread = thread_state();
    std::string said; // message of code that ran meanwhile, not yet taken
    said.swap(thread.message);
    const uint32_t flags = thread.flags;
    const opdock_device_provider &table = provider_->table;
    call_plugin([&] { return table.make_current(&host_, table.user_data, before_); });
    thread.message.swap(said);
    thread.flags = flags;
}

std::shared_ptr<const DeviceProvider> cpu_provider() {
    static const auto provider = [] {
        auto made = std::make_shared<DeviceProvider>();
        made->type = "cpu";
        made->stream_type = "none";
        opdock_device_provider &table = made->table;
        table.struct_size = OPDOCK_STRUCT_SIZE(opdock_device_provider, stream_callback);
        table.dl_device_type = kDLCPU;
        table.device = "cpu";
        table.stream_type = "none";
        table.count = cpu_count;
        table.properties = cpu_properties;
        table.get_current = cpu_get_current;
        table.make_current = cpu_make_current;
        table.allocate = cpu_allocate;
        table.free = cpu_free;
        table.copy = cpu_copy;
        table.stream_create = cpu_stream_create;
        table.stream_destroy = cpu_stream;
        table.stream_synchronize = cpu_stream;
        table.stream_is_capturing = cpu_stream_is_capturing;
        table.event_create = cpu_event_create;
        table.event_destroy = cpu_event_destroy;
        table.event_record = cpu_event_record;
        table.event_elapsed = cpu_event_elapsed;
        table.stream_callback = cpu_stream_callback;
        return std::shared_ptr<const DeviceProvider>(std::move(made));
    }();
    return provider;
}

const DeviceProvider *find_provider(const DeviceProviders &providers, int32_t dl_device_type) {
    for (const auto &provider : providers) {
        if (provider->table.dl_device_type == dl_device_type) {
            return provider.get();
        }
    }
    return nullptr;
}

const DeviceProvider *find_provider(const DeviceProviders &providers, std::string_view type) {
    for (const auto &provider : providers) {
        if (same_name(provider->type, type)) {
            return provider.get();
        }
    }
    return nullptr;
}

std::string device_type(const DeviceProviders &providers, int32_t dl_device_type) {
    if (const DeviceProvider *provider = find_provider(providers, dl_device_type)) {
        return provider->type;
    }
    for (const auto &[number, name] : dlpack_types) {
        if (number == dl_device_type) {
            return name;
        }
    }
    return fmt::format("device-type-{}", dl_device_type);
}

bool is_dlpack_type(std::string_view name) {
    static constexpr std::array others = {"hip",          "hip-host", "vpi",    "ext-dev",
                                          "cuda-managed", "oneapi",   "webgpu", "hexagon"};
    return std::any_of(dlpack_types.begin(), dlpack_types.end(),
                       [&](const auto &known) { return same_name(name, known.second); }) ||
           std::any_of(others.begin(), others.end(), [&](const char *known) { return same_name(name, known); });
}

std::string device_text(const DeviceProviders &providers, DLDevice device) {
    return fmt::format("{}:{}", device_type(providers, device.device_type), device.device_id);
}

std::optional<SpelledDevice> split_device(std::string_view text) {
    const size_t colon = text.find(':');
    SpelledDevice device{text.substr(0, colon), 0};
    if (colon != std::string_view::npos) {
        const char *end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, device.index);
        if (error != std::errc() || stop != end || device.index < 0) {
            return std::nullopt;
        }
    }
    return device;
}

std::optional<DLDevice> find_device(const DeviceProviders &providers, std::string_view text) {
    const std::optional<SpelledDevice> spelled = split_device(text);
    if (!spelled) {
        return std::nullopt;
    }
    const auto &[wanted, index] = *spelled;
    if (const DeviceProvider *provider = find_provider(providers, wanted)) {
        return DLDevice{static_cast<DLDeviceType>(provider->table.dl_device_type), index};
    }
    for (const auto &[type, name] : dlpack_types) {
        if (same_name(wanted, name)) {
            return DLDevice{static_cast<DLDeviceType>(type), index};
        }
    }
    return std::nullopt;
}

DLDevice parse_device(const DeviceProviders &providers, std::string_view text) {
    if (const std::optional<DLDevice> found = find_device(providers, text)) {
        return *found;
    }
    std::string types;
    for (const auto &provider : providers) {
        types += (types.empty() ? "" : ", ") + provider->type;
    }
    throw Error(OPDOCK_INVALID_ARGUMENT,
                fmt::format("'{}' is not a device: expected TYPE or TYPE:INDEX with a type that a plugin provides ({})",
                            text, types));
}

} // namespace opdock::core
