// The devices of this machine as their providers report them, queried once and cached.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devices/providers.hpp"

namespace opdock::core {

// Number of a provider's devices.
struct DeviceCount {
    int32_t count = 0;
    std::string reason; // why the provider could not count them

    bool operator==(const DeviceCount &) const = default;
};

// A key for maps of devices.
inline std::pair<int32_t, int32_t> device_key(DLDevice device) {
    return {static_cast<int32_t>(device.device_type), device.device_id};
}

// Safe to use from any thread. Holds no lock while it queries a provider.
class Devices {
  public:
    // Runs a vendor's device_query_command. Returns "" if the device is present, else why not.
    using Ask = std::function<std::string(const std::string &command)>;

    Devices(const opdock_host_api &api, Ask ask);
    ~Devices();
    Devices(const Devices &) = delete;
    Devices &operator=(const Devices &) = delete;

    const opdock_host_api &api() const { return api_; }
    // Empty before the first publish().
    const DeviceProviders &providers() const { return *providers_.load(std::memory_order_acquire); }
    // `providers` must outlive this.
    void publish(const DeviceProviders &providers) { providers_.store(&providers, std::memory_order_release); }

    // "cuda:1"
    std::string text(DLDevice device) const { return device_text(providers(), device); }
    // The provider of a device that calls must make current; null for the CPU and for types without a provider.
    const DeviceProvider *provider_to_enter(DLDevice device) const;
    // Makes the device current for this thread, if that applies, for the lifetime of the returned object.
    CurrentDevice enter(DLDevice device) const { return {api_, provider_to_enter(device), device.device_id}; }
    bool is_capturing(DLDevice device, void *stream) const;

    DeviceCount count(const DeviceProvider &provider) const;
    // Properties from the device's provider. Null if the device is missing, or if its provider failed to report them.
    // Valid as long as this.
    const opdock_device_properties *properties(DLDevice device) const;
    // Empty if unknown.
    std::string architecture(DLDevice device) const;
    // Like architecture(), from the cache only; false if it has not been queried yet.
    bool known_architecture(DLDevice device, std::string *architecture) const;
    // "there is no device cuda:7: ..." if the provider lacks the device; otherwise empty. If a type has no provider,
    // every index that real machines can have is considered present.
    std::string missing(DLDevice device) const;
    // Runs the vendor's device_query_command: why the device of the implementation's vendor is not present. Empty if it
    // is, if there is no such command, and if a provider counts devices of the type.
    std::string query(const Implementation &implementation, DLDevice device) const;
    // Runs a command of this kind; while it runs, other threads that need its answer wait.
    std::string query(const std::string &command) const;

    // Marks the device as lost; nothing is tried on it any more. Returns true the first time.
    bool lose(DLDevice device, const std::string &message);
    // Throws Error: OPDOCK_INVALID_ARGUMENT for a missing device, OPDOCK_DEVICE_LOST for a lost one.
    void check(DLDevice device) const;

    // Cached answers of providers.
    struct Answers {
        std::map<const DeviceProvider *, DeviceCount> counts;
        std::map<std::pair<int32_t, int32_t>, const opdock_device_properties *> properties; // null: the provider failed
    };
    // Discards and returns the cached answers, including those of vendors' commands.
    Answers forget();
    // Repeats earlier queries; true if an answer has changed.
    bool differs_from(const Answers &before) const;

    // In a forked child: abandons state that threads of the parent may have been changing.
    void start_over_in_child();

  private:
    struct Known;

    Known &known() const { return *known_.load(std::memory_order_acquire); }

    const opdock_host_api &api_;
    const Ask ask_;
    std::atomic<const DeviceProviders *> providers_;
    std::atomic<Known *> known_;
};

} // namespace opdock::core
