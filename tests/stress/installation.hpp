// Plugins and a cache in a folder of their own, and hosts that look there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "made_host.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"

namespace opdock::stress {

class Installation {
  public:
    // Copies a fixture, so that it is loaded separately from others of its kind.
    std::string plugin(const std::string &fixture, const std::string &name) const {
        const std::filesystem::path path = directory_.path() / "plugins" / name;
        std::filesystem::create_directories(path.parent_path());
        std::filesystem::remove(path);
        std::filesystem::copy_file(opdock::test::fixtures_folder() / fixture, path);
        return path.string();
    }
    core::RawEnvironment environment() const { return {{"XDG_CACHE_HOME", cache_home().string()}}; }
    std::filesystem::path folder() const { return directory_.path(); }
    std::filesystem::path cache_home() const { return directory_.path() / "cache"; }
    void remove_cache() const { std::filesystem::remove_all(cache_home()); }

  private:
    test::TemporaryDirectory directory_;
};

// A host whose log is discarded.
inline std::unique_ptr<core::Host> quiet_host(const core::RawEnvironment &environment,
                                              std::vector<std::string> modules) {
    core::HostOptions options;
    options.modules = std::move(modules);
    options.environment = core::make_environment("PLUGIN_", environment, false);
    options.system_policy_file = "/nonexistent";
    options.system_trust_folder = "/nonexistent";
    options.standard_directories = std::vector<core::SearchDirectory>{};
    static const std::string probe = core::find_probe(); // once: this program's file may be replaced while it runs
    options.probe = probe;
    options.log = core::Log([](void *, std::int32_t, const char *) {}, nullptr);
    return std::make_unique<core::Host>(std::move(options));
}

// Calls fixture.add of the adder fixtures. Returns the amount added, or -1 if the call failed.
inline float added_by(const Op &op) {
    float a[] = {1, 2};
    float b[] = {10, 20};
    float c[] = {0, 0};
    const Tensor x(a, f32, {2});
    const Tensor y(b, f32, {2});
    const Tensor z(c, f32, {2});
    return op.try_call({x, y}, {z}) == OPDOCK_OK ? c[0] - 11 : -1;
}

} // namespace opdock::stress
