#include "device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "runtime.hpp"

namespace gpu {
namespace {

// Makes a device current within a scope, and restores the thread's previous device afterwards.
class Current {
  public:
    explicit Current(int index) : error_(GPU(GetDevice)(&before_)) {
        if (error_ == GPU(Success) && before_ != index) {
            error_ = GPU(SetDevice)(index);
            changed_ = error_ == GPU(Success);
        }
    }
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;
    ~Current() {
        if (changed_) {
            static_cast<void>(GPU(SetDevice)(before_));
        }
    }
    GPU(Error_t) error() const { return error_; }

  private:
    int before_ = 0;
    bool changed_ = false;
    GPU(Error_t) error_;
};

opdock_status result(const opdock_host_api *host, const char *what, GPU(Error_t) error) {
    if (error == GPU(Success)) {
        return OPDOCK_OK;
    }
    static_cast<void>(GPU(GetLastError)()); // clears it, so that nobody else sees it
    return host->fail(host, status_of(error), error_text(what, error).c_str());
}

// Calls function() with the device current.
template<class Function>
opdock_status on(const opdock_host_api *host, int32_t index, const char *what, Function function) {
    const Current current(index);
    return result(host, what, current.error() == GPU(Success) ? function() : current.error());
}

Stream stream_of(void *stream) {
    return static_cast<Stream>(stream);
}
GPU(Event_t) event_of(void *event) {
    return static_cast<GPU(Event_t)>(event);
}

template<size_t size>
void copy_text(char (&to)[size], const std::string &from) {
    const size_t length = std::min(from.size(), size - 1);
    std::memcpy(to, from.data(), length);
    to[length] = '\0';
}

#ifndef __HIP__
std::string uuid_text(const char (&bytes)[16]) {
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
        char digits[4];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
        text += i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        text += digits;
    }
    return text;
}
#endif

// The kernel module's version, as nvidia-smi and rocm-smi show it, or else the newest runtime that the driver supports.
std::string driver_version() {
#ifdef __HIP__
    std::ifstream file("/sys/module/amdgpu/version");
#else
    std::ifstream file("/sys/module/nvidia/version");
#endif
    std::string version;
    if (std::getline(file, version) && !version.empty()) {
        return version;
    }
    int number = 0;
    static_cast<void>(GPU(DriverGetVersion)(&number));
#ifdef __HIP__
    return "HIP " + std::to_string(number);
#else
    return "CUDA " + std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
#endif
}

opdock_status count(const opdock_host_api *host, void * /*user_data*/, int32_t *count) {
    int found = 0;
    const GPU(Error_t) error = GPU(GetDeviceCount)(&found);
    *count = found;
    if (error == GPU(Success)) {
        return OPDOCK_OK;
    }
    static_cast<void>(GPU(GetLastError)());
    *count = 0;
    std::string why = error_text("no device can be used", error);
#ifdef __HIP__
    if (error == hipErrorNoDevice) { // HIP's own text says no more than that
        why = "no device can be used: no AMD GPU or no driver was found (hipErrorNoDevice)";
    }
#else
    int driver = 0; // newest CUDA it supports; 0 without a driver, which the error text calls too old
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
        why = "no device can be used: no NVIDIA driver is installed (" + std::string(cudaGetErrorName(error)) + ")";
    }
#endif
    return host->fail(host, OPDOCK_UNSUPPORTED, why.c_str());
}

opdock_status properties(const opdock_host_api *host, void * /*user_data*/, int32_t index,
                         opdock_device_properties *properties) {
#ifdef __HIP__
    hipDeviceProp_t found;
#else
    cudaDeviceProp found;
#endif
    const GPU(Error_t) error = GPU(GetDeviceProperties)(&found, index);
    if (error != GPU(Success)) {
        return result(host, "querying the properties of a device", error);
    }
    opdock_device_properties known = {};
    known.memory = found.totalGlobalMem;
    copy_text(known.name, found.name);
    copy_text(known.driver, driver_version());
    known.compute_units = static_cast<uint32_t>(found.multiProcessorCount);
    known.warp_size = static_cast<uint32_t>(found.warpSize);
    known.cache = static_cast<uint64_t>(found.l2CacheSize);
#ifdef __HIP__
    const std::string architecture = found.gcnArchName; // "gfx90a:sramecc+:xnack-"
    copy_text(known.architecture, architecture.substr(0, architecture.find(':')));
    known.shared_memory = found.sharedMemPerBlock;
    char bytes[16] = {}; // HIP 5.2 has no UUIDs: the PCI address
    std::snprintf(bytes, sizeof bytes, "%04x:%02x:%02x", static_cast<unsigned>(found.pciDomainID),
                  static_cast<unsigned>(found.pciBusID), static_cast<unsigned>(found.pciDeviceID));
    copy_text(known.uuid, bytes);
#else
    copy_text(known.architecture, "sm_" + std::to_string(found.major) + std::to_string(found.minor));
    known.shared_memory = found.sharedMemPerBlockOptin;
    copy_text(known.uuid, uuid_text(found.uuid.bytes));
#endif
    opdock_device_properties_give(properties, &known);
    return OPDOCK_OK;
}

opdock_status get_current(const opdock_host_api *host, void * /*user_data*/, int32_t *index) {
    return result(host, "querying the current device", GPU(GetDevice)(index));
}

opdock_status make_current(const opdock_host_api *host, void * /*user_data*/, int32_t index) {
    return result(host, "setting the current device", GPU(SetDevice)(index));
}

// A memory pool per device, which keeps some freed memory for later allocations. The
// device's default pool returns all of it to the driver at every synchronization,
// and it belongs to the whole program, so that its settings are left alone.
class Pools {
    using Pool = GPU(MemPool_t);

  public:
    GPU(Error_t) allocate(int32_t index, void **memory, uint64_t bytes, Stream stream) {
        Pool pool = nullptr;
        const GPU(Error_t) error = find(index, &pool);
        return error == GPU(Success) ? GPU(MallocFromPoolAsync)(memory, bytes, pool, stream) : error;
    }

  private:
    static constexpr uint64_t kept_bytes = uint64_t(256) << 20;

    GPU(Error_t) find(int32_t index, Pool *pool) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (const auto known = pools_.find(index); known != pools_.end()) {
            *pool = known->second;
            return GPU(Success);
        }
        GPU(MemPoolProps) properties = {};
        properties.allocType = GPU(MemAllocationTypePinned);
        properties.location.type = GPU(MemLocationTypeDevice);
        properties.location.id = index;
        GPU(Error_t) error = GPU(MemPoolCreate)(pool, &properties);
        if (error == GPU(Success)) {
            uint64_t kept = kept_bytes;
            error = GPU(MemPoolSetAttribute)(*pool, GPU(MemPoolAttrReleaseThreshold), &kept);
            pools_.emplace(index, *pool);
        }
        return error;
    }

    std::mutex mutex_;
    std::map<int32_t, Pool> pools_; // never destroyed: memory freed at program exit still belongs to a pool
};

Pools &pools() {
    static Pools &all = *new Pools;
    return all;
}

opdock_status allocate(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *stream, uint64_t bytes,
                       void **memory) {
    return on(host, index, "allocating device memory",
              [&] { return pools().allocate(index, memory, bytes, stream_of(stream)); });
}

opdock_status release(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *stream, void *memory) {
    return on(host, index, "freeing device memory", [&] { return GPU(FreeAsync)(memory, stream_of(stream)); });
}

opdock_status copy(const opdock_host_api *host, void * /*user_data*/, void *to, DLDevice to_device, const void *from,
                   DLDevice from_device, uint64_t bytes, void *stream) {
    const int32_t index = to_device.device_type == device_type ? to_device.device_id : from_device.device_id;
    return on(host, index, "copying memory",
              [&] { return GPU(MemcpyAsync)(to, from, bytes, GPU(MemcpyDefault), stream_of(stream)); });
}

opdock_status stream_create(const opdock_host_api *host, void * /*user_data*/, int32_t index, void **stream) {
    return on(host, index, "creating a stream",
              [&] { return GPU(StreamCreateWithFlags)(reinterpret_cast<Stream *>(stream), GPU(StreamNonBlocking)); });
}

opdock_status stream_destroy(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *stream) {
    return on(host, index, "destroying a stream", [&] { return GPU(StreamDestroy)(stream_of(stream)); });
}

opdock_status stream_synchronize(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *stream) {
    return on(host, index, "waiting for a stream", [&] { return GPU(StreamSynchronize)(stream_of(stream)); });
}

opdock_status stream_is_capturing(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *stream,
                                  int32_t *capturing) {
    return on(host, index, "querying whether a stream is captured", [&] {
        GPU(StreamCaptureStatus) status = GPU(StreamCaptureStatusNone);
        const GPU(Error_t) error = GPU(StreamIsCapturing)(stream_of(stream), &status);
        *capturing = status == GPU(StreamCaptureStatusNone) ? 0 : 1;
        return error;
    });
}

opdock_status event_create(const opdock_host_api *host, void * /*user_data*/, int32_t index, void **event) {
    return on(host, index, "creating an event",
              [&] { return GPU(EventCreate)(reinterpret_cast<GPU(Event_t) *>(event)); });
}

opdock_status event_destroy(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *event) {
    return on(host, index, "destroying an event", [&] { return GPU(EventDestroy)(event_of(event)); });
}

opdock_status event_record(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *event,
                           void *stream) {
    return on(host, index, "recording an event", [&] { return GPU(EventRecord)(event_of(event), stream_of(stream)); });
}

opdock_status event_elapsed(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *begin, void *end,
                            float *milliseconds) {
    return on(host, index, "measuring the time between events", [&] {
        GPU(Error_t) error = GPU(EventSynchronize)(event_of(begin));
        if (error == GPU(Success)) {
            error = GPU(EventSynchronize)(event_of(end));
        }
        return error == GPU(Success) ? GPU(EventElapsedTime)(milliseconds, event_of(begin), event_of(end)) : error;
    });
}

#ifndef __HIP__ // HIP 5.2 declares hipLaunchHostFunc but does not define it
opdock_status stream_callback(const opdock_host_api *host, void * /*user_data*/, int32_t index, void *stream,
                              void (*function)(void *), void *argument) {
    return on(host, index, "adding a callback to a stream",
              [&] { return cudaLaunchHostFunc(stream_of(stream), function, argument); });
}
#endif

opdock_device_provider make_table() {
    opdock_device_provider table = {};
    table.struct_size = OPDOCK_STRUCT_SIZE(opdock_device_provider, stream_callback);
    table.dl_device_type = device_type;
    table.device = device_name;
#ifdef __HIP__
    table.stream_type = "hipStream_t";
#else
    table.flags = OPDOCK_DEVICE_ORDERED_ARCHITECTURES;
    table.stream_type = "cudaStream_t";
#endif
    table.count = count;
    table.properties = properties;
    table.get_current = get_current;
    table.make_current = make_current;
    table.allocate = allocate;
    table.free = release;
    table.copy = copy;
    table.stream_create = stream_create;
    table.stream_destroy = stream_destroy;
    table.stream_synchronize = stream_synchronize;
    table.stream_is_capturing = stream_is_capturing;
    table.event_create = event_create;
    table.event_destroy = event_destroy;
    table.event_record = event_record;
    table.event_elapsed = event_elapsed;
#ifndef __HIP__
    table.stream_callback = stream_callback;
#endif
    return table;
}

} // namespace

const opdock_device_provider &device_table() {
    static const opdock_device_provider table = make_table();
    return table;
}

} // namespace gpu
