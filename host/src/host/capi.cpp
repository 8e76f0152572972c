// Implements the C API of opdock/opdock.h on top of Host. It only translates: no exception leaves it,
// and no thread is cancelled in it.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include <nlohmann/json.hpp>

#include "devices/device_memory.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/prepare.hpp"
#include "host/check.hpp"
#include "host/host.hpp"
#include "load/cancellation.hpp"
#include "load/plugin_call.hpp"
#include "signature/infer.hpp"
#include "signature/layout.hpp"
#include "signature/signature_json.hpp"
#include "text/error.hpp"

// The opaque types of opdock.h.
struct opdock_host : opdock::core::Host {
    using Host::Host;
};
struct opdock_policy {
    opdock::core::PolicyPtr value;
};

namespace {

using opdock::core::Error;
using opdock::core::OpEntry;

template<class Function>
opdock_status guarded(Function function) {
    const opdock::core::Uncancellable host_work;
    try {
        function();
        return OPDOCK_OK;
    } catch (...) {
        opdock::detail::let_cancellation_pass(); // a plugin's code may let it happen, or end the thread
        return opdock::core::leave_current_exception();
    }
}

char *copy_text(const std::string &text) {
    auto *copy = static_cast<char *>(std::malloc(text.size() + 1));
    if (copy == nullptr) {
        throw std::bad_alloc();
    }
    std::memcpy(copy, text.c_str(), text.size() + 1);
    return copy;
}

// Paths and plugins' texts may be invalid UTF-8, but JSON requires UTF-8.
char *copy_text(const nlohmann::json &document) {
    return copy_text(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

OpEntry &entry_of(opdock_op *op) {
    return *static_cast<OpEntry *>(op);
}

opdock::core::Host &host_of(const OpEntry &op) {
    return static_cast<opdock::core::Host &>(*op.host);
}

const opdock::core::Signature &signature_of(opdock_op *op) {
    const OpEntry &entry = entry_of(op);
    return *entry.host->catalog().declared(entry.name).signature;
}

opdock_tensor_spec spec_of(const opdock::core::InferredOutput &inferred, const int64_t *shape) {
    return {inferred.name, shape, inferred.ndim, inferred.dtype, inferred.optional ? 1u : 0u, inferred.parameter};
}

opdock::core::PolicyPtr value_of(const opdock_policy *policy) {
    return policy != nullptr ? policy->value : nullptr;
}

// Fields that the program's header lacks are null.
opdock_options known_options(const opdock_options &given) {
    if (given.struct_size < OPDOCK_STRUCT_SIZE(opdock_options, log_user_data)) {
        throw Error(OPDOCK_INVALID_ARGUMENT, "opdock_options.struct_size is too small; set it with OPDOCK_STRUCT_SIZE");
    }
    opdock_options known = {};
    const size_t size = std::min<size_t>(given.struct_size, sizeof known);
    if (size % alignof(opdock_options) != 0) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    "opdock_options.struct_size ends inside a field; set it with OPDOCK_STRUCT_SIZE");
    }
    std::memcpy(&known, &given, size);
    return known;
}

opdock::core::HostOptions options_of(const opdock_options *given) {
    opdock::core::HostOptions options;
    if (given == nullptr) {
        return options;
    }
    const opdock_options known = known_options(*given);
    if ((known.flags & ~(OPDOCK_OPEN_RESCAN | OPDOCK_OPEN_RETRY)) != 0) {
        throw Error(OPDOCK_INVALID_ARGUMENT, "opdock_options.flags has bits that this host does not know");
    }
    if ((known.allocate_workspace == nullptr) != (known.free_workspace == nullptr)) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    "opdock_options: set both allocate_workspace and free_workspace, or neither");
    }
    if (known.prefix != nullptr) {
        options.prefix = known.prefix;
    }
    for (uint32_t i = 0; i < known.n_modules; ++i) {
        options.modules.emplace_back(known.modules[i]);
    }
    options.rescan = (known.flags & OPDOCK_OPEN_RESCAN) != 0;
    options.retry = (known.flags & OPDOCK_OPEN_RETRY) != 0;
    options.log = opdock::core::Log(known.log, known.log_user_data);
    options.workspace = {known.allocate_workspace, known.free_workspace, known.workspace_user_data};
    options.extensions = {known.get_extension, known.extension_user_data};
    return options;
}

} // namespace

const char *opdock_last_error(void) {
    try {
        return opdock::core::thread_state().error.c_str();
    } catch (...) {
        return "opdock ran out of memory";
    }
}

const char *opdock_status_name(opdock_status status) {
    switch (status) {
    case OPDOCK_OK:
        return "OK";
    case OPDOCK_UNSUPPORTED:
        return "UNSUPPORTED";
    case OPDOCK_INVALID_ARGUMENT:
        return "INVALID_ARGUMENT";
    case OPDOCK_OUT_OF_MEMORY:
        return "OUT_OF_MEMORY";
    case OPDOCK_FAILED:
        return "FAILED";
    case OPDOCK_FAILED_CLEAN:
        return "FAILED_CLEAN";
    case OPDOCK_DEVICE_LOST:
        return "DEVICE_LOST";
    case OPDOCK_UNKNOWN_OP:
        return "UNKNOWN_OP";
    case OPDOCK_NO_IMPLEMENTATION:
        return "NO_IMPLEMENTATION";
    case OPDOCK_ALL_DROPPED:
        return "ALL_DROPPED";
    case OPDOCK_ALL_FAILED:
        return "ALL_FAILED";
    case OPDOCK_NOT_PREPARED:
        return "NOT_PREPARED";
    case OPDOCK_INVALID_POLICY:
        return "INVALID_POLICY";
    case OPDOCK_LOAD_FAILED:
        return "LOAD_FAILED";
    case OPDOCK_INTERNAL_ERROR:
        return "INTERNAL_ERROR";
    case OPDOCK_INVALID_TUNE_FILE:
        return "INVALID_TUNE_FILE";
    case OPDOCK_FROZEN:
        return "FROZEN";
    default:
        return "UNKNOWN";
    }
}

void opdock_string_free(char *string) {
    std::free(string);
}

void opdock_abi_version(uint32_t *major, uint32_t *minor) {
    *major = OPDOCK_ABI_MAJOR;
    *minor = OPDOCK_ABI_MINOR;
}

opdock_status opdock_open(const opdock_options *options, opdock_host **host) {
    *host = nullptr;
    return guarded([&] {
        opdock::core::refuse_while_registering("open a host");
        *host = new opdock_host(options_of(options));
    });
}

void opdock_close(opdock_host *host) {
    delete host;
}

opdock_status opdock_load(opdock_host *host, const char *path) {
    return guarded([&] { host->load(path); });
}

opdock_status opdock_register_module(opdock_host *host, const char *id, const char *vendor, opdock_entry entry,
                                     void *user_data) {
    return guarded([&] { host->register_module(id, vendor != nullptr ? vendor : "", entry, user_data); });
}

opdock_status opdock_register_temporary_module(opdock_host *host, const char *id, const char *vendor,
                                               opdock_entry entry, void *user_data) {
    return guarded([&] { host->register_module(id, vendor != nullptr ? vendor : "", entry, user_data, true); });
}

opdock_status opdock_unregister_module(opdock_host *host, const char *id) {
    return guarded([&] { host->unregister_module(id); });
}

opdock_status opdock_find_op(opdock_host *host, const char *name, opdock_op **op) {
    *op = nullptr;
    return guarded([&] { *op = &host->op(name); });
}

opdock_status opdock_call_by_name(opdock_host *host, const char *name, const opdock_args *args) {
    OpEntry *op = host->find_op(name);
    if (op == nullptr) [[unlikely]] {
        return guarded([&] { (void)host->op(name); });
    }
    return opdock_call_op(op, args);
}

opdock_status opdock_infer_outputs(opdock_op *op, const opdock_args *args, opdock_tensor_spec *specs,
                                   uint32_t spec_size, uint32_t capacity, uint32_t *count) {
    return guarded([&] {
        if (spec_size < sizeof *specs) {
            throw Error(OPDOCK_INVALID_ARGUMENT, "opdock_infer_outputs: spec_size is smaller than any "
                                                 "opdock_tensor_spec; set it to sizeof(opdock_tensor_spec)");
        }
        const auto inferred = opdock::core::infer_outputs(signature_of(op), opdock::core::full_args(*args));
        *count = static_cast<uint32_t>(inferred.size());
        auto &shapes = opdock::core::call_thread().inferred_shapes;
        shapes.resize(inferred.size());
        for (size_t i = 0; i < inferred.size(); ++i) {
            shapes[i] = inferred[i].shape;
        }
        auto *to = reinterpret_cast<std::byte *>(specs);
        for (uint32_t i = 0; i < std::min(*count, capacity); ++i, to += spec_size) {
            const opdock_tensor_spec spec = spec_of(inferred[i], shapes[i].data());
            std::memset(to, 0, spec_size); // clears the extra fields of a newer program's struct
            std::memcpy(to, &spec, sizeof spec);
        }
    });
}

opdock_status opdock_signature_json(opdock_op *op, char **json) {
    return guarded([&] { *json = copy_text(opdock::core::signature_json(signature_of(op))); });
}

opdock_status opdock_parse_signature(const char *text, char **json) {
    *json = nullptr;
    return guarded([&] { *json = copy_text(opdock::core::signature_json(opdock::core::parse_signature(text))); });
}

opdock_status opdock_policy_create(opdock_host *host, const opdock_setting *settings, uint32_t count,
                                   opdock_policy **policy) {
    *policy = nullptr;
    return guarded([&] {
        std::vector<opdock::core::Setting> copies;
        for (uint32_t i = 0; i < count; ++i) {
            copies.push_back({settings[i].name, settings[i].value});
        }
        *policy = new opdock_policy{std::make_shared<const opdock::core::Policy>(host->make_policy(copies))};
    });
}

void opdock_policy_release(opdock_policy *policy) {
    delete policy;
}

opdock_status opdock_policy_set(opdock_host *host, const opdock_policy *policy) {
    return guarded([&] { host->set_program_policy(value_of(policy)); });
}

opdock_status opdock_policy_push(opdock_host *host, const opdock_policy *policy) {
    return guarded([&] { host->push_scope(policy->value); });
}

opdock_status opdock_policy_pop(opdock_host *host) {
    return guarded([&] { host->pop_scope(); });
}

opdock_status opdock_policy_effective(opdock_host *host, opdock_policy **policy) {
    *policy = nullptr;
    return guarded([&] {
        *policy = new opdock_policy{std::make_shared<const opdock::core::Policy>(host->effective_policy().flattened())};
    });
}

opdock_status opdock_policy_reload(opdock_host *host) {
    return guarded([&] { host->reload_policy(); });
}

opdock_status opdock_prepare(opdock_op *op, const opdock_args *args, const opdock_policy *policy,
                             opdock_prepared **prepared) {
    *prepared = nullptr;
    return guarded([&] {
        *prepared = opdock::core::prepare(entry_of(op), opdock::core::full_args(*args), value_of(policy)).release();
    });
}

void opdock_prepared_destroy(opdock_prepared *prepared) {
    delete static_cast<opdock::core::Prepared *>(prepared);
}

int32_t opdock_prepared_stale(const opdock_prepared *prepared) {
    const auto &snapshot = *static_cast<const opdock::core::Prepared *>(prepared);
    return snapshot.current_generation->load(std::memory_order_acquire) != snapshot.generation ? 1 : 0;
}

const char *opdock_prepared_impl(const opdock_prepared *prepared) {
    return static_cast<const opdock::core::Prepared *>(prepared)->attempt->implementation.impl_id.c_str();
}

opdock_status opdock_prepared_failed(const opdock_prepared *prepared, opdock_status status) {
    (void)guarded([&] {
        const auto &snapshot = *static_cast<const opdock::core::Prepared *>(prepared);
        opdock::core::leave_error(status, opdock::core::failed_run_text(snapshot, status));
    });
    return status;
}

opdock_status opdock_prepared_run_incomplete(const opdock_prepared *prepared, const opdock_call *call) {
    try {
        return opdock::core::run_incomplete(*static_cast<const opdock::core::Prepared *>(prepared), *call);
    } catch (...) {
        opdock::detail::let_cancellation_pass();
        const opdock_status failed = opdock::core::leave_current_exception();
        opdock::core::leave_message(opdock_last_error()); // as a kernel would: opdock_prepared_failed may come next
        return failed;
    }
}

opdock_status opdock_freeze(opdock_host *host, const char *expected, char **manifest) {
    *manifest = nullptr;
    return guarded([&] { *manifest = copy_text(host->freeze(expected)); });
}

opdock_status opdock_describe(opdock_host *host, char **json) {
    *json = nullptr;
    return guarded([&] { *json = copy_text(host->describe()); });
}

opdock_status opdock_explain(opdock_host *host, const char *op, const char *device, const char *dtypes,
                             const opdock_policy *policy, char **json) {
    *json = nullptr;
    return guarded([&] { *json = copy_text(host->explain(op, device, dtypes, value_of(policy))); });
}

opdock_status opdock_find_device(opdock_host *host, const char *text, DLDevice *device) {
    return guarded([&] { *device = host->named_device(text); });
}

opdock_status opdock_devices(opdock_host *host, char **json) {
    *json = nullptr;
    return guarded([&] { *json = copy_text(host->describe_devices()); });
}

opdock_status opdock_device_allocate(opdock_host *host, DLDevice device, void *stream, uint64_t bytes, void **memory) {
    *memory = nullptr;
    return guarded([&] { *memory = opdock::core::DeviceAccess(host->devices(), device, stream).allocate(bytes); });
}

opdock_status opdock_device_free(opdock_host *host, DLDevice device, void *stream, void *memory) {
    return guarded([&] { opdock::core::DeviceAccess(host->devices(), device, stream).free(memory); });
}

opdock_status opdock_device_copy(opdock_host *host, void *to, DLDevice to_device, const void *from,
                                 DLDevice from_device, uint64_t bytes, void *stream) {
    return guarded([&] {
        const opdock::core::DeviceAccess its(host->devices(), to_device, stream),
            other(host->devices(), from_device, stream);
        (its.is_host() ? other : its).copy(to, to_device, from, from_device, bytes);
    });
}

opdock_status opdock_device_synchronize(opdock_host *host, DLDevice device, void *stream) {
    return guarded([&] { opdock::core::DeviceAccess(host->devices(), device, stream).synchronize(); });
}

opdock_status opdock_device_time(opdock_host *host, DLDevice device, void *stream,
                                 opdock_status (*work)(void *user_data), void *user_data, double *microseconds) {
    *microseconds = 0;
    opdock_status status = OPDOCK_OK;
    const opdock_status timed = guarded([&] {
        const opdock::core::DeviceAccess access(host->devices(), device, stream);
        const opdock::core::DeviceInUse current(access);
        opdock::core::DeviceEvent begin(access);
        opdock::core::DeviceEvent end(access);
        begin.record();
        status = work(user_data);
        if (status == OPDOCK_OK) {
            end.record();
            *microseconds = begin.microseconds_until(end);
        }
    });
    return timed == OPDOCK_OK ? status : timed;
}

opdock_status opdock_explain_call(opdock_op *op, const opdock_args *args, const opdock_policy *policy, char **json) {
    *json = nullptr;
    return guarded([&] {
        OpEntry &entry = entry_of(op);
        *json = copy_text(host_of(entry).explain_call(entry, opdock::core::full_args(*args), value_of(policy)));
    });
}

opdock_status opdock_tune(opdock_op *op, const opdock_args *args, const opdock_tune_options *given, char **json) {
    *json = nullptr;
    return guarded([&] {
        opdock::core::TuneOptions options;
        std::string impl_id;
        uint32_t flags = 0;
        if (given != nullptr) {
            if (given->struct_size < OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data)) {
                throw Error(OPDOCK_INVALID_ARGUMENT,
                            "opdock_tune_options.struct_size is too small; set it with OPDOCK_STRUCT_SIZE");
            }
            flags = given->flags;
            if (given->strategy > OPDOCK_TUNE_EXHAUSTIVE ||
                (flags & ~(OPDOCK_TUNE_COLD | OPDOCK_TUNE_DRY_RUN | OPDOCK_TUNE_AGAIN | OPDOCK_TUNE_ACROSS)) != 0 ||
                !(given->budget >= 0)) {
                throw Error(OPDOCK_INVALID_ARGUMENT,
                            "opdock_tune_options: an unknown strategy or flag, or a budget below 0");
            }
            options.strategy = given->strategy == OPDOCK_TUNE_EXHAUSTIVE
                                   ? opdock::core::TuneOptions::Strategy::exhaustive
                                   : opdock::core::TuneOptions::Strategy::halving;
            options.cold = (flags & OPDOCK_TUNE_COLD) != 0;
            options.budget = given->budget > 0 ? given->budget : options.budget;
            impl_id = given->impl_id != nullptr ? given->impl_id : "";
            if (given->progress != nullptr) {
                options.progress = [given](const opdock::core::TuneProgress &now) {
                    return given->progress(given->user_data, now.done, now.total, now.seconds) != 0;
                };
            }
        }
        OpEntry &entry = entry_of(op);
        if ((flags & OPDOCK_TUNE_ACROSS) != 0) {
            if (!impl_id.empty()) {
                throw Error(OPDOCK_INVALID_ARGUMENT,
                            "opdock_tune_options: impl_id is set, but OPDOCK_TUNE_ACROSS times all implementations");
            }
            *json = copy_text(host_of(entry).tune_across(entry, opdock::core::full_args(*args), options,
                                                         (flags & OPDOCK_TUNE_DRY_RUN) != 0));
            return;
        }
        *json =
            copy_text(host_of(entry).tune_call(entry, opdock::core::full_args(*args), impl_id, options,
                                               (flags & OPDOCK_TUNE_AGAIN) != 0, (flags & OPDOCK_TUNE_DRY_RUN) != 0));
    });
}

opdock_status opdock_tune_check(opdock_host *host) {
    return guarded([&] { host->check_tune_database(); });
}

opdock_status opdock_tune_export(opdock_host *host, const char *op, const char *impl_id, char **yaml) {
    *yaml = nullptr;
    return guarded(
        [&] { *yaml = copy_text(host->export_tuning(op != nullptr ? host->op(op).name.c_str() : nullptr, impl_id)); });
}

opdock_status opdock_tune_import(opdock_host *host, const char *yaml, const char *name, uint64_t *count) {
    *count = 0;
    return guarded([&] { *count = host->import_tuning(yaml, name); });
}

opdock_status opdock_tune_merge(const char *const *texts, const char *const *names, uint32_t count, char **yaml,
                                char **warnings) {
    *yaml = nullptr;
    *warnings = nullptr;
    return guarded([&] {
        std::vector<opdock::core::TuneFile> files;
        std::string problems;
        for (uint32_t i = 0; i < count; ++i) {
            files.push_back(opdock::core::parse_tune_file(texts[i], names[i]));
            for (const opdock::core::TuneProblem &problem : files.back().problems) {
                problems += text_of(files.back(), problem) + "\n";
            }
        }
        *yaml = copy_text(opdock::core::print_readable_tune_file(opdock::core::merge_tune_files(files)));
        *warnings = problems.empty() ? nullptr : copy_text(problems);
    });
}

opdock_status opdock_check_file(const char *path, const char *prefix, char **json) {
    *json = nullptr;
    return guarded([&] {
        const auto environment = opdock::core::capture_environment(prefix != nullptr ? prefix : "PLUGIN_");
        *json = copy_text(opdock::core::check_file(path, opdock::core::check_settings(environment)));
    });
}

opdock_status opdock_counters(opdock_host *host, char **json) {
    *json = nullptr;
    return guarded([&] { *json = copy_text(host->describe_counters()); });
}

opdock_status opdock_served_count(opdock_host *host, const char *op, const char *impl_id, uint64_t *count) {
    return guarded([&] { *count = host->served_count(op, impl_id); });
}

opdock_status opdock_reset_health(opdock_host *host, const char *op, const char *impl_id) {
    return guarded([&] { host->reset_health(op, impl_id); });
}

opdock_status opdock_find_extension(opdock_host *host, const char *op, const char *impl_id, const char *name,
                                    const void **table) {
    *table = nullptr;
    return guarded([&] { *table = host->find_extension(op, impl_id, name); });
}

opdock_status opdock_refresh_availability(opdock_host *host) {
    return guarded([&] { host->refresh_availability(); });
}
