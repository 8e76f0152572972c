#include "device.hpp"

#include <cstdio>
#include <new>

#include "driver.hpp"

namespace npu {
namespace {

// The host passes indices below count(), on any thread, whichever device is current there.

opdock_status count(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t *count) {
    *count = nova::device_count();
    return OPDOCK_OK;
}

opdock_status properties(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t index,
                         opdock_device_properties *properties) {
    opdock_device_properties known = {};
    (void)std::snprintf(known.name, sizeof known.name, "Nova N1");
    (void)std::snprintf(known.architecture, sizeof known.architecture, "nova_1");
    (void)std::snprintf(known.uuid, sizeof known.uuid, "nova-%d", index);
    (void)std::snprintf(known.driver, sizeof known.driver, "1.0");
    known.memory = nova::memory;
    known.compute_units = 8;
    known.warp_size = 1;
    opdock_device_properties_give(properties, &known);
    return OPDOCK_OK;
}

opdock_status get_current(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t *index) {
    *index = nova::current_device();
    return OPDOCK_OK;
}

opdock_status make_current(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t index) {
    nova::make_current(index);
    return OPDOCK_OK;
}

opdock_status allocate(const opdock_host_api *host, void * /*user_data*/, int32_t /*index*/, void * /*stream*/,
                       uint64_t bytes, void **memory) {
    *memory = nova::allocate(bytes);
    return *memory != nullptr ? OPDOCK_OK : host->fail(host, OPDOCK_OUT_OF_MEMORY, "the device has no memory left");
}

opdock_status free_memory(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void * /*stream*/,
                          void *memory) {
    nova::release(memory);
    return OPDOCK_OK;
}

opdock_status copy(const opdock_host_api * /*host*/, void * /*user_data*/, void *to, DLDevice /*to_device*/,
                   const void *from, DLDevice /*from_device*/, uint64_t bytes, void *stream) {
    nova::copy(to, from, bytes, static_cast<nova::Stream *>(stream));
    return OPDOCK_OK;
}

opdock_status stream_create(const opdock_host_api *host, void * /*user_data*/, int32_t index, void **stream) {
    *stream = new (std::nothrow) nova::Stream{index};
    return *stream != nullptr ? OPDOCK_OK : host->fail(host, OPDOCK_OUT_OF_MEMORY, "no memory for a stream");
}

opdock_status stream_destroy(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void *stream) {
    delete static_cast<nova::Stream *>(stream);
    return OPDOCK_OK;
}

opdock_status stream_synchronize(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/,
                                 void * /*stream*/) {
    return OPDOCK_OK; // all queued work has run
}

opdock_status stream_is_capturing(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/,
                                  void * /*stream*/, int32_t *capturing) {
    *capturing = 0; // there are no graphs
    return OPDOCK_OK;
}

opdock_status event_create(const opdock_host_api *host, void * /*user_data*/, int32_t /*index*/, void **event) {
    *event = new (std::nothrow) nova::Event{};
    return *event != nullptr ? OPDOCK_OK : host->fail(host, OPDOCK_OUT_OF_MEMORY, "no memory for an event");
}

opdock_status event_destroy(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void *event) {
    delete static_cast<nova::Event *>(event);
    return OPDOCK_OK;
}

opdock_status event_record(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void *event,
                           void * /*stream*/) {
    static_cast<nova::Event *>(event)->time = std::chrono::steady_clock::now();
    return OPDOCK_OK;
}

opdock_status event_elapsed(const opdock_host_api * /*host*/, void * /*user_data*/, int32_t /*index*/, void *begin,
                            void *end, float *milliseconds) {
    const auto passed = static_cast<nova::Event *>(end)->time - static_cast<nova::Event *>(begin)->time;
    *milliseconds = std::chrono::duration<float, std::milli>(passed).count();
    return OPDOCK_OK;
}

} // namespace

opdock_device_provider provider() {
    opdock_device_provider device = {};
    device.struct_size = OPDOCK_STRUCT_SIZE(opdock_device_provider, event_elapsed);
    // DLPack's type for devices without a name of their own. A framework's tensors use it too.
    device.dl_device_type = kDLExtDev;
    device.device = type;
    device.stream_type = "nova::Stream *";
    device.count = count;
    device.properties = properties;
    device.get_current = get_current;
    device.make_current = make_current;
    device.allocate = allocate;
    device.free = free_memory;
    device.copy = copy;
    device.stream_create = stream_create;
    device.stream_destroy = stream_destroy;
    device.stream_synchronize = stream_synchronize;
    device.stream_is_capturing = stream_is_capturing;
    device.event_create = event_create;
    device.event_destroy = event_destroy;
    device.event_record = event_record;
    device.event_elapsed = event_elapsed;
    return device;
}

} // namespace npu
