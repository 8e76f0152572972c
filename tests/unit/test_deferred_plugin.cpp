#include "load/deferred_plugin.hpp"

#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fake_device.hpp"
#include "inspect/elf_notes.hpp"
#include "mappings.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"
#include "text/error.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::fake_device;
using opdock::test::is_mapped;
using opdock::test::MadeHost;
using opdock::test::TemporaryDirectory;

namespace {

const std::filesystem::path fixtures = opdock::test::fixtures_folder();

// The amount that one call adds on one of the plugin's devices; -1 if it is not served.
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

TEST_CASE("who asks a device to be told when work has run is told by its plugin, where that can tell") {
    const auto table_of = [](MadeHost &host) -> const opdock_device_provider & {
        const DeviceProvider *provider = find_provider(host->catalog().providers, kDLExtDev);
        REQUIRE(provider != nullptr);
        return provider->table;
    };
    MadeHost host({}, "/nonexistent", {(fixtures / "libregisters_everything.so").string()});
    const opdock_device_provider &table = table_of(host);
    REQUIRE((table.stream_callback != nullptr));
    CHECK_FALSE(is_mapped("/libregisters_everything.so"));
    int told = 0;
    const auto tell = [](void *count) { ++*static_cast<int *>(count); };
    CHECK(table.stream_callback(&host->api(), table.user_data, 0, nullptr, tell, &told) == OPDOCK_OK);
    CHECK(told == 1);
    CHECK(is_mapped("/libregisters_everything.so"));

    MadeHost other({}, "/nonexistent", {(fixtures / "libwithout_stream_callback.so").string()});
    CHECK((table_of(other).stream_callback == nullptr));
}

TEST_CASE("the code of a plugin that was opened may speak to its host when that is closed") {
    MadeHost host({}, "/nonexistent", {(fixtures / "libregisters_everything.so").string()});
    const opdock_host_api *table = &host->api();
    CHECK(added_on(host, 0) == 1);
    host.close();
    // Overwrites freed memory, so that its former content is not found there.
    std::vector<std::unique_ptr<std::array<unsigned char, sizeof(PluginTable)>>> others(64);
    for (auto &other : others) {
        other = std::make_unique<std::array<unsigned char, sizeof(PluginTable)>>();
        other->fill(0xff);
    }
    table->log(table, OPDOCK_LOG_WARNING, "a line for nobody");
    CHECK(host.logged("a line for nobody") == 0);
    CHECK(table->fail(table, OPDOCK_UNSUPPORTED, "as ever") == OPDOCK_UNSUPPORTED);
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
    CHECK(held() == 1); // for good: the loader keeps the plugin under its inode number
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

namespace {

// A plugin's file, which a test replaces like an installer.
struct Installed {
    TemporaryDirectory directory;
    std::filesystem::path file = directory.path() / "libacme.so";

    void install(const char *fixture) const {
        std::filesystem::copy_file(fixtures / fixture, directory.path() / "new");
        std::filesystem::rename(directory.path() / "new", file);
    }
    std::unique_ptr<MadeHost> host(const std::string &probe) const {
        return std::make_unique<MadeHost>(RawEnvironment{}, "/nonexistent", std::vector{file.string()},
                                          WorkspaceAllocator{}, probe.empty() ? std::optional<std::string>() : probe);
    }
};

float bias_of(MadeHost &host) {
    float in[] = {1}, out[] = {0};
    const opdock::Tensor a(in, opdock::f32, {1}), b(in, opdock::f32, {1}), output(out, opdock::f32, {1});
    return host.op("fixture.add").try_call({a, b}, {output}) == OPDOCK_OK ? out[0] - 2 : -1;
}

std::string joined_warnings(MadeHost &host) {
    std::string text;
    const nlohmann::json described = host->describe();
    for (const auto &warning : described["plugins"][0]["warnings"]) {
        text += warning.get<std::string>() + "\n";
    }
    return text;
}

} // namespace

TEST_CASE("a host that is opened after a plugin was replaced runs the new file, and says which build it has") {
    const std::string old = read_build_id(fixtures / "libgood.so"),
                      newer = read_build_id(fixtures / "libgood_newer.so");
    for (const char *probe : {"", "/nonexistent"}) { // with a probe, and without
        CAPTURE(probe);
        const Installed plugin;
        plugin.install("libgood.so");
        const auto first = plugin.host(probe);
        CHECK(bias_of(*first) == 100);
        CHECK((*first)->describe()["plugins"][0]["build_id"] == old);
        CHECK((*first)->describe()["plugins"][0]["replaced_by"] == nullptr);
        CHECK_FALSE(contains(joined_warnings(*first), "is no longer"));
        plugin.install("libgood_newer.so");
        CHECK((*first)->describe()["plugins"][0]["build_id"] == old);
        CHECK((*first)->describe()["plugins"][0]["replaced_by"] == newer);
        CHECK(contains(joined_warnings(*first), "build " + newer + " is there now"));
        const auto second = plugin.host(probe);
        CHECK(bias_of(*second) == 110);
        CHECK(bias_of(*first) == 100);
        CHECK((*second)->describe()["plugins"][0]["build_id"] == newer);
        CHECK((*second)->describe()["plugins"][0]["replaced_by"] == nullptr);
        CHECK(contains(joined_warnings(*second), "build " + old + " stays in memory"));
        CHECK(second->logged("build " + old + " stays in memory") == 1);
        std::filesystem::remove(plugin.file);
        CHECK((*second)->describe()["plugins"][0]["replaced_by"] == "");
        CHECK(contains(joined_warnings(*second), "it is gone"));
    }
}

TEST_CASE("who may read a plugin may change: it is no other plugin for that") {
    const Installed plugin;
    plugin.install("libgood.so");
    const auto host = plugin.host("");
    std::filesystem::permissions(plugin.file, std::filesystem::perms::owner_read);
    CHECK((*host)->describe()["plugins"][0]["replaced_by"] == nullptr);
}

TEST_CASE("a plugin that is loaded again from its path is told apart from one that was replaced there") {
    const Installed plugin;
    plugin.install("libgood.so");
    const auto host = plugin.host("");
    const auto refusal = [&] {
        try {
            (*host)->load(plugin.file.string());
        } catch (const Error &error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(contains(refusal(), "plugin 'acme' is already loaded from this file"));
    plugin.install("libgood_newer.so");
    CHECK(contains(refusal(), "the file was replaced since: build " + read_build_id(fixtures / "libgood.so") +
                                  " is in use, and build " + read_build_id(fixtures / "libgood_newer.so") +
                                  " is there now"));
    CHECK(contains(refusal(), "close this host and open a new one"));
}
