// The stage that runs a plugin's entry and converts its registrations into values.
//
// Collects all errors; a plugin with an error registers nothing. For a plugin built for a newer ABI, a problem with one
// op or implementation is not an error: this host may not know what it requires. The plugin's registry stays allocated,
// so that a plugin that kept the pointer gets an error status later and does not crash.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "files/reject.hpp"
#include "inspect/note.hpp"
#include "load/registration.hpp"
#include "opdock/plugin.h"
#include "signature/signatures.hpp"

namespace opdock::core {

// Rank of a plugin in its host, lowest first: if two claim the same thing, the higher one gets it.
enum class Standing {
    found,   // in a searched folder, or named explicitly
    trusted, // also signed with a trusted key or listed by digest, if the policy requires that
    beside,  // in the plugin folder beside this library
    own,     // opdock's: in that folder, and of vendor 'opdock'
    program, // not a file: the program itself
};

struct PluginIdentity {
    std::string id;
    std::string vendor;
    std::string path; // for messages: the file, or the id of a module of the program
    // True if its implementations must be of its own vendor. A program may register implementations of several vendors.
    bool one_vendor = false;
    std::vector<std::string> devices = {}; // from the note; empty if there is none
    Standing standing = Standing::program;
    bool named_default = false;                 // by the policy: its kinds default and reference count as opdock's
    AbiVersion abi = host_abi;                  // that it was built for
    std::shared_ptr<Tenancy> tenancy = nullptr; // of a module that may be unregistered
};

struct RegistrationError {
    RejectCode code;
    std::string message;
};

// The text of all errors of the plugin with this id.
std::string text_of(const std::string &id, const std::vector<RegistrationError> &errors);

// Limits on the registrations of one plugin.
inline constexpr size_t max_registrations = 65536;
inline constexpr size_t max_registered_tuples = 65536; // of all ops and implementations together
inline constexpr size_t max_device_types = 16;
// Limits on signature bytes of one plugin, and of all plugins of a host. Each byte costs about 14 bytes of memory, and
// 0.13 microseconds at each start.
inline constexpr size_t max_declared_bytes = size_t{1} << 20;
inline constexpr size_t max_declared_bytes_of_all = size_t{1} << 24;
// Listing an op visits each of its implementations, and each of their dtype tuples, for each combination of dtypes of
// the op. These are the limits on the visits of either kind that one plugin may add.
inline constexpr size_t max_looks_at_implementations = size_t{1} << 18;
inline constexpr size_t max_looks_at_tuples = size_t{1} << 26;
// Knobs of one implementation: few enough to iterate over all of them for each knob.
inline constexpr size_t max_knobs = 256;

class Registrar {
  public:
    // `signatures` need not outlive run(). `user_data` is passed to the entry in its registry.
    Registrar(PluginIdentity identity, const opdock_host_api *host, Signatures &signatures, void *user_data = nullptr);

    // Runs the entry on this thread. Afterwards, either errors() is empty and registration() is complete, or
    // registration() is empty. Throws std::bad_alloc if the host or the plugin ran out of memory.
    void run(const std::function<opdock_status(opdock_registry *)> &entry);

    const std::vector<RegistrationError> &errors() const { return errors_; }
    // Problems that are not errors: implementations left out because they need a newer host, problematic names.
    const std::vector<std::string> &warnings() const { return warnings_; }
    // A sentence for each op, implementation and device provider that needs features that this host lacks.
    const std::vector<std::string> &left_out() const { return left_out_; }
    const PluginIdentity &identity() const { return identity_; }
    const Registration &registration() const { return registration_; }
    Registration take() { return std::move(registration_); }

  private:
    static Registrar &of(opdock_registry *registry) { return *static_cast<Registrar *>(registry->host_data); }
    static opdock_status register_vendor(opdock_registry *registry, const opdock_vendor *vendor);
    static opdock_status register_device_provider(opdock_registry *registry, const opdock_device_provider *device);
    static opdock_status register_op(opdock_registry *registry, const opdock_op_declaration *op);
    static opdock_status register_impl(opdock_registry *registry, const opdock_impl *impl);
    static opdock_status register_shutdown(opdock_registry *registry, void (*shutdown)(void *), void *user_data);
    static opdock_status fail(opdock_registry *registry, opdock_status status, const char *message);

    // True if a registration may be processed: the registry is open and the limit is not reached.
    bool accepts(const char *what);
    // Runs `add` on `object` and keeps the errors, which `add` throws as Rejected.
    template<typename Work>
    opdock_status guarded(Work work) noexcept;
    template<typename Object, typename Add>
    opdock_status record(const char *what, const Object *object, Add add);
    void keep(RejectCode code, const std::string &message);
    // True if a problem with one registered item does not reject the whole plugin.
    bool is_newer() const { return identity_.abi > host_abi; }
    // `subject` is the item left out: "op 'acme.fancy'".
    void leave_out(const std::string &subject, const std::string &reason);
    void run_once(const std::function<opdock_status(opdock_registry *)> &entry);
    void add_op(const opdock_op_declaration &op);
    void add_impl(const opdock_impl &impl);
    // Parts of add_impl; `what` names the implementation in messages. They throw Rejected.
    void set_vendor(Implementation &copy, const opdock_impl &impl, const std::string &what);
    void warn_of_unnamed_device(const Implementation &copy, const std::string &what);
    void set_architectures(Implementation &copy, const opdock_impl &impl, const std::string &what);
    void set_knobs(Implementation &copy, const opdock_impl &impl, const std::string &what);
    void add_device(const opdock_device_provider &device);
    void add_vendor(const opdock_vendor &vendor);
    // Excludes vendors whose device is reported by a device provider or, for the CPU, by the host.
    std::map<std::string, const std::string *> device_queries() const;
    // Work that needs the whole registration: finds the declarations of implementations, detects duplicates.
    void finish();
    void count_tuples();

    PluginIdentity identity_;
    Signatures &signatures_;
    opdock_registry table_ = {};
    Registration registration_;
    std::vector<std::shared_ptr<Implementation>> implementations_; // until finish()
    std::vector<RegistrationError> errors_;
    std::vector<std::string> warnings_;
    std::vector<std::string> left_out_;
    std::set<std::string, std::less<>> declared_;  // ops that were accepted
    std::set<std::string, std::less<>> attempted_; // ops that the plugin declared, understood or not
    std::string subject_; // item being registered, as for leave_out(); empty if its faults are always errors
    std::string fail_message_;
    size_t n_registered_ = 0;
    size_t signature_bytes_ = 0;
    bool is_full_ = false; // further registrations are refused silently
    bool open_ = false;
    bool out_of_memory_ = false; // at some time during run()
};

} // namespace opdock::core
