#include "devices/devices.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include <spdlog/fmt/fmt.h>

#include "load/plugin_call.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Maximum number of devices of one type. Bounds the state kept per device, also without a provider that counts them.
constexpr int32_t most_devices = 1024;

const DeviceProviders no_providers;

// Makes the texts printable, as messages and files of tuned configs show them.
void make_texts_visible(opdock_device_properties &properties) {
    for (const std::span<char> text : {std::span<char>(properties.name), std::span<char>(properties.architecture),
                                       std::span<char>(properties.uuid), std::span<char>(properties.driver)}) {
        text.back() = '\0';
        const std::string shown = visible_line(text.data());
        text[shown.copy(text.data(), text.size() - 1)] = '\0';
    }
}

} // namespace

struct Devices::Known {
    std::mutex querying;                        // guards `queries`; held while a command runs
    std::map<std::string, std::string> queries; // command -> its answer, "" if the device is present

    std::mutex mutex; // guards everything below; never held while a plugin's code runs
    Answers answers;
    std::vector<std::unique_ptr<opdock_device_properties>> kept_properties; // never freed: plugins may still read them
    std::map<std::pair<int32_t, int32_t>, std::string> lost;                // device -> message of the loss

    const Known *of_parent = nullptr; // abandoned, but kept reachable for leak checkers
};

Devices::Devices(const opdock_host_api &api, Ask ask)
    : api_(api), ask_(std::move(ask)), providers_(&no_providers), known_(new Known) {}

Devices::~Devices() {
    delete known_.load();
}

const DeviceProvider *Devices::provider_to_enter(DLDevice device) const {
    return device.device_type == kDLCPU ? nullptr : find_provider(providers(), device.device_type);
}

bool Devices::is_capturing(DLDevice device, void *stream) const {
    const DeviceProvider *provider = provider_to_enter(device);
    if (provider == nullptr) {
        return false;
    }
    int32_t capturing = 0;
    const opdock_status status = call_plugin([&] {
        return provider->table.stream_is_capturing(&api_, provider->table.user_data, device.device_id, stream,
                                                   &capturing);
    });
    return status == OPDOCK_OK && capturing != 0;
}

DeviceCount Devices::count(const DeviceProvider &provider) const {
    Known &all = known();
    {
        const std::lock_guard lock(all.mutex);
        const auto answer = all.answers.counts.find(&provider);
        if (answer != all.answers.counts.end()) {
            return answer->second;
        }
    }
    DeviceCount found;
    const opdock_status status =
        call_plugin([&] { return provider.table.count(&api_, provider.table.user_data, &found.count); });
    if (status != OPDOCK_OK) {
        found = {0, take_message(status)};
    } else if (found.count < 0 || found.count > most_devices) {
        found = {0, fmt::format("its provider reports {} devices; expected 0 to {}", found.count, most_devices)};
    }
    const std::lock_guard lock(all.mutex);
    return all.answers.counts.try_emplace(&provider, std::move(found)).first->second;
}

const opdock_device_properties *Devices::properties(DLDevice device) const {
    const DeviceProvider *provider = find_provider(providers(), device.device_type);
    if (provider == nullptr || !missing(device).empty()) {
        return nullptr; // not cached: a plugin that is loaded later may know it
    }
    Known &all = known();
    {
        const std::lock_guard lock(all.mutex);
        const auto answer = all.answers.properties.find(device_key(device));
        if (answer != all.answers.properties.end()) {
            return answer->second;
        }
    }
    auto properties = std::make_unique<opdock_device_properties>();
    properties->struct_size = OPDOCK_STRUCT_SIZE(opdock_device_properties, cache);
    const opdock_status status = call_plugin([&] {
        return provider->table.properties(&api_, provider->table.user_data, device.device_id, properties.get());
    });
    make_texts_visible(*properties);
    const std::lock_guard lock(all.mutex);
    if (status != OPDOCK_OK) {
        return all.answers.properties.try_emplace(device_key(device), nullptr).first->second;
    }
    auto same = std::find_if(all.kept_properties.begin(), all.kept_properties.end(), [&](const auto &kept) {
        return std::memcmp(kept.get(), properties.get(), sizeof *properties) == 0;
    });
    if (same == all.kept_properties.end()) {
        same = all.kept_properties.insert(same, std::move(properties));
    }
    return all.answers.properties.try_emplace(device_key(device), same->get()).first->second;
}

std::string Devices::architecture(DLDevice device) const {
    const opdock_device_properties *said = properties(device);
    return said != nullptr ? said->architecture : "";
}

bool Devices::known_architecture(DLDevice device, std::string *architecture) const {
    Known &all = known();
    const std::lock_guard lock(all.mutex);
    const auto answer = all.answers.properties.find(device_key(device));
    if (answer == all.answers.properties.end()) {
        return false;
    }
    *architecture = answer->second != nullptr ? answer->second->architecture : "";
    return true;
}

std::string Devices::missing(DLDevice device) const {
    if (device.device_type == kDLCPU && device.device_id == 0) {
        return {}; // the common case
    }
    const DeviceProvider *provider = find_provider(providers(), device.device_type);
    const DeviceCount there = provider != nullptr ? count(*provider) : DeviceCount{most_devices, ""};
    if (device.device_id >= 0 && device.device_id < there.count) {
        return {};
    }
    if (provider == nullptr) {
        return fmt::format("there is no device {}: no plugin reports devices of this type, and indices are below {}",
                           text(device), there.count);
    }
    if (provider->plugin.empty()) {
        return fmt::format("there is no device {}: CPU memory belongs to {}:0", text(device), provider->type);
    }
    return fmt::format("there is no device {}: plugin '{}' reports {}{}", text(device), provider->plugin,
                       counted(static_cast<std::uint64_t>(there.count), "device"),
                       there.reason.empty() ? "" : " (" + there.reason + ")");
}

std::string Devices::query(const Implementation &implementation, DLDevice device) const {
    return implementation.device_query.empty() || find_provider(providers(), device.device_type) != nullptr
               ? ""
               : query(implementation.device_query);
}

std::string Devices::query(const std::string &command) const {
    Known &all = known();
    const std::lock_guard lock(all.querying);
    const auto answer = all.queries.find(command);
    if (answer != all.queries.end()) {
        return answer->second;
    }
    return all.queries.emplace(command, ask_(command)).first->second;
}

bool Devices::lose(DLDevice device, const std::string &message) {
    Known &all = known();
    const std::lock_guard lock(all.mutex);
    return all.lost.emplace(device_key(device), message).second;
}

void Devices::check(DLDevice device) const {
    if (const std::string why = missing(device); !why.empty()) {
        throw Error(OPDOCK_INVALID_ARGUMENT, why);
    }
    Known &all = known();
    const std::lock_guard lock(all.mutex);
    const auto found = all.lost.find(device_key(device));
    if (found != all.lost.end()) {
        throw Error(OPDOCK_DEVICE_LOST,
                    fmt::format("device {} was lost and is no longer used: {}", text(device), found->second));
    }
}

Devices::Answers Devices::forget() {
    Known &all = known();
    Answers answers;
    {
        const std::lock_guard lock(all.mutex);
        std::swap(answers, all.answers);
    }
    const std::lock_guard lock(all.querying);
    all.queries.clear();
    return answers;
}

bool Devices::differs_from(const Answers &before) const {
    bool differs = false;
    for (const auto &[provider, answer] : before.counts) {
        differs = count(*provider) != answer || differs;
    }
    for (const auto &[device, answer] : before.properties) {
        differs = properties({static_cast<DLDeviceType>(device.first), device.second}) != answer || differs;
    }
    return differs;
}

void Devices::start_over_in_child() {
    auto *fresh = new Known;
    fresh->of_parent = &known();
    known_.store(fresh, std::memory_order_release);
}

} // namespace opdock::core
