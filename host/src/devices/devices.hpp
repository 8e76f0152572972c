// The devices of this machine as their providers tell of them, asked once and remembered.
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

// The count of a provider's devices.
struct DeviceCount {
    int32_t count = 0;
    std::string reason; // why it could not say

    bool operator==(const DeviceCount &) const = default;
};

// A key for maps of devices.
inline std::pair<int32_t, int32_t> device_key(DLDevice device) {
    return {static_cast<int32_t>(device.device_type), device.device_id};
}

// Safe to use from any thread. No lock is held while a provider is asked.
class Devices {
  public:
    // Runs a vendor's device_query_command; "" when the device is there, else why not.
    using Ask = std::function<std::string(const std::string &command)>;

    Devices(const opdock_host_api &api, Ask ask);
    ~Devices();
    Devices(const Devices &) = delete;
    Devices &operator=(const Devices &) = delete;

    const opdock_host_api &api() const { return api_; }
    // Empty before the first were published.
    const DeviceProviders &providers() const { return *providers_.load(std::memory_order_acquire); }
    // `providers` have to live as long as this.
    void publish(const DeviceProviders &providers) { providers_.store(&providers, std::memory_order_release); }

    // "cuda:1"
    std::string text(DLDevice device) const { return device_text(providers(), device); }
    // The provider of a device that calls have to make current; null for the CPU and types nobody provides.
    const DeviceProvider *provider_to_enter(DLDevice device) const;
    // Makes the device current for this thread, where that means anything, as long as what is returned lives.
    CurrentDevice enter(DLDevice device) const { return {api_, provider_to_enter(device), device.device_id}; }
    bool is_capturing(DLDevice device, void *stream) const;

    DeviceCount count(const DeviceProvider &provider) const;
    // The properties that the provider states. Null where the device is not there, or its provider failed to state
    // them. Valid as long as this.
    const opdock_device_properties *properties(DLDevice device) const;
    // Empty where nobody says.
    std::string architecture(DLDevice device) const;
    // The same of what is known, without asking; false where nobody asked yet.
    bool known_architecture(DLDevice device, std::string *architecture) const;
    // "there is no device cuda:7: ..." for one that its provider does not have; empty for every other. Of a type that
    // nobody provides every index that machines have is taken to be there.
    std::string missing(DLDevice device) const;
    // Why the device of the implementation's vendor is not there, by the vendor's device_query_command; empty when it
    // is, when there is no such command, and where a provider counts devices of the type.
    std::string query(const Implementation &implementation, DLDevice device) const;
    // The same; while the command runs, others who need its answer wait.
    std::string query(const std::string &command) const;

    // Nothing is tried any more on a device that was lost. True the first time.
    bool lose(DLDevice device, const std::string &message);
    // Throws Error: OPDOCK_INVALID_ARGUMENT for a missing device, OPDOCK_DEVICE_LOST for one that was lost.
    void check(DLDevice device) const;

    // Answers of providers.
    struct Answers {
        std::map<const DeviceProvider *, DeviceCount> counts;
        std::map<std::pair<int32_t, int32_t>, const opdock_device_properties *> properties; // null: it could not say
    };
    // Forgets what was answered, commands of vendors included, and returns it.
    Answers forget();
    // Asks again what was asked before; true when an answer is another one.
    bool differs_from(const Answers &before) const;

    // In a forked child: abandons what threads of the parent may have been changing.
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
