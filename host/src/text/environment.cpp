#include "text/environment.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <sys/auxv.h>
#include <unistd.h>

#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// A value beyond these limits is a mistake or an attack; real values have tens of entries.
constexpr std::size_t most_bytes = std::size_t{64} * 1024;
constexpr std::size_t most_entries = 1024;

const VariableInfo &info(Variable variable) {
    return all_variables.at(static_cast<std::size_t>(variable));
}

// Keeps the leading entries that fit completely, so that no name is cut.
std::string capped(const VariableInfo &row, const std::string &name, const std::string &value,
                   std::vector<std::string> &warnings) {
    std::size_t end = std::min(value.size(), most_bytes);
    std::string limit = value.size() > most_bytes ? std::to_string(most_bytes) + " bytes" : std::string();
    if (row.separators.empty()) {
        end = std::min(end, value.size());
    } else {
        std::size_t entries = 0;
        std::size_t whole = 0; // end of the last entry that fits
        for (std::size_t begin = 0; begin <= end && entries < most_entries; ++entries) {
            const std::size_t separator = value.find_first_of(row.separators, begin);
            const std::size_t entry_end = std::min(separator, value.size());
            if (entry_end > end) {
                break;
            }
            whole = entry_end;
            begin = entry_end + 1;
        }
        if (entries == most_entries && whole < value.size()) {
            limit = std::to_string(most_entries) + " entries";
        }
        end = whole;
    }
    if (end < value.size()) {
        warnings.push_back(name + " is longer than " + limit + "; the rest is ignored");
    }
    return value.substr(0, end);
}

// A folder of the XDG base directory specification: its variable, and its default below the home directory, or null if
// it has none.
std::string user_folder(const RawEnvironment &raw, const char *variable, const char *below_home,
                        std::vector<std::string> &warnings) {
    const auto absolute = [&](const char *name) -> std::string {
        const auto found = raw.find(name);
        if (found == raw.end() || found->second.empty()) {
            return {};
        }
        const bool is_absolute = found->second.front() == '/';
        if (!is_absolute || found->second.find('\n') != std::string::npos) {
            warnings.push_back(std::string(name) + " is ignored: " + quote(found->second) +
                               (is_absolute ? " has a line feed in it" : " is not an absolute path"));
            return {};
        }
        return found->second;
    };
    if (std::string folder = absolute(variable); !folder.empty()) {
        return folder;
    }
    const std::string home = below_home != nullptr ? absolute("HOME") : "";
    return home.empty() ? home : home + below_home;
}

std::string letters_of(std::string_view name) {
    std::string letters = folded(name);
    std::erase(letters, '_');
    return letters;
}

// Warns of variables whose name is one edit away from ours: after the prefix, or in it, as in TEFL_LOG_LEVEL. Others
// are assumed not to be ours.
void warn_of_misspelt(const std::string &prefix, const RawEnvironment &raw, std::vector<std::string> &warnings) {
    std::vector<std::string> names;
    names.reserve(all_variables.size());
    for (const VariableInfo &row : all_variables) {
        names.push_back(variable_name(row.id, prefix));
    }
    std::vector<std::string_view> stems(names.begin(), names.end());
    for (std::string_view &stem : stems) {
        stem.remove_prefix(prefix.size());
    }
    constexpr size_t shortest_prefix = 4; // a shorter one is one edit away from many names
    const std::string_view own[] = {prefix};
    const auto meant_by = [&](const std::string &name) -> std::string {
        if (name.starts_with(prefix)) {
            const std::string_view stem = std::string_view(name).substr(prefix.size());
            const auto row = std::find_if(all_variables.begin(), all_variables.end(),
                                          [&](const auto &one) { return one.stem == stem; });
            if (row != all_variables.end()) { // variables with PLUGIN_ in their names under every prefix
                return variable_name(row->id, prefix);
            }
            const std::string_view guess = nearest(stem, stems);
            return guess.empty() ? "" : prefix + std::string(guess);
        }
        for (size_t i = 0; i < names.size(); ++i) {
            const size_t head = name.size() - std::min(name.size(), stems[i].size());
            if (letters_of(name) == letters_of(names[i]) ||
                (head >= shortest_prefix && name.ends_with(stems[i]) &&
                 !nearest(std::string_view(name).substr(0, head), own).empty())) {
                return names[i];
            }
        }
        return "";
    };
    for (const auto &[name, value] : raw) {
        if (std::find(names.begin(), names.end(), name) != names.end()) {
            continue;
        }
        const bool wants_longer_prefix =
            !prefix.ends_with('_') && name.starts_with(prefix + "_") &&
            std::find(stems.begin(), stems.end(), std::string_view(name).substr(prefix.size() + 1)) != stems.end();
        if (wants_longer_prefix) {
            warnings.push_back(quote(name) + " is set but means nothing under the prefix " + quote(prefix) +
                               "; did you mean the prefix " + quote(prefix + "_") + "?");
        } else if (const std::string meant = meant_by(name); !meant.empty()) {
            warnings.push_back(quote(name) + " is set but means nothing to opdock; did you mean '" + meant + "'?");
        }
    }
}

// True if the variable is read, or may be one of ours with a misspelt prefix.
bool may_be_ours(std::string_view name, std::string_view prefix) {
    constexpr std::array others = {
        "HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH"};
    const std::string letters = letters_of(name);
    return name.starts_with(prefix) || std::find(others.begin(), others.end(), name) != others.end() ||
           std::any_of(all_variables.begin(), all_variables.end(),
                       [&](const VariableInfo &row) { return letters.ends_with(letters_of(row.stem)); });
}

} // namespace

bool is_variable_prefix(std::string_view text) {
    const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    return !text.empty() && letter(text[0]) &&
           std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || digit(c); });
}

std::string variable_name(Variable variable, std::string_view prefix) {
    const bool of_plugins = variable == Variable::modules || variable == Variable::modules_only;
    return std::string(prefix) + (of_plugins && !prefix.ends_with("PLUGIN_") ? "PLUGIN_" : "") +
           std::string(info(variable).stem);
}

const std::string *Environment::find(Variable variable) const {
    const auto found = values.find(variable);
    return found == values.end() ? nullptr : &found->second;
}

bool Environment::is_on(Variable variable) const {
    const std::string *value = find(variable);
    return value != nullptr && parse_switch(*value, place(variable));
}

std::string Environment::cache_folder() const {
    const bool off = find(Variable::scan_cache) != nullptr && !is_on(Variable::scan_cache);
    return off || user_cache_dir.empty() ? std::string() : user_cache_dir + "/opdock";
}

TuneMode Environment::tune_mode() const {
    static constexpr std::array<std::string_view, 3> modes = {"off", "cached", "online"}; // in the enum's order
    const std::string *value = find(Variable::tune);
    if (value == nullptr) {
        return TuneMode::cached;
    }
    for (std::size_t i = 0; i < modes.size(); ++i) {
        if (same_name(trimmed(*value), modes[i])) {
            return static_cast<TuneMode>(i);
        }
    }
    reject(place(Variable::tune), 0,
           "expected " + one_of(modes) + ", found " + quote(*value) + did_you_mean(trimmed(*value), modes));
}

std::string Environment::tune_database(const std::optional<std::string> &cache_folder) const {
    const std::string *value = find(Variable::tune_db);
    if (value != nullptr && (!value->starts_with('/') || value->find('\n') != std::string::npos)) {
        reject(place(Variable::tune_db), 0, "expected an absolute path, found " + quote(*value));
    }
    if (value != nullptr) {
        return *value;
    }
    const std::string folder = cache_folder ? *cache_folder : user_cache_dir.empty() ? "" : user_cache_dir + "/opdock";
    return folder.empty() ? "" : folder + "/tune.sqlite";
}

double Environment::tune_budget() const {
    const std::string *value = find(Variable::tune_budget);
    return value == nullptr ? 1 : parse_seconds(*value, place(Variable::tune_budget));
}

Report Environment::report() const {
    const std::string *value = find(Variable::report);
    if (value == nullptr) {
        return Report::off;
    }
    if (same_name(trimmed(*value), "signal")) {
        return Report::signal;
    }
    try {
        return parse_switch(*value, place(Variable::report)) ? Report::on : Report::off;
    } catch (const Error &) {
        reject(place(Variable::report), 0, "expected 0, 1 or signal, found " + quote(*value));
    }
}

std::int32_t Environment::log_level(std::int32_t fallback) const {
    static constexpr std::array<std::string_view, 4> levels = {"DEBUG", "INFO", "WARNING",
                                                               "ERROR"}; // OPDOCK_LOG_ order
    const std::string *value = find(Variable::log_level);
    if (value == nullptr) {
        return fallback;
    }
    for (std::size_t i = 0; i < levels.size(); ++i) {
        if (same_name(trimmed(*value), levels[i])) {
            return static_cast<std::int32_t>(i);
        }
    }
    reject(place(Variable::log_level), 0,
           "expected " + one_of(levels) + ", found " + quote(*value) + did_you_mean(trimmed(*value), levels));
}

Environment make_environment(std::string_view prefix, const RawEnvironment &raw, bool secure) {
    if (!is_variable_prefix(prefix)) {
        throw Error(OPDOCK_INVALID_ARGUMENT, "the prefix of environment variables must have only letters, digits and "
                                             "'_', and not begin with a digit; found " +
                                                 quote(prefix));
    }
    Environment environment;
    environment.prefix = prefix;
    environment.secure = secure;
    std::string ignored;
    for (const VariableInfo &row : all_variables) {
        const std::string name = environment.name(row.id);
        const auto found = raw.find(name);
        if (found == raw.end()) {
            continue;
        }
        if (secure) {
            ignored += (ignored.empty() ? " (" : ", ") + name;
        } else {
            environment.values[row.id] = capped(row, name, found->second, environment.warnings);
        }
    }
    if (secure) {
        environment.warnings.push_back("this process has raised privileges: variables that begin with " +
                                       environment.prefix + (ignored.empty() ? "" : ignored + ")") +
                                       " and the user's plugin directory and trusted keys are ignored");
    } else {
        environment.user_data_dir = user_folder(raw, "XDG_DATA_HOME", "/.local/share", environment.warnings);
        std::vector<std::string> again; // further values of HOME
        environment.user_cache_dir = user_folder(raw, "XDG_CACHE_HOME", "/.cache",
                                                 raw.contains("XDG_CACHE_HOME") ? environment.warnings : again);
        environment.user_config_dir = user_folder(raw, "XDG_CONFIG_HOME", "/.config",
                                                  raw.contains("XDG_CONFIG_HOME") ? environment.warnings : again);
        environment.user_runtime_dir = user_folder(raw, "XDG_RUNTIME_DIR", nullptr, environment.warnings);
        if (const auto path = raw.find("LD_LIBRARY_PATH"); path != raw.end()) {
            environment.library_path = path->second;
        }
        warn_of_misspelt(environment.prefix, raw, environment.warnings);
    }
    return environment;
}

std::string library_path_in(std::istream &environment) {
    constexpr std::string_view name = "LD_LIBRARY_PATH=";
    std::string path;
    for (std::string entry; std::getline(environment, entry, '\0');) {
        path = entry.starts_with(name) ? entry.substr(name.size()) : path;
    }
    return path;
}

namespace {

// The value that the dynamic loader read when the program started; later changes have no effect on the loader. nullopt
// if the kernel does not provide it.
std::optional<std::string> library_path_at_start() {
    std::ifstream file("/proc/self/environ");
    return file.is_open() ? std::optional(library_path_in(file)) : std::nullopt;
}

} // namespace

Environment capture_environment(std::string_view prefix) {
    const bool secure = getauxval(AT_SECURE) != 0;
    RawEnvironment raw;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::string name(text.substr(0, text.find('=')));
        if (!may_be_ours(name, prefix)) {
            continue;
        }
        // With raised privileges secure_getenv returns null, and only the names are kept, for the warning.
        const char *value = secure_getenv(name.c_str());
        if (value != nullptr || secure) {
            raw.emplace(name, value != nullptr ? value : "");
        }
    }
    if (const auto path = secure ? std::nullopt : library_path_at_start()) {
        raw.insert_or_assign("LD_LIBRARY_PATH", *path);
    }
    return make_environment(prefix, raw, secure);
}

} // namespace opdock::core
