// All registrations as one immutable value. A late registration makes a new catalog; readers keep the old one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "devices/providers.hpp"
#include "files/file_identity.hpp"
#include "load/register.hpp"
#include "load/registration.hpp"

namespace opdock::core {

// A plugin for reports to people, accepted or not.
struct PluginRecord {
    enum class Status { loaded, rejected, skipped };
    std::string id; // empty if unknown
    std::string version;
    std::string vendor;
    std::string path;
    std::string origin;     // where the search found it
    bool requested = false; // asked for by name
    Status status = Status::loaded;
    std::string code; // "OPDOCK-E012", empty when loaded
    std::string reason;
    // Improper actions of its code.
    std::vector<std::string> warnings;
    // A sentence for each registered item that this host does not accept.
    std::vector<std::string> left_out;
    Standing standing = Standing::found;
    std::shared_ptr<Tenancy> tenancy; // of a module that may be unregistered
    std::string build_id;             // empty when the file has none
    FileIdentity file;                // the file that was judged; empty for a module of the program
    std::string tune;                 // its tune file, existing or not; empty for a module of the program
    bool names_tune = false;          // the manifest specifies it
    // Set whether or not the plugin was opened; null for a module of the program.
    std::shared_ptr<DeferredPlugin> deferred;
};

// One of the forms in which plugins declare an op.
struct OpForm {
    std::shared_ptr<const Signature> signature;
    std::vector<std::string> plugins; // ids
};

struct CatalogOp {
    std::string name;
    // The longest of `forms`, which are pairwise compatible, with all dtypes that any of them allows.
    std::shared_ptr<const Signature> signature;
    std::string plugin; // id, of the first plugin that declared `signature`, or the longest of `forms`
    std::vector<OpForm> forms;
    std::vector<std::shared_ptr<const Implementation>> implementations; // in order of registration
};

// Number of dtype combinations that an op with these compatible forms allows; 0 without forms.
size_t number_of_tuples(const std::vector<OpForm> &forms);

struct Catalog {
    std::vector<PluginRecord> plugins; // added by add()
    std::map<std::string, std::shared_ptr<const CatalogOp>, std::less<>> ops;
    size_t signature_bytes = 0; // of all forms of all ops
    DeviceProviders providers;  // the first provider of a type is used
    // True if calls may be running: a provider in use is then not replaced.
    bool in_use = false;
    std::vector<Vendor> vendors;
    // Owners of impl_ids: maps the op and the folded impl_id, separated by a space, to the plugin's id.
    std::unordered_map<std::string, std::string> implementers;
    // Maps the id of a loaded plugin to its index in `plugins`.
    std::unordered_map<std::string, size_t> loaded;

    const CatalogOp *find(std::string_view op) const {
        const auto found = ops.find(op);
        return found == ops.end() ? nullptr : found->second.get();
    }
    // Throws Error(OPDOCK_UNKNOWN_OP): programs still find an op after its declaring plugin is unregistered.
    const CatalogOp &declared(std::string_view op) const;
    void add(PluginRecord plugin);
    void add(const Registration &registration, Standing standing);
    void remove(const Implementation &implementation);
    void remove(const DeviceProvider &provider);
    // Removes the plugin's declaration and implementations of the op.
    void remove(const std::string &op, const std::string &plugin);
    // Removes all items of the plugin. Its record stays, but no longer as a loaded plugin.
    void remove_plugin(const std::string &id);
    // Like remove_plugin, and also removes the record.
    void forget_plugin(const std::string &id);
    // The loaded plugin with this id, or null.
    const PluginRecord *find_plugin(const std::string &id) const;
    // Standing of the plugin with this id; for "", the host's own.
    Standing standing(const std::string &id) const;
    // The id of the plugin that owns this impl_id for this op, or null.
    const std::string *implementer(const Implementation &implementation) const;
    // A sentence for each rejected plugin.
    std::vector<std::string> rejected_plugins() const;
};

} // namespace opdock::core
