// The tools under test, and plugins for them.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "process.hpp"
#include "temporary_directory.hpp"

namespace opdock::test {

// The path of a plugin in tests/fixtures.
inline std::string fixture(const std::string &name) {
    return OPDOCK_FIXTURES "/lib" + name + ".so";
}

// A tool that sees these plugins and nothing of the machine: no variables, no home, no installed plugins.
class Tool : public Command {
  public:
    Tool(const char *program, const std::vector<std::string> &plugins) : Command(program) {
        std::string modules;
        for (const std::string &plugin : plugins) {
            modules += (modules.empty() ? "" : ",") + plugin;
        }
        with("HOME", home_.path().string());
        with("XDG_DATA_HOME", home_.path().string());
        with("XDG_CONFIG_HOME", home_.path().string());
        with("PLUGIN_MODULES_ONLY", "1");
        with("PLUGIN_DEFAULT_PLUGINS", "opdock"); // as built, not installed beside the library
        if (!plugins.empty()) {
            with("PLUGIN_MODULES", modules);
        }
    }

    const TemporaryDirectory &home() const { return home_; }

  private:
    TemporaryDirectory home_;
};

struct PluginLs : Tool {
    explicit PluginLs(const std::vector<std::string> &plugins) : Tool(PLUGIN_LS, plugins) {}
};

struct PluginRun : Tool {
    explicit PluginRun(const std::vector<std::string> &plugins) : Tool(PLUGIN_RUN, plugins) {}
};

inline bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

// Checks that the tool ended with this code and printed the reason after its name.
inline void check_error(const Finished &finished, int code, const std::string &message) {
    INFO(finished.err);
    CHECK(finished.code == code);
    CHECK(contains(finished.err, finished.program + ": "));
    CHECK(contains(finished.err, message));
}

} // namespace opdock::test
