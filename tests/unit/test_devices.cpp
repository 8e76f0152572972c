// The host's own device, and the spelling of devices.
#include "devices/providers.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <regex>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include "opdock/opdock.h"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;

namespace {

opdock_status returns_status(const opdock_host_api * /*host*/, opdock_status status, const char * /*message*/) {
    return status;
}

opdock_host_api host_that_fails() {
    opdock_host_api host = {};
    host.fail = returns_status;
    return host;
}

DLDevice device_of(int32_t type, int32_t index) {
    return {static_cast<DLDeviceType>(type), index};
}

// Model of the first processor; nothing if the kernel does not name it.
std::optional<std::string> model_of_cpuinfo() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        std::smatch found;
        if (std::regex_match(line, found, std::regex("model name\\s*: *(.*\\S)\\s*"))) {
            return found[1].str().substr(0, 127);
        }
    }
    return std::nullopt;
}

} // namespace

TEST_CASE("the cpu is one device without streams, whose memory lies at 256 bytes") {
    const opdock_host_api host = host_that_fails();
    const opdock_device_provider &cpu = cpu_provider()->table;
    int32_t number = -1;
    CHECK(cpu.count(&host, nullptr, &number) == OPDOCK_OK);
    CHECK(number == 1);
    CHECK(cpu.get_current(&host, nullptr, &number) == OPDOCK_OK);
    CHECK(number == 0);
    CHECK(cpu.make_current(&host, nullptr, 0) == OPDOCK_OK);
    number = -1;
    CHECK(cpu.stream_is_capturing(&host, nullptr, 0, nullptr, &number) == OPDOCK_OK);
    CHECK(number == 0);
    void *stream = &number;
    CHECK(cpu.stream_create(&host, nullptr, 0, &stream) == OPDOCK_OK);
    CHECK(stream == nullptr);
    CHECK(cpu.stream_synchronize(&host, nullptr, 0, stream) == OPDOCK_OK);
    CHECK(cpu.stream_destroy(&host, nullptr, 0, stream) == OPDOCK_OK);

    void *memory = nullptr;
    REQUIRE(cpu.allocate(&host, nullptr, 0, nullptr, 8, &memory) == OPDOCK_OK);
    CHECK(reinterpret_cast<uintptr_t>(memory) % 256 == 0);
    std::array<char, 8> bytes = {};
    std::memset(memory, 7, bytes.size());
    const DLDevice here = device_of(kDLCPU, 0);
    CHECK(cpu.copy(&host, nullptr, bytes.data(), here, memory, here, bytes.size(), nullptr) == OPDOCK_OK);
    CHECK(bytes.back() == 7);
    const DLDevice there = device_of(kDLCUDA, 0);
    CHECK(cpu.copy(&host, nullptr, bytes.data(), here, memory, there, 1, nullptr) == OPDOCK_UNSUPPORTED);
    CHECK(cpu.copy(&host, nullptr, bytes.data(), there, memory, here, 1, nullptr) == OPDOCK_UNSUPPORTED);
    CHECK(cpu.free(&host, nullptr, 0, nullptr, memory) == OPDOCK_OK);
    CHECK(cpu.allocate(&host, nullptr, 0, nullptr, UINT64_MAX, &memory) == OPDOCK_OUT_OF_MEMORY);
    CHECK(memory == nullptr);
}

TEST_CASE("the cpu tells its properties, of its only index") {
    const opdock_host_api host = host_that_fails();
    const opdock_device_provider &cpu = cpu_provider()->table;
    opdock_device_properties properties = {};
    CHECK(cpu.properties(&host, nullptr, 0, &properties) == OPDOCK_OK);
    CHECK(properties.memory > 1 << 20);
    CHECK(properties.compute_units > 0);
    CHECK(properties.warp_size == 1);
    CHECK(std::string(properties.name) == model_of_cpuinfo().value_or("cpu"));
    uint64_t cache = 0;
    for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) {
        cache = sysconf(level) > 0 ? static_cast<uint64_t>(sysconf(level)) : cache;
    }
    CHECK(properties.cache == cache);
    CHECK_FALSE(std::string(properties.architecture).empty());
    CHECK(cpu.properties(&host, nullptr, 1, &properties) == OPDOCK_INVALID_ARGUMENT);
    CHECK(cpu.properties(&host, nullptr, -1, &properties) == OPDOCK_INVALID_ARGUMENT);
}

TEST_CASE("the cpu's events tell the milliseconds from one to the other") {
    const opdock_host_api host = host_that_fails();
    const opdock_device_provider &cpu = cpu_provider()->table;
    std::array<void *, 2> events = {};
    for (void *&event : events) {
        REQUIRE(cpu.event_create(&host, nullptr, 0, &event) == OPDOCK_OK);
        CHECK(cpu.event_record(&host, nullptr, 0, event, nullptr) == OPDOCK_OK);
    }
    float forth = -1, back = 1;
    CHECK(cpu.event_elapsed(&host, nullptr, 0, events[0], events[1], &forth) == OPDOCK_OK);
    CHECK(cpu.event_elapsed(&host, nullptr, 0, events[1], events[0], &back) == OPDOCK_OK);
    CHECK(forth >= 0);
    CHECK(back == -forth);
    for (void *event : events) {
        CHECK(cpu.event_destroy(&host, nullptr, 0, event) == OPDOCK_OK);
    }
    int done = 0;
    const auto count = [](void *argument) { ++*static_cast<int *>(argument); };
    CHECK(cpu.stream_callback(&host, nullptr, 0, nullptr, count, &done) == OPDOCK_OK);
    CHECK(done == 1);
}

TEST_CASE("a device is spelled as its type, or with an index that is a whole number") {
    const DeviceProviders providers = {cpu_provider()};
    const auto found = [&](const char *text) -> std::string {
        const auto device = find_device(providers, text);
        return device ? device_text(providers, *device) : "none";
    };
    CHECK(found("cpu") == "cpu:0");
    CHECK(found("CPU:0") == "cpu:0");
    CHECK(found("cpu:12") == "cpu:12");
    CHECK(found("cuda:3") == "cuda:3"); // nobody provides it
    for (const char *text : {"", ":", ":0", "cpu:", "cpu:-1", "cpu:1x", "cpu: 1", "cpu:1:", "cpu:4294967296", "cp:0"}) {
        CAPTURE(text);
        CHECK(found(text) == "none");
    }
    CHECK(message_of([&] { parse_device(providers, "cp:0"); }) ==
          "'cp:0' is not a device: expected TYPE or TYPE:INDEX with a type that a plugin provides (cpu)");
}

TEST_CASE("types of devices that nobody provides have DLPack's names, or their numbers") {
    CHECK(device_text({}, device_of(kDLCUDA, 1)) == "cuda:1");
    CHECK(device_text({}, device_of(kDLROCMHost, 0)) == "rocm-host:0");
    CHECK(device_text({}, device_of(9, 2)) == "device-type-9:2");
    CHECK(find_provider({}, kDLCPU) == nullptr);
    CHECK(find_provider({cpu_provider()}, kDLCPU) == cpu_provider().get());
    CHECK(find_provider({cpu_provider()}, kDLCUDA) == nullptr);
    for (const char *name : {"cpu", "CUDA", "rocm-host", "hip", "Hexagon"}) {
        CAPTURE(name);
        CHECK(is_dlpack_type(name));
    }
    CHECK_FALSE(is_dlpack_type("npu"));
    CHECK_FALSE(same_device(device_of(kDLCUDA, 1), device_of(kDLCUDA, 0)));
    CHECK_FALSE(same_device(device_of(kDLCUDA, 1), device_of(kDLROCM, 1)));
    CHECK(same_device(device_of(kDLCUDA, 1), device_of(kDLCUDA, 1)));
}
