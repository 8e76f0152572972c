#include "own_references.hpp"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "cli/open_host.hpp"
#include "declared_op.hpp"

namespace opdock::plugin_check {
namespace {

using nlohmann::json;

// Sets or unsets one of opdock's variables for the lifetime of this object.
class Variable {
  public:
    Variable(const char *stem, const char *value) : name_(cli::variable_name(stem)) {
        if (const char *before = std::getenv(name_.c_str())) {
            before_ = before;
        }
        set(value);
    }
    ~Variable() { set(before_ ? before_->c_str() : nullptr); }
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

  private:
    void set(const char *value) const { value != nullptr ? setenv(name_.c_str(), value, 1) : unsetenv(name_.c_str()); }

    std::string name_;
    std::optional<std::string> before_;
};

std::filesystem::path library_directory() {
    Dl_info info = {};
    const void *symbol = dlsym(RTLD_DEFAULT, "opdock_open");
    std::error_code gone;
    return symbol == nullptr || dladdr(symbol, &info) == 0
               ? std::filesystem::path()
               : std::filesystem::canonical(info.dli_fname, gone).parent_path();
}

// Returns "" if the file does not exist.
std::string own_file() {
    const std::filesystem::path library = library_directory();
    // The place of an installation, and that of a build.
    for (const char *place : {"opdock/plugins", "../plugins/reference"}) {
        const std::filesystem::path file = (library / place / "libopdock_reference.so").lexically_normal();
        std::error_code gone;
        if (!library.empty() && std::filesystem::is_regular_file(file, gone)) {
            return file.string();
        }
    }
    return "";
}

Host open(std::string &missing, const std::function<void(const std::string &)> &log) {
    const Variable only("MODULES_ONLY", "1");
    const Variable none("MODULES", nullptr);
    const std::string file = own_file();
    if (file.empty()) {
        missing = "opdock's plugin 'reference' is missing from its place, opdock/plugins beside libopdock";
        return cli::open_host({}, false, log);
    }
    try {
        Host host = cli::open_host({file}, false, log);
        const json document = json::parse(host.describe());
        for (const json &plugin : document.at("plugins")) {
            if (plugin.at("status") != "loaded") {
                missing = file + ": " + plugin.value("reason", plugin.at("status").get<std::string>());
            }
        }
        return host;
    } catch (const std::exception &error) { // it was rejected, and strict is set
        missing = error.what();
    }
    const Variable no_strict("STRICT", nullptr);
    return cli::open_host({}, false, log);
}

} // namespace

OwnReferences::OwnReferences(const std::function<void(const std::string &)> &log) : host(open(missing, log)) {}

void OwnReferences::declare(const std::string &signature) {
    if (declared_.insert(signature).second) {
        declare_op(host, signature);
    }
}

} // namespace opdock::plugin_check
