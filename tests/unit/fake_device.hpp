// A device type for tests. Its memory is the host's, so that kernels can run, and its provider records its calls.
// Events on the stream &clock tell the time of that clock, which kernels advance; other events that of the machine.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "made_host.hpp"

namespace opdock::test {

struct FakeKind {
    std::string device = "fake";
    std::string stream_type = "FakeStream";
    int32_t type = kDLExtDev;
    uint32_t flags = 0;
    std::vector<std::string> architectures = {"fk_10", "fk_20"}; // of each device
    std::string model = "Fake 1";
    std::string driver = "1.0";
    uint64_t cache = 0; // bytes; 0: unknown

    double clock = 0;               // microseconds
    double slowness = 1;            // reported microseconds per microsecond of the clock
    int32_t current = -1;           // none yet
    const void *captured = nullptr; // the stream that is being captured
    opdock_status get_current_status = OPDOCK_OK;
    opdock_status make_current_status = OPDOCK_OK;
    int make_current_failures = 1000; // number of calls that return that status before it works again
    opdock_status allocate_status = OPDOCK_OK;
    opdock_status count_status = OPDOCK_OK;
    std::optional<int32_t> counted;        // reported instead of the number of devices
    std::vector<std::string> events;       // "make_current 1", in order
    std::vector<int32_t> indices;          // arguments of every function that takes an index
    std::vector<const void *> streams;     // arguments of allocate, free and stream_callback
    std::vector<uint32_t> property_sizes;  // struct_size as seen by `properties`
    std::vector<const void *> outstanding; // allocated and not yet freed
    std::vector<uint64_t> allocated;       // bytes of each
    std::vector<uint64_t> copied;          // bytes of each copy within the device
    std::vector<uint64_t> received;        // bytes of each copy from the host
    std::vector<uint64_t> sent;            // bytes of each copy to the host
    bool is_copying = false;               // true from a copy until a stream is synchronized
    int64_t overtaken = 0;                 // copies followed by another one before a synchronization
    int64_t device_events = 0;             // created and not yet destroyed
    std::function<void()> done;            // to be called when work has run

    int64_t count(const std::string &event) const { return std::count(events.begin(), events.end(), event); }
    opdock_device_provider table();
    opdock_status provide(opdock_registry *registry) {
        const opdock_device_provider made = table();
        return registry->register_device_provider(registry, &made);
    }
};

inline FakeKind &fake_of(void *user_data, int32_t index, const char *function) {
    FakeKind &fake = *static_cast<FakeKind *>(user_data);
    fake.events.push_back(function + (" " + std::to_string(index)));
    fake.indices.push_back(index);
    return fake;
}

inline opdock_status fake_stream(const opdock_host_api *, void *user_data, int32_t index, void *) {
    fake_of(user_data, index, "stream");
    return OPDOCK_OK;
}

inline opdock_device_provider FakeKind::table() {
    opdock_device_provider table = {};
    table.struct_size = OPDOCK_STRUCT_SIZE(opdock_device_provider, stream_callback);
    table.flags = flags;
    table.dl_device_type = type;
    table.device = device.c_str();
    table.stream_type = stream_type.c_str();
    table.user_data = this;
    table.count = [](const opdock_host_api *host, void *user_data, int32_t *count) {
        FakeKind &fake = *static_cast<FakeKind *>(user_data);
        fake.events.emplace_back("count");
        *count = fake.counted.value_or(static_cast<int32_t>(fake.architectures.size()));
        return fake.count_status == OPDOCK_OK ? OPDOCK_OK : host->fail(host, fake.count_status, "no driver here");
    };
    table.properties = [](const opdock_host_api *, void *user_data, int32_t index,
                          opdock_device_properties *properties) {
        FakeKind &fake = fake_of(user_data, index, "properties");
        fake.property_sizes.push_back(properties->struct_size);
        const std::string &architecture = fake.architectures.at(static_cast<size_t>(index));
        opdock_device_properties known = {};
        std::memcpy(known.architecture, architecture.c_str(), architecture.size() + 1);
        std::memcpy(known.name, fake.model.c_str(), fake.model.size() + 1);
        known.cache = fake.cache;
        std::memcpy(known.driver, fake.driver.c_str(), fake.driver.size() + 1);
        opdock_device_properties_give(properties, &known);
        return OPDOCK_OK;
    };
    table.get_current = [](const opdock_host_api *host, void *user_data, int32_t *index) {
        FakeKind &fake = *static_cast<FakeKind *>(user_data);
        fake.events.emplace_back("get_current");
        *index = fake.current;
        return fake.get_current_status == OPDOCK_OK
                   ? OPDOCK_OK
                   : host->fail(host, fake.get_current_status, "the fake does not know");
    };
    table.make_current = [](const opdock_host_api *host, void *user_data, int32_t index) {
        FakeKind &fake = fake_of(user_data, index, "make_current");
        if (fake.make_current_status != OPDOCK_OK && fake.make_current_failures-- > 0) {
            return host->fail(host, fake.make_current_status, "the fake does not answer");
        }
        fake.current = index;
        return OPDOCK_OK;
    };
    table.allocate = [](const opdock_host_api *host, void *user_data, int32_t index, void *stream, uint64_t bytes,
                        void **memory) {
        FakeKind &fake = fake_of(user_data, index, "allocate");
        fake.streams.push_back(stream);
        if (fake.allocate_status != OPDOCK_OK) {
            return host->fail(host, fake.allocate_status, "the fake has no memory to give");
        }
        *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
        fake.outstanding.push_back(*memory);
        fake.allocated.push_back(bytes);
        return OPDOCK_OK;
    };
    table.free = [](const opdock_host_api *, void *user_data, int32_t index, void *stream,
                    void *memory) -> opdock_status {
        FakeKind &fake = fake_of(user_data, index, "free");
        fake.streams.push_back(stream);
        std::erase(fake.outstanding, memory);
        std::free(memory);
        return OPDOCK_OK;
    };
    table.copy = [](const opdock_host_api *, void *user_data, void *to, DLDevice to_device, const void *from,
                    DLDevice from_device, uint64_t bytes, void *) -> opdock_status {
        if (to_device.device_type == from_device.device_type) {
            static_cast<FakeKind *>(user_data)->copied.push_back(bytes);
        } else if ((to_device.device_type == kDLCPU ? to_device : from_device).device_id != 0) {
            return OPDOCK_INVALID_ARGUMENT; // the host is one device
        } else if (to_device.device_type != kDLCPU) {
            static_cast<FakeKind *>(user_data)->received.push_back(bytes);
        } else {
            static_cast<FakeKind *>(user_data)->sent.push_back(bytes);
        }
        FakeKind &fake = *static_cast<FakeKind *>(user_data);
        fake.overtaken += fake.is_copying ? 1 : 0;
        fake.is_copying = true;
        std::memcpy(to, from, bytes);
        return OPDOCK_OK;
    };
    table.stream_create = [](const opdock_host_api *, void *, int32_t, void **) -> opdock_status { return OPDOCK_OK; };
    table.stream_destroy = fake_stream;
    table.stream_synchronize = [](const opdock_host_api *, void *user_data, int32_t index, void *) -> opdock_status {
        fake_of(user_data, index, "stream").is_copying = false;
        return OPDOCK_OK;
    };
    table.stream_is_capturing = [](const opdock_host_api *, void *user_data, int32_t index, void *stream,
                                   int32_t *capturing) -> opdock_status {
        const FakeKind &fake = fake_of(user_data, index, "is_capturing");
        *capturing = stream != nullptr && stream == fake.captured ? 1 : 0;
        return OPDOCK_OK;
    };
    table.event_create = [](const opdock_host_api *, void *user_data, int32_t, void **event) -> opdock_status {
        *event = new double;
        ++static_cast<FakeKind *>(user_data)->device_events;
        return OPDOCK_OK;
    };
    table.event_destroy = [](const opdock_host_api *, void *user_data, int32_t, void *event) -> opdock_status {
        delete static_cast<double *>(event);
        --static_cast<FakeKind *>(user_data)->device_events;
        return OPDOCK_OK;
    };
    table.event_record = [](const opdock_host_api *, void *user_data, int32_t, void *event,
                            void *stream) -> opdock_status {
        const FakeKind &fake = *static_cast<FakeKind *>(user_data);
        const std::chrono::duration<double, std::micro> now = std::chrono::steady_clock::now().time_since_epoch();
        *static_cast<double *>(event) = stream == &fake.clock ? fake.clock * fake.slowness : now.count();
        return OPDOCK_OK;
    };
    table.event_elapsed = [](const opdock_host_api *, void *, int32_t, void *begin, void *end,
                             float *milliseconds) -> opdock_status {
        const double passed = *static_cast<double *>(end) - *static_cast<double *>(begin);
        *milliseconds = static_cast<float>(passed / 1000);
        return OPDOCK_OK;
    };
    table.stream_callback = [](const opdock_host_api *, void *user_data, int32_t index, void *stream,
                               void (*function)(void *), void *argument) -> opdock_status {
        FakeKind &fake = fake_of(user_data, index, "stream_callback");
        fake.streams.push_back(stream);
        fake.done = [=] { function(argument); };
        return OPDOCK_OK;
    };
    return table;
}

inline DLDevice fake_device(int32_t index) {
    return {kDLExtDev, index};
}

// Two rows of three f32 on a fake device, and the call that adds to them.
struct FakeRows {
    explicit FakeRows(int32_t index = 0)
        : x(in.data(), f32, {2, 3}, fake_device(index)), y(out.data(), f32, {2, 3}, fake_device(index)) {}
    FakeRows(const FakeRows &) = delete;
    FakeRows &operator=(const FakeRows &) = delete;

    std::vector<float> in = {1, 2, 3, 4, 5, 6};
    std::vector<float> out = std::vector<float>(6, -1);
    Tensor x;
    Tensor y;

    opdock_status call(Op op, void *stream = nullptr) { return op.try_call({x}, {y}, {}, stream); }
    // The amount that was added, or -1000 if the call failed.
    float added(Op op, void *stream = nullptr) { return call(op, stream) == OPDOCK_OK ? out[0] - in[0] : -1000; }
    opdock_status call_with(Op op, void *workspace, uint64_t bytes) {
        const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
        return op.try_call(Args(inputs, outputs).workspace(workspace, bytes));
    }
};

// A host with the fake type's provider.
struct HostWithFake {
    explicit HostWithFake(const core::RawEnvironment &environment = {}, core::WorkspaceAllocator workspace = {})
        : host(environment, "/nonexistent", {}, workspace) {
        provide();
    }
    HostWithFake(const HostWithFake &) = delete;
    HostWithFake &operator=(const HostWithFake &) = delete;

    void provide() {
        host.module("fake-devices", [this](opdock_registry *registry) { return fake.provide(registry); });
    }
    // An implementation of test.add on the fake type.
    Made &add(std::string impl_id, float bias, std::function<void(opdock_impl &)> adjust = nullptr,
              uint32_t kind = OPDOCK_KIND_DEFAULT) {
        auto made = std::make_unique<Made>(std::move(impl_id), kind, kind == OPDOCK_KIND_VENDOR ? "acme" : "", bias);
        made->device = fake.device;
        made->adjust = std::move(adjust);
        return host.add(std::move(made));
    }

    FakeKind fake; // outlives the host
    MadeHost host;
};

} // namespace opdock::test
