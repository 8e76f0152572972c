// The C API: opdock/opdock.h on top of Host. Nothing but translation; no exception leaves, and no thread is cancelled
// here.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include <nlohmann/json.hpp>

#include "dispatch/dispatch.hpp"
#include "dispatch/prepare.hpp"
#include "host/check.hpp"
#include "host/host.hpp"
#include "load/cancellation.hpp"
#include "signature/infer.hpp"
#include "signature/layout.hpp"
#include "signature/signature_json.hpp"
#include "text/error.hpp"
#include "tune/device_memory.hpp"

// The opaque types of opdock.h.
struct opdock_runtime : opdock::core::Host {
    using Host::Host;
};
struct opdock_policy {
    opdock::core::PolicyPtr value;
};

namespace {

using opdock::core::Error;
using opdock::core::OpEntry;

template<class Function>
opdock_status guarded(Function function) noexcept {
    const opdock::core::Uncancellable host_work;
    try {
        function();
        return OPDOCK_OK;
    } catch (...) {
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

// Paths and what plugins say need not be UTF-8, and JSON has to be.
char *copy_text(const nlohmann::json &document) {
    return copy_text(document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

OpEntry &entry_of(opdock_handle *handle) {
    return *static_cast<OpEntry *>(handle);
}

const opdock::core::Signature &signature_of(opdock_handle *handle) {
    const OpEntry &op = entry_of(handle);
    return *op.host->catalog().find(op.name)->signature;
}

opdock::core::PolicyPtr value_of(const opdock_policy *policy) {
    return policy != nullptr ? policy->value : nullptr;
}

opdock::core::HostOptions options_of(const opdock_options *given) {
    opdock::core::HostOptions options;
    if (given == nullptr) {
        return options;
    }
    if (given->struct_size < OPDOCK_STRUCT_SIZE(opdock_options, workspace_user_data)) {
        throw Error(OPDOCK_INVALID_ARGUMENT, "opdock_options.struct_size is too small; set it with OPDOCK_STRUCT_SIZE");
    }
    if ((given->allocate_workspace == nullptr) != (given->free_workspace == nullptr)) {
        throw Error(OPDOCK_INVALID_ARGUMENT, "opdock_options: allocate_workspace and free_workspace come together");
    }
    if (given->prefix != nullptr) {
        options.prefix = given->prefix;
    }
    for (uint32_t i = 0; i < given->n_modules; ++i) {
        options.modules.emplace_back(given->modules[i]);
    }
    if (given->struct_size >= OPDOCK_STRUCT_SIZE(opdock_options, flags)) {
        if ((given->flags & ~OPDOCK_OPEN_RESCAN) != 0) {
            throw Error(OPDOCK_INVALID_ARGUMENT, "opdock_options.flags has bits that this host does not know");
        }
        options.rescan = (given->flags & OPDOCK_OPEN_RESCAN) != 0;
    }
    options.log = opdock::core::Log(given->log, given->log_user_data);
    options.workspace = {given->allocate_workspace, given->free_workspace, given->workspace_user_data};
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
    default:
        return "UNKNOWN";
    }
}

void opdock_string_free(char *string) {
    std::free(string);
}

opdock_status opdock_open(const opdock_options *options, opdock_runtime **runtime) {
    *runtime = nullptr;
    return guarded([&] {
        opdock::core::refuse_while_registering("open a host");
        *runtime = new opdock_runtime(options_of(options));
    });
}

void opdock_close(opdock_runtime *runtime) {
    delete runtime;
}

opdock_status opdock_load(opdock_runtime *runtime, const char *path) {
    return guarded([&] { runtime->load(path); });
}

opdock_status opdock_register_module(opdock_runtime *runtime, const char *id, const char *vendor, opdock_entry entry) {
    return guarded([&] { runtime->register_module(id, vendor != nullptr ? vendor : "", entry); });
}

opdock_status opdock_find_op(opdock_runtime *runtime, const char *name, opdock_handle **handle) {
    *handle = nullptr;
    return guarded([&] { *handle = &runtime->op(name); });
}

opdock_status opdock_call_by_name(opdock_runtime *runtime, const char *name, const opdock_args *args) {
    OpEntry *op = runtime->find_op(name);
    if (op == nullptr) [[unlikely]] {
        return guarded([&] { (void)runtime->op(name); });
    }
    return opdock_call_handle(op, args);
}

opdock_status opdock_infer_outputs(opdock_handle *handle, const opdock_args *args, opdock_tensor_spec *specs,
                                   uint32_t capacity, uint32_t *count) {
    return guarded([&] {
        const auto inferred = opdock::core::infer_outputs(signature_of(handle), opdock::core::full_args(*args));
        *count = static_cast<uint32_t>(inferred.size());
        for (uint32_t i = 0; i < std::min(*count, capacity); ++i) {
            specs[i] = inferred[i];
        }
    });
}

opdock_status opdock_signature_json(opdock_handle *handle, char **json) {
    return guarded([&] { *json = copy_text(opdock::core::signature_json(signature_of(handle))); });
}

opdock_status opdock_policy_create(opdock_runtime *runtime, const opdock_setting *settings, uint32_t count,
                                   opdock_policy **policy) {
    *policy = nullptr;
    return guarded([&] {
        std::vector<opdock::core::Setting> copies;
        for (uint32_t i = 0; i < count; ++i) {
            copies.push_back({settings[i].name, settings[i].value});
        }
        *policy = new opdock_policy{std::make_shared<const opdock::core::Policy>(runtime->make_policy(copies))};
    });
}

void opdock_policy_release(opdock_policy *policy) {
    delete policy;
}

opdock_status opdock_policy_set(opdock_runtime *runtime, const opdock_policy *policy) {
    return guarded([&] { runtime->set_program_policy(value_of(policy)); });
}

opdock_status opdock_policy_push(opdock_runtime *runtime, const opdock_policy *policy) {
    return guarded([&] { runtime->push_scope(policy->value); });
}

opdock_status opdock_policy_pop(opdock_runtime *runtime) {
    return guarded([&] { runtime->pop_scope(); });
}

opdock_status opdock_policy_effective(opdock_runtime *runtime, opdock_policy **policy) {
    *policy = nullptr;
    return guarded([&] {
        *policy =
            new opdock_policy{std::make_shared<const opdock::core::Policy>(runtime->effective_policy().flattened())};
    });
}

opdock_status opdock_policy_reload(opdock_runtime *runtime) {
    return guarded([&] { runtime->reload_policy(); });
}

opdock_status opdock_prepare(opdock_handle *handle, const opdock_args *args, const opdock_policy *policy,
                             opdock_prepared **prepared) {
    *prepared = nullptr;
    return guarded([&] {
        *prepared = opdock::core::prepare(entry_of(handle), opdock::core::full_args(*args), value_of(policy)).release();
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

opdock_status opdock_prepared_too_few(const opdock_prepared *prepared, uint64_t given) {
    return guarded([&] {
        const auto &snapshot = *static_cast<const opdock::core::Prepared *>(prepared);
        throw Error(OPDOCK_INVALID_ARGUMENT, opdock::core::too_few_pointers_text(snapshot, given));
    });
}

opdock_status opdock_describe(opdock_runtime *runtime, char **json) {
    *json = nullptr;
    return guarded([&] { *json = copy_text(runtime->describe()); });
}

opdock_status opdock_explain(opdock_runtime *runtime, const char *op, const char *device, const char *dtypes,
                             const opdock_policy *policy, char **json) {
    *json = nullptr;
    return guarded([&] { *json = copy_text(runtime->explain(op, device, dtypes, value_of(policy))); });
}

opdock_status opdock_find_device(opdock_runtime *runtime, const char *text, DLDevice *device) {
    return guarded([&] { *device = opdock::core::parse_device(runtime->catalog().providers, text); });
}

opdock_status opdock_devices(opdock_runtime *runtime, char **json) {
    *json = nullptr;
    return guarded([&] { *json = copy_text(runtime->describe_devices()); });
}

opdock_status opdock_device_allocate(opdock_runtime *runtime, DLDevice device, void *stream, uint64_t bytes,
                                     void **memory) {
    *memory = nullptr;
    return guarded([&] { *memory = opdock::core::DeviceAccess(*runtime, device, stream).allocate(bytes); });
}

opdock_status opdock_device_free(opdock_runtime *runtime, DLDevice device, void *stream, void *memory) {
    return guarded([&] { opdock::core::DeviceAccess(*runtime, device, stream).free(memory); });
}

opdock_status opdock_device_copy(opdock_runtime *runtime, void *to, DLDevice to_device, const void *from,
                                 DLDevice from_device, uint64_t bytes, void *stream) {
    return guarded([&] {
        const DLDevice device = to_device.device_type != kDLCPU ? to_device : from_device;
        opdock::core::DeviceAccess(*runtime, device, stream).copy(to, to_device, from, from_device, bytes);
    });
}

opdock_status opdock_device_synchronize(opdock_runtime *runtime, DLDevice device, void *stream) {
    return guarded([&] { opdock::core::DeviceAccess(*runtime, device, stream).synchronize(); });
}

opdock_status opdock_device_time(opdock_runtime *runtime, DLDevice device, void *stream,
                                 opdock_status (*work)(void *user_data), void *user_data, double *microseconds) {
    *microseconds = 0;
    opdock_status status = OPDOCK_OK;
    const opdock_status timed = guarded([&] {
        const opdock::core::DeviceAccess access(*runtime, device, stream);
        opdock::core::DeviceEvent begin(access);
        opdock::core::DeviceEvent end(access);
        access.make_current();
        begin.record();
        status = work(user_data);
        if (status == OPDOCK_OK) {
            end.record();
            *microseconds = begin.microseconds_until(end);
        }
    });
    return timed == OPDOCK_OK ? status : timed;
}

opdock_status opdock_explain_call(opdock_handle *handle, const opdock_args *args, const opdock_policy *policy,
                                  char **json) {
    *json = nullptr;
    return guarded([&] {
        OpEntry &op = entry_of(handle);
        *json = copy_text(op.host->explain_call(op, opdock::core::full_args(*args), value_of(policy)));
    });
}

opdock_status opdock_tune(opdock_handle *handle, const opdock_args *args, const opdock_tune_options *given,
                          char **json) {
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
                (flags & ~(OPDOCK_TUNE_COLD | OPDOCK_TUNE_DRY_RUN | OPDOCK_TUNE_AGAIN)) != 0 || !(given->budget >= 0)) {
                throw Error(
                    OPDOCK_INVALID_ARGUMENT,
                    "opdock_tune_options: a strategy or flag that this host does not know, or a budget below 0");
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
        OpEntry &op = entry_of(handle);
        *json = copy_text(op.host->tune_call(op, opdock::core::full_args(*args), impl_id, options,
                                             (flags & OPDOCK_TUNE_AGAIN) != 0, (flags & OPDOCK_TUNE_DRY_RUN) != 0));
    });
}

opdock_status opdock_tune_check(opdock_runtime *runtime) {
    return guarded([&] { runtime->check_tune_database(); });
}

opdock_status opdock_tune_export(opdock_runtime *runtime, const char *op, const char *impl_id, char **yaml) {
    *yaml = nullptr;
    return guarded([&] {
        if (op != nullptr) {
            (void)runtime->op(op); // an unknown one throws
        }
        *yaml = copy_text(runtime->export_tuning(op, impl_id));
    });
}

opdock_status opdock_tune_import(opdock_runtime *runtime, const char *yaml, const char *name, uint64_t *count) {
    *count = 0;
    return guarded([&] { *count = runtime->import_tuning(yaml, name); });
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

opdock_status opdock_served_count(opdock_runtime *runtime, const char *op, const char *impl_id, uint64_t *count) {
    return guarded([&] { *count = runtime->served_count(op, impl_id); });
}

opdock_status opdock_reset_health(opdock_runtime *runtime, const char *op, const char *impl_id) {
    return guarded([&] { runtime->reset_health(op, impl_id); });
}

opdock_status opdock_refresh_availability(opdock_runtime *runtime) {
    return guarded([&] { runtime->refresh_availability(); });
}
