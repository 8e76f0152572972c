#include "load/register.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "load/architecture.hpp"
#include "load/plugin_call.hpp"
#include "load/registration_fields.hpp"
#include "load/thread_state.hpp"
#include "signature/other_names.hpp"
#include "signature/standard_ops.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr uint32_t known_required_impl_flags = OPDOCK_IMPL_NEEDS_CONTIGUOUS;
constexpr uint32_t known_required_op_flags = 0;
constexpr uint32_t known_required_device_flags = 0;

// The op name at the start of a signature, even if the rest cannot be parsed.
std::string op_name_in(const char *signature) {
    const std::string_view text(signature, signature != nullptr ? strnlen(signature, max_text_bytes) : 0);
    std::string_view name = text.substr(0, text.find('('));
    const size_t begin = std::min(name.find_first_not_of(" \t\n"), name.size());
    name.remove_prefix(begin);
    name = name.substr(0, name.find_last_not_of(" \t\n") + 1);
    return std::string(name.substr(0, max_name_bytes));
}

// Opens the registry for its lifetime, while the entry runs.
class Registering {
  public:
    Registering(ThreadState &thread, bool &open) : loading_(thread), open_(open) { open_ = true; }
    Registering(const Registering &) = delete;
    Registering &operator=(const Registering &) = delete;
    ~Registering() { open_ = false; }

  private:
    const LoadingCode loading_;
    bool &open_;
};

} // namespace

std::string text_of(const std::string &id, const std::vector<RegistrationError> &errors) {
    std::string message = fmt::format("plugin '{}' registered nothing because of ", id);
    message += errors.size() == 1 ? "an error: " : fmt::format("{} errors:", errors.size());
    constexpr std::size_t most_told = 64; // a plugin with more errors repeats one mistake, or wants to fill a log
    for (std::size_t i = 0; i < std::min(errors.size(), most_told); ++i) {
        message += (errors.size() == 1 ? "" : "\n  ") + errors[i].message;
    }
    if (errors.size() > most_told) {
        message += fmt::format("\n  and {} more", errors.size() - most_told);
    }
    return message;
}

Registrar::Registrar(PluginIdentity identity, const opdock_host_api *host, Signatures &signatures, void *user_data)
    : identity_(std::move(identity)), signatures_(signatures) {
    table_.struct_size = OPDOCK_STRUCT_SIZE(opdock_registry, user_data);
    table_.abi_major = OPDOCK_ABI_MAJOR;
    table_.abi_minor = OPDOCK_ABI_MINOR;
    table_.host_data = this;
    table_.host = host;
    table_.register_vendor = register_vendor;
    table_.register_device_provider = register_device_provider;
    table_.register_op = register_op;
    table_.register_impl = register_impl;
    table_.register_shutdown = register_shutdown;
    table_.fail = fail;
    table_.user_data = user_data;
}

void Registrar::run(const std::function<opdock_status(opdock_registry *)> &entry) {
    try {
        run_once(entry);
    } catch (const std::bad_alloc &) {
        // Only the table must stay, because the plugin may have kept a pointer to it.
        registration_ = {};
        implementations_ = {};
        errors_ = {};
        warnings_ = {};
        left_out_ = {};
        attempted_ = {};
        subject_ = {};
        fail_message_ = {};
        throw;
    }
}

void Registrar::run_once(const std::function<opdock_status(opdock_registry *)> &entry) {
    ThreadState &thread = thread_state();
    thread.message.clear();
    opdock_status status = OPDOCK_OK;
    {
        const Registering registering(thread, open_);
        try {
            status = entry(&table_);
            clear_cpu_flags();
        } catch (const std::bad_alloc &) {
            out_of_memory_ = true;
        } catch (const std::exception &exception) {
            keep(RejectCode::entry_threw,
                 fmt::format("opdock_register threw: {}. An entry must return a status; build it "
                             "with the SDK's register_plugin, which does that.",
                             visible_line(exception.what())));
        } catch (...) {
            keep(RejectCode::entry_threw, "opdock_register threw something that is not a std::exception. An entry must "
                                          "return a status; build it with the SDK's register_plugin, which does that.");
        }
    }
    if (out_of_memory_) {
        throw std::bad_alloc(); // not a fault of the plugin
    }
    if (n_registered_ == 0 && status == OPDOCK_OK && errors_.empty()) {
        warnings_.emplace_back("it registers nothing");
    }
    if (status != OPDOCK_OK) {
        const std::string &reason = !fail_message_.empty() ? fail_message_ : thread.message;
        keep(RejectCode::entry_failed, fmt::format("opdock_register returned {}: {}", status_text(status),
                                                   reason.empty() ? "it gave no reason" : reason));
    }
    finish();
    if (!errors_.empty()) {
        registration_ = {};
    }
}

void Registrar::keep(RejectCode code, const std::string &message) {
    errors_.push_back({code, message});
}

void Registrar::leave_out(const std::string &subject, const std::string &reason) {
    // Messages about implementations and device providers start with their subject.
    const size_t colon = reason.find(": ");
    const bool is_named = colon != std::string::npos && subject.ends_with(std::string_view(reason).substr(0, colon));
    left_out_.push_back(fmt::format("{} is left out: {}\nThe plugin is built for ABI {}, this host has {}; install a "
                                    "newer opdock.",
                                    subject, is_named ? reason.substr(colon + 2) : reason, to_text(identity_.abi),
                                    to_text(host_abi)));
}

bool Registrar::accepts(const char *what) {
    if (!open_) {
        return false; // a fault of the plugin, long after its registration was judged
    }
    if (!is_full_ && ++n_registered_ > max_registrations) {
        is_full_ = true;
        keep(RejectCode::too_many_registrations,
             fmt::format("{}: more than {} registrations", what, max_registrations));
    }
    return !is_full_;
}

// No exception may pass through a plugin. run() reports lack of memory.
template<typename Work>
opdock_status Registrar::guarded(Work work) noexcept {
    try {
        return work();
    } catch (const std::bad_alloc &) {
        out_of_memory_ = true;
        return OPDOCK_OUT_OF_MEMORY;
    }
}

template<typename Object, typename Add>
opdock_status Registrar::record(const char *what, const Object *object, Add add) {
    return guarded([&] {
        if (!accepts(what)) {
            return OPDOCK_INVALID_ARGUMENT;
        }
        if (object == nullptr) {
            keep(RejectCode::bad_field, fmt::format("{}: its argument is null", what));
            return OPDOCK_INVALID_ARGUMENT;
        }
        subject_.clear();
        try {
            add(*object);
            return OPDOCK_OK;
        } catch (const Rejected &rejected) {
            if (is_newer() && !subject_.empty() && rejected.code() != RejectCode::too_many_registrations) {
                leave_out(subject_, rejected.what());
                return OPDOCK_OK; // on an error status, an entry that propagates it would discard everything
            }
            keep(rejected.code(), fmt::format("{}: {}", what, rejected.what()));
        }
        return OPDOCK_INVALID_ARGUMENT;
    });
}

opdock_status Registrar::register_vendor(opdock_registry *registry, const opdock_vendor *vendor) {
    Registrar &self = of(registry);
    return self.record("register_vendor", vendor, [&](const opdock_vendor &given) { self.add_vendor(given); });
}

opdock_status Registrar::register_device_provider(opdock_registry *registry, const opdock_device_provider *device) {
    Registrar &self = of(registry);
    return self.record("register_device_provider", device,
                       [&](const opdock_device_provider &given) { self.add_device(given); });
}

opdock_status Registrar::register_op(opdock_registry *registry, const opdock_op_declaration *op) {
    Registrar &self = of(registry);
    return self.record("register_op", op, [&](const opdock_op_declaration &given) { self.add_op(given); });
}

opdock_status Registrar::register_impl(opdock_registry *registry, const opdock_impl *impl) {
    Registrar &self = of(registry);
    return self.record("register_impl", impl, [&](const opdock_impl &given) { self.add_impl(given); });
}

opdock_status Registrar::register_shutdown(opdock_registry *registry, void (*shutdown)(void *), void *user_data) {
    Registrar &self = of(registry);
    return self.guarded([&] {
        if (!self.accepts("register_shutdown")) {
            return OPDOCK_INVALID_ARGUMENT;
        }
        if (shutdown == nullptr) {
            self.keep(RejectCode::bad_field, "register_shutdown: the function is null");
            return OPDOCK_INVALID_ARGUMENT;
        }
        self.registration_.shutdowns.push_back({shutdown, user_data});
        return OPDOCK_OK;
    });
}

opdock_status Registrar::fail(opdock_registry *registry, opdock_status status, const char *message) {
    Registrar &self = of(registry);
    (void)self.guarded([&] {
        if (self.open_) {
            self.fail_message_ =
                message != nullptr ? visible_line({message, strnlen(message, max_text_bytes)}) : std::string();
        }
        return OPDOCK_OK;
    });
    return status;
}

void Registrar::add_vendor(const opdock_vendor &given) {
    const opdock_vendor vendor = known_fields("opdock_vendor", given, OPDOCK_STRUCT_SIZE(opdock_vendor, name));
    registration_.vendors.push_back({copy_identifier("name", vendor.name), copy_line("device_name", vendor.device_name),
                                     copy_line("dispatch_key", vendor.dispatch_key),
                                     copy_line("device_query_command", vendor.device_query_command)});
}

void Registrar::add_device(const opdock_device_provider &given) {
    subject_ = "a device provider";
    const opdock_device_provider device =
        known_fields("opdock_device_provider", given, OPDOCK_STRUCT_SIZE(opdock_device_provider, event_elapsed));
    const std::string type = copy_identifier("device", device.device);
    subject_ = fmt::format("device '{}'", type);
    if ((device.required_flags & ~known_required_device_flags) != 0) {
        throw Rejected(RejectCode::unknown_required_flag,
                       fmt::format("required_flags {:#x} are not known to this host", device.required_flags));
    }
    auto provider = std::make_shared<DeviceProvider>();
    provider->type = type;
    provider->stream_type = copy_line("stream_type", device.stream_type);
    provider->plugin = identity_.id;
    provider->table = device;
    provider->table.device = provider->type.c_str();
    provider->table.stream_type = provider->stream_type.c_str();
    const bool complete = device.count != nullptr && device.properties != nullptr && device.get_current != nullptr &&
                          device.make_current != nullptr && device.allocate != nullptr && device.free != nullptr &&
                          device.copy != nullptr && device.stream_create != nullptr &&
                          device.stream_destroy != nullptr && device.stream_synchronize != nullptr &&
                          device.stream_is_capturing != nullptr && device.event_create != nullptr &&
                          device.event_destroy != nullptr && device.event_record != nullptr &&
                          device.event_elapsed != nullptr;
    if (!complete) {
        throw Rejected(
            RejectCode::bad_field,
            fmt::format("device '{}': a function is null; all but stream_callback are required", provider->type));
    }
    if (device.dl_device_type <= 0) {
        throw Rejected(RejectCode::bad_field, fmt::format("device '{}': dl_device_type is {}; expected a DLDeviceType",
                                                          provider->type, device.dl_device_type));
    }
    for (const auto &other : registration_.devices) {
        if (same_name(other->type, provider->type) || other->table.dl_device_type == device.dl_device_type) {
            throw Rejected(
                RejectCode::duplicate,
                fmt::format(
                    "device '{}' (type {}) is provided twice by this plugin: '{}' has type {}; rename or remove one",
                    provider->type, device.dl_device_type, other->type, other->table.dl_device_type));
        }
    }
    if (registration_.devices.size() == max_device_types) {
        throw Rejected(
            RejectCode::too_many_registrations,
            fmt::format("device '{}': a plugin provides at most {} device types", provider->type, max_device_types));
    }
    registration_.devices.push_back(std::move(provider));
}

void Registrar::add_op(const opdock_op_declaration &given) {
    subject_ = "an op";
    const opdock_op_declaration op =
        known_fields("opdock_op_declaration", given, OPDOCK_STRUCT_SIZE(opdock_op_declaration, signature));
    if (const std::string name = op_name_in(op.signature); !name.empty()) {
        attempted_.emplace(standard_name(name));
        subject_ = fmt::format("op '{}'", visible_line(name));
    }
    if ((op.required_flags & ~known_required_op_flags) != 0) {
        throw Rejected(RejectCode::unknown_required_flag,
                       fmt::format("required_flags {:#x} are not known to this host", op.required_flags));
    }
    const std::string text = copy_text("signature", op.signature);
    if ((signature_bytes_ += text.size()) > max_declared_bytes) {
        is_full_ = true;
        throw Rejected(RejectCode::too_many_registrations,
                       fmt::format("up to this op its signatures have {} bytes; at most {} are kept", signature_bytes_,
                                   max_declared_bytes));
    }
    OpDeclaration declaration;
    try {
        declaration.signature = signatures_.parse(text);
    } catch (const Error &error) {
        throw Rejected(RejectCode::bad_signature, error.what());
    }
    const std::string &name = declaration.signature->name;
    const std::string_view standard = standard_signature(name);
    if (std::string why; !standard.empty() && declaration.signature->text != standard &&
                         compare(*declaration.signature, parse_signature(standard), &why) == Compatibility::conflict) {
        throw Rejected(RejectCode::signature_conflict,
                       fmt::format("op '{}' is a standard op, and this declaration contradicts the standard's: {}\n"
                                   "  declared: {}\n  standard: {}\nDeclare it with the text of "
                                   "opdock/standard_ops.h, or give an op of your own a name like 'vendor.{}'.",
                                   name, why, declaration.signature->text, standard, name));
    }
    if (standard.empty() && name.find('.') == std::string::npos) {
        warnings_.push_back(fmt::format("op '{}' has no prefix, and such names belong to the standard ops; name it "
                                        "'vendor.{}', so that no other plugin uses the name for another op",
                                        name, name));
    }
    if (!declared_.insert(name).second) {
        throw Rejected(RejectCode::duplicate,
                       fmt::format("op '{}' is declared twice by this plugin; rename or remove one", name));
    }
    declaration.doc = copy_text("doc", op.doc);
    declaration.plugin = identity_.id;
    registration_.ops.push_back(std::move(declaration));
}

namespace {

// Faults that are visible in the data alone.
void check_fields(const opdock_impl &impl, const std::string &what) {
    if (impl.alignment != 0 && !std::has_single_bit(impl.alignment)) {
        throw Rejected(RejectCode::bad_field, fmt::format("{}: alignment {} is not a power of two; give the next power "
                                                          "of two, or 0 for the alignment of the dtype",
                                                          what, impl.alignment));
    }
    if ((impl.device_init == nullptr) != (impl.device_fini == nullptr) ||
        (impl.plan_create == nullptr) != (impl.plan_destroy == nullptr)) {
        throw Rejected(RejectCode::bad_field, fmt::format("{}: device_init and device_fini must be set together, and "
                                                          "so must plan_create and plan_destroy; one of a pair is null",
                                                          what));
    }
}

Callbacks callbacks_of(const opdock_impl &impl) {
    Callbacks callbacks;
    callbacks.user_data = impl.user_data;
    callbacks.kernel = impl.kernel;
    callbacks.available = impl.available;
    callbacks.supports = impl.supports;
    callbacks.heuristic = impl.heuristic;
    callbacks.device_init = impl.device_init;
    callbacks.device_fini = impl.device_fini;
    callbacks.plan_create = impl.plan_create;
    callbacks.plan_destroy = impl.plan_destroy;
    callbacks.workspace_size = impl.workspace_size;
    callbacks.get_extension = impl.get_extension;
    return callbacks;
}

} // namespace

void Registrar::set_vendor(Implementation &copy, const opdock_impl &impl, const std::string &what) {
    copy.kind = kind_of(what, impl.kind);
    copy.vendor = impl.vendor != nullptr ? copy_identifier("vendor", impl.vendor)
                                         : (copy.kind == Kind::vendor ? identity_.vendor : std::string());
    if (copy.kind == Kind::vendor && copy.vendor.empty()) {
        throw Rejected(RejectCode::bad_field, fmt::format("{}: kind vendor without a vendor", what));
    }
    if (copy.kind == Kind::vendor && identity_.one_vendor && !same_name(copy.vendor, identity_.vendor)) {
        throw Rejected(RejectCode::bad_field,
                       fmt::format("{}: vendor is '{}', but the plugin's vendor is '{}'; leave the field null", what,
                                   copy.vendor, identity_.vendor));
    }
    copy.plugin_vendor = identity_.one_vendor ? identity_.vendor : std::string();
    copy.own = identity_.standing >= Standing::own;
    copy.comes_with_opdock = identity_.standing >= Standing::beside || identity_.named_default;
}

void Registrar::warn_of_unnamed_device(const Implementation &copy, const std::string &what) {
    if (!identity_.devices.empty() &&
        std::none_of(identity_.devices.begin(), identity_.devices.end(),
                     [&](const std::string &device) { return same_name(device, copy.device); })) {
        warnings_.push_back(fmt::format("implementation {} is for device '{}', which the plugin's note does not name; "
                                        "add it to the devices of OPDOCK_NOTE, from which hosts judge the file",
                                        what, copy.device));
    }
}

void Registrar::set_architectures(Implementation &copy, const opdock_impl &impl, const std::string &what) {
    if (impl.architectures == nullptr) {
        return;
    }
    copy.architectures = split(copy_line("architectures", impl.architectures), '|');
    for (const std::string &pattern : copy.architectures) {
        if (!is_architecture_pattern(pattern)) {
            throw Rejected(RejectCode::bad_field,
                           fmt::format("{}: architecture '{}' is neither a name such as sm_90a nor a name with '+' "
                                       "after its number, such as sm_80+",
                                       what, pattern));
        }
    }
}

void Registrar::set_knobs(Implementation &copy, const opdock_impl &impl, const std::string &what) {
    if (impl.n_knobs > 0 && impl.knobs == nullptr) {
        throw Rejected(RejectCode::bad_field, fmt::format("{}: n_knobs is {} but knobs is null", what, impl.n_knobs));
    }
    if (impl.n_knobs > max_knobs) {
        throw Rejected(RejectCode::too_many_registrations,
                       fmt::format("{}: n_knobs is {}; at most {} are kept", what, impl.n_knobs, max_knobs));
    }
    std::set<std::string> knob_names;
    for (uint32_t i = 0; i < impl.n_knobs; ++i) {
        copy.knobs.push_back(copy_knob(impl.knobs[i]));
        if (!knob_names.insert(copy.knobs.back().name).second) {
            throw Rejected(RejectCode::duplicate, fmt::format("{}: knob '{}' is declared twice; rename or remove one",
                                                              what, copy.knobs.back().name));
        }
    }
}

void Registrar::add_impl(const opdock_impl &given) {
    subject_ = "an implementation";
    const opdock_impl impl = known_fields("opdock_impl", given, OPDOCK_STRUCT_SIZE(opdock_impl, kernel));
    auto copy = std::make_shared<Implementation>();
    copy->tenancy = identity_.tenancy;
    copy->op = standard_name(copy_name("op", impl.op));
    subject_ = fmt::format("an implementation of op '{}'", copy->op);
    copy->impl_id = copy_identifier("impl_id", impl.impl_id);
    const std::string what = fmt::format("'{}' for op '{}'", copy->impl_id, copy->op);
    subject_ = "implementation " + what;
    copy->required_flags = impl.required_flags;
    if ((impl.required_flags & ~known_required_impl_flags) != 0) {
        left_out_.push_back(fmt::format("implementation {} is left out: its required_flags {:#x} are not known to this "
                                        "host; install a newer opdock",
                                        what, impl.required_flags));
        return;
    }
    if (impl.kernel == nullptr) {
        throw Rejected(RejectCode::null_kernel, fmt::format("{}: kernel is null; set it", what));
    }
    set_vendor(*copy, impl, what);
    copy->device = copy_identifier("device", impl.device);
    warn_of_unnamed_device(*copy, what);
    copy->plugin = identity_.id;
    copy->dtypes_text = copy_line("dtypes", impl.dtypes);
    set_architectures(*copy, impl, what);
    check_fields(impl, what);
    set_knobs(*copy, impl, what);
    copy->priority = impl.priority;
    copy->alignment = impl.alignment;
    copy->flags = impl.flags;
    copy->tune_version = impl.tune_version;
    copy->registered = callbacks_of(impl);
    implementations_.push_back(std::move(copy));
}

// The device query command of each vendor, by folded name; omits vendors whose device needs no query.
std::map<std::string, const std::string *> Registrar::device_queries() const {
    std::map<std::string, const std::string *> queries;
    for (const Vendor &vendor : registration_.vendors) {
        if (registration_.devices.empty()) {
            queries.emplace(folded(vendor.name), &vendor.device_query_command);
        }
    }
    return queries;
}

void Registrar::finish() {
    std::set<std::pair<std::string, std::string>> seen;
    std::map<std::string_view, std::shared_ptr<const Signature>> forms;
    for (const OpDeclaration &declaration : registration_.ops) {
        forms.emplace(declaration.signature->name, declaration.signature);
    }
    const std::map<std::string, const std::string *> queries = device_queries();
    bool dtypes_are_told = false;
    for (const auto &implementation : implementations_) {
        const auto form = forms.find(implementation->op);
        const auto what = [&] { return fmt::format("'{}' for op '{}'", implementation->impl_id, implementation->op); };
        if (form == forms.end() && attempted_.contains(implementation->op)) {
            continue; // already reported
        }
        if (form == forms.end()) {
            keep(RejectCode::op_undeclared,
                 fmt::format("register_impl: {}: this plugin does not declare the op. Call register_op with its "
                             "signature (standard ones are in opdock/standard_ops.h).",
                             what()));
            continue;
        }
        if (!seen.emplace(implementation->op, folded(implementation->impl_id)).second) { // policies compare them folded
            keep(RejectCode::duplicate,
                 fmt::format("register_impl: {} is registered twice by this plugin; rename or remove one", what()));
            continue;
        }
        implementation->form = form->second;
        if (!implementation->dtypes_text.empty()) {
            try {
                implementation->dtypes = parse_dtypes(implementation->dtypes_text, *form->second, dtypes_are_told);
            } catch (const Rejected &rejected) {
                if (is_newer()) {
                    leave_out("implementation " + what(), rejected.what());
                    continue;
                }
                keep(rejected.code(), fmt::format("register_impl: {}: {}", what(), rejected.what()));
            }
        } else {
            implementation->allowed_dtypes = form->second->allowed_dtypes;
        }
        const auto query =
            queries.find(folded(implementation->vendor.empty() ? identity_.vendor : implementation->vendor));
        if (query != queries.end() && !same_name(implementation->device, "cpu")) {
            implementation->device_query = *query->second;
        }
        registration_.implementations.push_back(implementation);
    }
    implementations_.clear();
    count_tuples();
}

// Listing an op visits each implementation for each combination of dtypes.
void Registrar::count_tuples() {
    size_t count = 0;
    for (const OpDeclaration &declaration : registration_.ops) {
        count += number_of_tuples(*declaration.signature);
    }
    for (const auto &implementation : registration_.implementations) {
        count +=
            implementation->dtypes.empty() ? number_of_tuples(*implementation->form) : implementation->dtypes.size();
    }
    if (count > max_registered_tuples) {
        keep(RejectCode::too_many_registrations,
             fmt::format("its ops and implementations have {} combinations of dtypes; at most {} are kept. Use fewer "
                         "dtype variables, or list the combinations that an implementation takes",
                         count, max_registered_tuples));
    }
}

} // namespace opdock::core
