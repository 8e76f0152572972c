#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "opdock/plugin.hpp"

namespace {

constexpr std::uint32_t known = OPDOCK_STRUCT_SIZE(opdock_device_properties, cache);

opdock_device_properties filled_in() {
    opdock_device_properties properties = {};
    properties.struct_size = 12345; // a provider need not set it
    (void)std::snprintf(properties.name, sizeof properties.name, "Nova N1");
    properties.memory = 1;
    properties.warp_size = 32;
    properties.shared_memory = 3;
    properties.cache = 4;
    return properties;
}

// A host's struct of the given size, zeroed, with other bytes behind it.
struct HostsProperties {
    explicit HostsProperties(std::uint32_t size) : bytes(size + 64, 0xab) {
        std::memset(bytes.data(), 0, size);
        std::memcpy(bytes.data(), &size, sizeof size);
    }
    void take(const opdock_device_properties &given) {
        // The host's struct may be shorter than this header's; the provider fills in a full one of its own.
        opdock_device_properties_give(reinterpret_cast<opdock_device_properties *>(bytes.data()), &given);
    }
    template<class Field>
    Field at(std::size_t offset) const {
        Field field;
        std::memcpy(&field, bytes.data() + offset, sizeof field);
        return field;
    }
    bool is_untouched_from(std::size_t offset, unsigned char value) const {
        for (std::size_t i = offset; i < offset + 64 && i < bytes.size(); ++i)
            if (bytes[i] != value)
                return false;
        return true;
    }

    std::vector<unsigned char> bytes;
};

} // namespace

TEST_CASE("a provider gives its properties to a host of the same header") {
    HostsProperties host(known);
    host.take(filled_in());
    CHECK(host.at<std::uint32_t>(0) == known);
    CHECK(std::string(reinterpret_cast<const char *>(host.bytes.data()) + offsetof(opdock_device_properties, name)) ==
          "Nova N1");
    CHECK(host.at<std::uint64_t>(offsetof(opdock_device_properties, cache)) == 4);
    CHECK(host.is_untouched_from(known, 0xab));
}

TEST_CASE("a provider whose header has more than an older host's writes nothing behind the host's struct") {
    // A field that the older header lacks stands for one that a later version appends.
    const std::uint32_t older = OPDOCK_STRUCT_SIZE(opdock_device_properties, warp_size);
    HostsProperties host(older);
    host.take(filled_in());
    CHECK(host.at<std::uint32_t>(0) == older);
    CHECK(host.at<std::uint32_t>(offsetof(opdock_device_properties, warp_size)) == 32);
    CHECK(host.is_untouched_from(older, 0xab));
}

TEST_CASE("what a newer host has besides stays 0 where a provider does not know it") {
    HostsProperties host(known + 16);
    host.take(filled_in());
    CHECK(host.at<std::uint32_t>(0) == known + 16);
    CHECK(host.at<std::uint64_t>(offsetof(opdock_device_properties, cache)) == 4);
    CHECK(host.at<std::uint64_t>(known) == 0);
    CHECK(host.at<std::uint64_t>(known + 8) == 0);
    CHECK(host.is_untouched_from(known + 16, 0xab));
}
