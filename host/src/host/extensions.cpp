#include "host/extensions.hpp"

#include "devices/device_memory.hpp"
#include "dispatch/composite.hpp"
#include "host/host.hpp"
#include "host/plugin_table.hpp"
#include "load/plugin_call.hpp"
#include "opdock/plugin.h"
#include "text/error.hpp"

namespace opdock::core {
namespace {

// The status of work on a device, for a plugin: an exception becomes a status, with its message left as if by fail().
template<class Work>
opdock_status for_plugin(const opdock_host_api *api, Work work) noexcept {
    leave_message("the host was closed, or is out of memory");
    const opdock_status closed = OPDOCK_FAILED;
    return in_open_host(api, closed, [&](const Host &host) -> opdock_status {
        try {
            work(host);
            thread_state().forget_message();
            return OPDOCK_OK;
        } catch (const Error &error) {
            leave_message(error.what());
            return error.status();
        }
    });
}

opdock_status allocate(const opdock_host_api *api, DLDevice device, void *stream, uint64_t bytes, void **memory) {
    *memory = nullptr;
    return for_plugin(api, [&](const Host &host) {
        const WorkspaceAllocator &program = host.workspace();
        if (host.devices().is_capturing(device, stream)) {
            throw Error(
                OPDOCK_INVALID_ARGUMENT,
                "memory cannot be allocated on a stream that is being captured; allocate it earlier, in plan_create");
        }
        if (program.allocate == nullptr) {
            *memory = DeviceAccess(host.devices(), device, stream).allocate(bytes);
        } else if (bytes != 0) {
            *memory = program.allocate(program.user_data, device, stream, bytes);
            if (*memory == nullptr) {
                throw Error(OPDOCK_OUT_OF_MEMORY, "the program's allocator gave no memory");
            }
        }
    });
}

opdock_status free_memory(const opdock_host_api *api, DLDevice device, void *stream, void *memory) {
    return for_plugin(api, [&](const Host &host) {
        const WorkspaceAllocator &program = host.workspace();
        if (program.allocate == nullptr) {
            DeviceAccess(host.devices(), device, stream).free(memory);
        } else if (memory != nullptr) {
            program.free(program.user_data, device, stream, memory);
        }
    });
}

opdock_status notify(const opdock_host_api *api, DLDevice device, void *stream, void (*function)(void *),
                     void *argument) {
    return for_plugin(
        api, [&](const Host &host) { DeviceAccess(host.devices(), device, stream).notify(function, argument); });
}

constexpr opdock_allocator allocator{OPDOCK_STRUCT_SIZE(opdock_allocator, free), 0, allocate, free_memory};
constexpr opdock_completion completion{OPDOCK_STRUCT_SIZE(opdock_completion, notify), 0, notify};

} // namespace

const void *own_extension(std::string_view name) {
    if (name == OPDOCK_ALLOCATOR) {
        return &allocator;
    }
    if (name == OPDOCK_COMPLETION) {
        return &completion;
    }
    return name == OPDOCK_COMPOSITE ? &composite_extension : nullptr;
}

} // namespace opdock::core
