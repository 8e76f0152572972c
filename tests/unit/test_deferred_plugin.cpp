#include "load/deferred_plugin.hpp"

#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fake_device.hpp"
#include "mappings.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::fake_device;
using opdock::test::is_mapped;
using opdock::test::MadeHost;
using opdock::test::TemporaryDirectory;

namespace {

const std::filesystem::path fixtures = OPDOCK_FIXTURES;

// What one call adds on a device of the plugin's; -1 when it is not served.
float added_on(MadeHost &host, int32_t index) {
    float in[] = {10, 20, 30};
    float out[] = {0, 0, 0};
    const opdock::Tensor a(in, opdock::f32, {3}, fake_device(index));
    const opdock::Tensor b(out, opdock::f32, {3}, fake_device(index));
    return host.op("acme.next").try_call({a}, {b}) == OPDOCK_OK ? out[2] - in[2] : -1;
}

} // namespace

TEST_CASE("a plugin that provides a device is listed without being opened, and opened when something runs there") {
    MadeHost host({}, "/nonexistent", {(fixtures / "libregisters_everything.so").string()});
    const nlohmann::json described = host->describe();
    CHECK(described["plugins"][0]["status"] == "loaded");
    CHECK(described["ops"][0]["chains"][0]["device"] == "npu");
    CHECK(described["ops"][0]["chains"][0]["chain"] == nlohmann::json::parse(R"(["vendor.acme"])"));
    CHECK_FALSE(is_mapped("/libregisters_everything.so"));
    CHECK(added_on(host, 0) == 1);
    CHECK(added_on(host, 1) == 2);
    CHECK(is_mapped("/libregisters_everything.so"));
}

TEST_CASE("explaining a decision asks the device for its architecture, which opens its plugin") {
    MadeHost host({}, "/nonexistent", {(fixtures / "libregisters_everything.so").string()});
    const nlohmann::json why = host->explain("acme.next", "npu:1", nullptr, nullptr);
    CHECK(why["chain"] == nlohmann::json::parse(R"(["vendor.acme"])"));
    CHECK(is_mapped("/libregisters_everything.so"));
}

TEST_CASE("hosts that open plugins of one folder hold it open once") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libnpu.so";
    std::filesystem::copy_file(fixtures / "libregisters_everything.so", file);
    const auto held = [&] {
        return std::count_if(std::filesystem::directory_iterator("/proc/self/fd"), {}, [&](const auto &entry) {
            std::error_code closed; // the iterator's own
            return std::filesystem::read_symlink(entry, closed) == directory.path();
        });
    };
    for (int i = 0; i < 3; ++i) {
        MadeHost host({}, "/nonexistent", {file.string()});
        CHECK(added_on(host, 0) == 1);
        CHECK(held() == 1);
    }
    CHECK(held() == 1); // for good: the loader remembers the plugin by its number
}

TEST_CASE("a device whose plugin cannot be opened any more fails with the reason of that") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libnpu.so";
    std::filesystem::copy_file(fixtures / "libregisters_everything.so", file);
    MadeHost host({}, "/nonexistent", {file.string()});
    std::filesystem::copy_file(fixtures / "libgood.so", directory.path() / "new.so");
    std::filesystem::rename(directory.path() / "new.so", file);
    CHECK(added_on(host, 0) == -1);
    CHECK(host.logged("OPDOCK-E054") >= 1);
    CHECK(host->describe()["plugins"][0]["status"] == "rejected");
    CHECK(host->describe()["ops"][0]["implementations"][0]["available"] == "no");
}
