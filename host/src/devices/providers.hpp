// Device types: the host's own "cpu", the table of types that plugins provide, the current device, and the spelling of
// devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "load/registration.hpp"

namespace opdock::core {

inline bool same_device(DLDevice a, DLDevice b) {
    return a.device_type == b.device_type && a.device_id == b.device_id;
}

// The host's provider of "cpu": one device, plain memory, no streams.
std::shared_ptr<const DeviceProvider> cpu_provider();

using DeviceProviders = std::vector<std::shared_ptr<const DeviceProvider>>;

// Makes a device current for the calling thread during its lifetime, then restores the previous one. If the device is
// already current, only queries it; does nothing for a null provider. On failure status() holds the error, and the
// message is left as by fail().
class [[nodiscard]] CurrentDevice {
  public:
    CurrentDevice(const opdock_host_api &host, const DeviceProvider *provider, int32_t index)
        : host_(host), provider_(provider) {
        if (provider != nullptr) {
            enter(index);
        }
    }
    CurrentDevice(const CurrentDevice &) = delete;
    CurrentDevice &operator=(const CurrentDevice &) = delete;
    ~CurrentDevice() {
        if (before_ >= 0) {
            put_back();
        }
    }

    opdock_status status() const { return status_; }

  private:
    void enter(int32_t index);
    void put_back() noexcept;

    const opdock_host_api &host_;
    const DeviceProvider *const provider_;
    int32_t before_ = -1; // device to restore; negative: none
    opdock_status status_ = OPDOCK_OK;
};

// The first provider of the DLPack device type, or null.
const DeviceProvider *find_provider(const DeviceProviders &providers, int32_t dl_device_type);

// The provider of the type (compared case-insensitively), or null.
const DeviceProvider *find_provider(const DeviceProviders &providers, std::string_view type);

// "cuda": the provider's name of the type, else DLPack's ("cuda", "rocm", ...), else "device-type-99".
std::string device_type(const DeviceProviders &providers, int32_t dl_device_type);

// True if DLPack has a device type of this name, whether or not it is provided here.
bool is_dlpack_type(std::string_view name);

// "cuda:1"
std::string device_text(const DeviceProviders &providers, DLDevice device);

struct SpelledDevice {
    std::string_view type;
    int32_t index = 0;
};

// Splits "cuda" or "cuda:1", for any type; nullopt if the index is invalid.
std::optional<SpelledDevice> split_device(std::string_view text);

// Parses "cuda" or "cuda:1", case-insensitively; nullopt for anything else.
std::optional<DLDevice> find_device(const DeviceProviders &providers, std::string_view text);

// Like find_device, but throws Error(OPDOCK_INVALID_ARGUMENT) for anything else.
DLDevice parse_device(const DeviceProviders &providers, std::string_view text);

} // namespace opdock::core
