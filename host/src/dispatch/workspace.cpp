#include "dispatch/workspace.hpp"

#include <utility>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_host.hpp"
#include "load/plugin_call.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr uint64_t alignment = 256;

} // namespace

Workspace::Workspace(const Attempt &attempt, const opdock_args &args)
    : host_(attempt.host), attempt_(attempt), args_(args) {}

Workspace::~Workspace() {
    if (!owned_) {
        return;
    }
    const DLDevice device = attempt_.deployment.device();
    if (provider_ == nullptr) {
        const WorkspaceAllocator &allocator = host_.workspace();
        allocator.free(allocator.user_data, device, args_.stream, memory_);
        return;
    }
    std::string said = std::move(thread_state().message); // the kernel's message
    call_plugin([&] {
        const opdock_device_provider &table = provider_->table;
        return table.free(&host_.api(), table.user_data, device.device_id, args_.stream, memory_);
    });
    if (!said.empty()) {
        thread_state().leave_message(std::move(said));
    }
}

opdock_status Workspace::provide(std::string *reason) {
    const uint64_t needed = attempt_.workspace_size;
    if (needed == 0) {
        return OPDOCK_OK;
    }
    if (args_.workspace == nullptr) {
        return allocate(reason);
    }
    const std::string &impl_id = attempt_.implementation.impl_id;
    if (args_.workspace_size < needed) {
        *reason = fmt::format("the given workspace has {}; '{}' needs {}", counted(args_.workspace_size, "byte"),
                              impl_id, needed);
        return OPDOCK_INVALID_ARGUMENT;
    }
    if (reinterpret_cast<uintptr_t>(args_.workspace) % alignment != 0) {
        *reason =
            fmt::format("the given workspace is at {}; it must be aligned to {} bytes", args_.workspace, alignment);
        return OPDOCK_INVALID_ARGUMENT;
    }
    memory_ = args_.workspace;
    return OPDOCK_OK;
}

opdock_status Workspace::allocate(std::string *reason) {
    const DLDevice device = attempt_.deployment.device();
    const uint64_t bytes = attempt_.workspace_size;
    const WorkspaceAllocator &allocator = host_.workspace();
    opdock_status status = OPDOCK_OUT_OF_MEMORY;
    std::string why;
    if (allocator.allocate != nullptr) {
        memory_ = allocator.allocate(allocator.user_data, device, args_.stream, bytes);
        why = "the program's allocator returned none";
    } else if (host_.devices().is_capturing(device, args_.stream)) {
        // The graph would write to memory that was returned to the provider at capture.
        *reason = fmt::format("it needs a workspace of {} bytes, but the stream is being captured: the caller must "
                              "pass a workspace that lives as long as the graph (opdock_args.workspace)",
                              bytes);
        return OPDOCK_INVALID_ARGUMENT;
    } else if ((provider_ = find_provider(host_.devices().providers(), device.device_type)) != nullptr) {
        const opdock_device_provider &table = provider_->table;
        const opdock_status returned = call_plugin([&] {
            return table.allocate(&host_.api(), table.user_data, device.device_id, args_.stream, bytes, &memory_);
        });
        if (returned != OPDOCK_OK) {
            memory_ = nullptr;
            status = returned;
        }
        why = take_message(returned);
    } else {
        why = "no plugin provides memory for this device type";
    }
    if (memory_ == nullptr) {
        *reason = fmt::format("no memory for a workspace of {} bytes: {}", bytes, why);
        return status;
    }
    owned_ = true;
    return OPDOCK_OK;
}

} // namespace opdock::core
