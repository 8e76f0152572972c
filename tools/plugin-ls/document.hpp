// Looking things up in a document of schema opdock.plugin-ls/1.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace opdock::plugin_ls {

// Any value on one line: strings as they are, lists with `separator`, "-" for null and for nothing.
std::string words(const nlohmann::json &value, const char *separator = " ");

// The member as words, or "" when it is missing, null or empty.
std::string text_of(const nlohmann::json &object, const char *member);

// "from PLUGIN_PREFER"; "built-in" as it is.
std::string source_text(const std::string &source);

// Names of all ops, in the document's order.
std::vector<std::string> op_names(const nlohmann::json &document);

// Throws cli::Failure, with near misses, when no plugin declares it.
const nlohmann::json &find_op(const nlohmann::json &document, const std::string &name);

// Each id once, sorted.
std::vector<std::string> impl_ids(const nlohmann::json &document);

// What --plugin, --vendor and --device ask for; an empty one asks for everything.
struct Filter {
    std::string plugin; // id
    std::string vendor;
    std::string device; // its type
};

// Implementations, chains, ops, plugins and vendors that pass. Throws cli::Failure, with near misses, for a name that
// the document does not have.
nlohmann::json filtered(nlohmann::json document, const Filter &filter);

// The plugins that were not taken.
nlohmann::json rejected_plugins(const nlohmann::json &document);

// The plugins that bring implementations of which no chain has any, by id, each with an op of theirs. Where a list of
// vendors keeps them out, or none of their devices is here.
std::map<std::string, std::string> idle_plugins(const nlohmann::json &document);

// Whether something that was asked for by name was not taken: a module, a manifest, a plugin of a folder.
bool lacks_requested(const nlohmann::json &document);

// Whether a line of the host's log says what the document's plugins and problems say as well.
bool repeats(const std::string &line, const nlohmann::json &document);

} // namespace opdock::plugin_ls
