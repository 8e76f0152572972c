// Look-ups in a document of schema opdock.plugin-ls/1.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace opdock::plugin_ls {

// Any value on one line: strings unchanged, lists joined with `separator`, "-" for null and for empty values.
std::string words(const nlohmann::json &value, const char *separator = " ");

// The member as words, or "" if it is missing, null or empty.
std::string text_of(const nlohmann::json &object, const char *member);

// "from PLUGIN_PREFER"; "built-in" is unchanged.
std::string source_text(const std::string &source);

// Names of all ops, in the document's order.
std::vector<std::string> op_names(const nlohmann::json &document);

// Throws cli::Failure, with near misses, if no plugin declares it.
const nlohmann::json &find_op(const nlohmann::json &document, const std::string &name);

// Every id once, sorted.
std::vector<std::string> impl_ids(const nlohmann::json &document);

// The values of --plugin, --vendor and --device; an empty one matches everything.
struct Filter {
    std::string plugin; // id
    std::string vendor;
    std::string device; // type of the device
};

// The implementations, chains, ops, plugins and vendors that pass. Throws cli::Failure, with near misses, for a name
// that is not in the document.
nlohmann::json filtered(nlohmann::json document, const Filter &filter);

// The plugins that were not loaded.
nlohmann::json rejected_plugins(const nlohmann::json &document);

// Plugins none of whose implementations is in a chain: a list of vendors excludes them, or none of their devices is
// present. Maps the plugin's id to one of its ops.
std::map<std::string, std::string> idle_plugins(const nlohmann::json &document);

// True if something requested by name was not loaded: a module, a manifest, a plugin of a folder.
bool lacks_requested(const nlohmann::json &document);

// True if a line of the host's log repeats what the document's plugins and problems say.
bool repeats(const std::string &line, const nlohmann::json &document);

} // namespace opdock::plugin_ls
