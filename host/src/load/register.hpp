// The stage that runs a plugin's entry and turns what it registers into values.
//
// All errors are kept, not only the first; a plugin with an error registers nothing. What is wrong with one op or
// implementation of a plugin for a newer ABI is no error: this host may not know what it asks for. The registry a
// plugin was given stays allocated, so that one that kept the pointer gets an error status later and not a crash.
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

// What a plugin is to its host, least first: of two that want the same thing the higher one has it.
enum class Standing {
    found,   // in a folder that is searched, or named
    trusted, // and signed with a trusted key, or listed by its digest, where policy asks for that
    beside,  // in the folder of plugins beside this library
    own,     // opdock's: there, and of vendor 'opdock'
    program, // no file, but the program itself
};

struct PluginIdentity {
    std::string id;
    std::string vendor;
    std::string path; // for messages: the file, or the id of a module of the program itself
    // Whether its implementations are of that vendor too. A program may register those of several.
    bool one_vendor = false;
    std::vector<std::string> devices = {}; // of the note; empty when there is none
    Standing standing = Standing::program;
    bool named_default = false;                 // by the policy: its kinds default and reference count as opdock's own
    AbiVersion abi = host_abi;                  // that it was built for
    std::shared_ptr<Tenancy> tenancy = nullptr; // of a module that may be taken away
};

struct RegistrationError {
    RejectCode code;
    std::string message;
};

// All of them, of the plugin with this id.
std::string text_of(const std::string &id, const std::vector<RegistrationError> &errors);

// How much one plugin may register.
inline constexpr size_t max_registrations = 65536;
inline constexpr size_t max_registered_tuples = 65536; // of all ops and implementations together
inline constexpr size_t max_device_types = 16;
// Signatures of one plugin, and of all that a host knows. A byte of them costs about 14 bytes of memory, and 0.13
// microseconds at each start.
inline constexpr size_t max_declared_bytes = size_t{1} << 20;
inline constexpr size_t max_declared_bytes_of_all = size_t{1} << 24;
// Listing an op looks at each of its implementations, and at each tuple that one lists, for each combination of dtypes
// of the op. These are the most looks of either kind that one plugin may add.
inline constexpr size_t max_looks_at_implementations = size_t{1} << 18;
inline constexpr size_t max_looks_at_tuples = size_t{1} << 26;
// Knobs of one implementation: few enough that a host may go through all of them for each.
inline constexpr size_t max_knobs = 256;

class Registrar {
  public:
    // `signatures` need not outlive run(). `user_data` is what the entry finds in its registry.
    Registrar(PluginIdentity identity, const opdock_host_api *host, Signatures &signatures, void *user_data = nullptr);

    // Runs the entry on this thread. Afterwards either errors() is empty and registration() holds everything, or
    // nothing. Throws std::bad_alloc when memory ran out, the host's or the plugin's.
    void run(const std::function<opdock_status(opdock_registry *)> &entry);

    const std::vector<RegistrationError> &errors() const { return errors_; }
    // What is no error: implementations left out because they need a newer host, names that are asking for trouble.
    const std::vector<std::string> &warnings() const { return warnings_; }
    // A sentence for each op, implementation and device provider that asks for more than this host can do.
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

    // Whether a registration may be looked at: the registry is open and the limit not reached.
    bool accepts(const char *what);
    // Runs `add` on `object`, whose errors are Rejected, and keeps them.
    template<typename Work>
    opdock_status guarded(Work work) noexcept;
    template<typename Object, typename Add>
    opdock_status record(const char *what, const Object *object, Add add);
    void keep(RejectCode code, const std::string &message);
    // Whether what is wrong with one thing that it registers leaves the rest of the plugin in place.
    bool is_newer() const { return identity_.abi > host_abi; }
    // `subject` is what is left out: "op 'acme.fancy'".
    void leave_out(const std::string &subject, const std::string &reason);
    void run_once(const std::function<opdock_status(opdock_registry *)> &entry);
    void add_op(const opdock_op_declaration &op);
    void add_impl(const opdock_impl &impl);
    // Parts of that; `what` names the implementation in messages. They throw Rejected.
    void set_vendor(Implementation &copy, const opdock_impl &impl, const std::string &what);
    void warn_of_unnamed_device(const Implementation &copy, const std::string &what);
    void set_architectures(Implementation &copy, const opdock_impl &impl, const std::string &what);
    void set_knobs(Implementation &copy, const opdock_impl &impl, const std::string &what);
    void add_device(const opdock_device_provider &device);
    void add_vendor(const opdock_vendor &vendor);
    // Empty where a device provider, or the host for the CPU, knows better.
    std::map<std::string, const std::string *> device_queries() const;
    // What needs the whole registration: implementations find their declarations, duplicates show.
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
    std::set<std::string, std::less<>> declared_;  // ops that were taken
    std::set<std::string, std::less<>> attempted_; // ops that it declared, whether or not that was understood
    std::string subject_; // what is being registered, as leave_out() takes it; empty where its faults are always errors
    std::string fail_message_;
    size_t n_registered_ = 0;
    size_t signature_bytes_ = 0;
    bool is_full_ = false; // what comes now is refused without a further word
    bool open_ = false;
    bool out_of_memory_ = false; // some time during run()
};

} // namespace opdock::core
