// Everything that is registered, as one immutable value. A late registration makes a new catalog; readers keep theirs.
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

// A plugin as people ask about it, whether or not it was taken.
struct PluginRecord {
    enum class Status { loaded, rejected, skipped };
    std::string id; // empty when the file did not tell
    std::string version;
    std::string vendor;
    std::string path;
    std::string origin;     // where the search found it
    bool requested = false; // asked for by name
    Status status = Status::loaded;
    std::string code; // "OPDOCK-E012", empty when loaded
    std::string reason;
    // What its code did that it should not.
    std::vector<std::string> warnings;
    // A sentence for each thing that it registered and this host does without.
    std::vector<std::string> left_out;
    Standing standing = Standing::found;
    std::shared_ptr<Tenancy> tenancy; // of a module that may be unregistered
    std::string build_id;             // empty when the file has none
    FileIdentity file;                // the one that was judged; empty for a module of the program
    std::string tune;                 // its tune file, whether or not there is one; empty for a module of the program
    bool names_tune = false;          // the manifest names it
    // Not opened yet, or opened since; null for a module of the program.
    std::shared_ptr<DeferredPlugin> deferred;
};

// One of the forms in which plugins declare an op.
struct OpForm {
    std::shared_ptr<const Signature> signature;
    std::vector<std::string> plugins; // ids
};

struct CatalogOp {
    std::string name;
    // The longest of `forms`, each two of which are compatible, with all dtypes that any of them allows.
    std::shared_ptr<const Signature> signature;
    std::string plugin; // id, of the first plugin that declared `signature`, or the longest of `forms`
    std::vector<OpForm> forms;
    std::vector<std::shared_ptr<const Implementation>> implementations; // in order of registration
};

// Counts the combinations of dtypes that an op of these forms allows; the forms are compatible. 0 without forms.
size_t number_of_tuples(const std::vector<OpForm> &forms);

struct Catalog {
    std::vector<PluginRecord> plugins; // added by add()
    std::map<std::string, std::shared_ptr<const CatalogOp>, std::less<>> ops;
    size_t signature_bytes = 0; // of all forms of all ops
    DeviceProviders providers;  // the first of a type serves
    // Calls may be running: a provider that serves stays in its place.
    bool in_use = false;
    std::vector<Vendor> vendors;
    // Who has an impl_id: the op and the folded id, separated by a space, to the plugin's id.
    std::unordered_map<std::string, std::string> implementers;
    // Where the loaded plugin of an id is in `plugins`.
    std::unordered_map<std::string, size_t> loaded;

    const CatalogOp *find(std::string_view op) const {
        const auto found = ops.find(op);
        return found == ops.end() ? nullptr : found->second.get();
    }
    // Throws Error(OPDOCK_UNKNOWN_OP): an op stays found by programs when who declared it is gone.
    const CatalogOp &declared(std::string_view op) const;
    void add(PluginRecord plugin);
    void add(const Registration &registration, Standing standing);
    void remove(const Implementation &implementation);
    void remove(const DeviceProvider &provider);
    // What `plugin` declares and implements of the op.
    void remove(const std::string &op, const std::string &plugin);
    // All that it brought. Its record stays, and is no loaded plugin's any more.
    void remove_plugin(const std::string &id);
    // The same, and its record goes too.
    void forget_plugin(const std::string &id);
    // The loaded plugin with this id, or null.
    const PluginRecord *find_plugin(const std::string &id) const;
    // Of the plugin that has this id: the host's own for "".
    Standing standing(const std::string &id) const;
    // Who has this impl_id for this op: a plugin's id, or null.
    const std::string *implementer(const Implementation &implementation) const;
    // A sentence for each plugin that was rejected.
    std::vector<std::string> rejected_plugins() const;
};

} // namespace opdock::core
