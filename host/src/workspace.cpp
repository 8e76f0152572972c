#include "workspace.hpp"

#include <spdlog/fmt/fmt.h>

#include "error.hpp"
#include "host.hpp"
#include "plugin_call.hpp"

namespace opdock::core {

Workspace::Workspace(const Attempt &attempt, const opdock_args &args)
    : host_(attempt.host), device_(attempt.deployment.device()), stream_(args.stream) {
    if (attempt.workspace_size == 0) {
        return;
    }
    const std::string &impl_id = attempt.implementation.impl_id;
    if (args.workspace != nullptr) {
        if (args.workspace_size < attempt.workspace_size) {
            throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("the workspace given has {} bytes; '{}' needs {}",
                                                             args.workspace_size, impl_id, attempt.workspace_size));
        }
        memory_ = args.workspace;
        return;
    }
    memory_ = allocate(attempt.workspace_size);
    if (memory_ == nullptr) {
        throw Error(OPDOCK_OUT_OF_MEMORY,
                    fmt::format("no memory for a workspace of {} bytes for '{}'", attempt.workspace_size, impl_id));
    }
    owned_ = true;
}

Workspace::~Workspace() {
    if (!owned_) {
        return;
    }
    const WorkspaceAllocator &allocator = host_.workspace();
    if (allocator.free != nullptr) {
        allocator.free(allocator.user_data, device_, stream_, memory_);
    } else {
        call_plugin([&] {
            return provider_->table.free(&host_.api(), provider_->table.user_data, device_.device_id, stream_, memory_);
        });
    }
}

void *Workspace::allocate(uint64_t bytes) {
    const WorkspaceAllocator &allocator = host_.workspace();
    if (allocator.allocate != nullptr) {
        return allocator.allocate(allocator.user_data, device_, stream_, bytes);
    }
    provider_ = find_provider(host_.catalog().providers, device_.device_type);
    if (provider_ == nullptr) {
        return nullptr;
    }
    void *memory = nullptr;
    const opdock_status status = call_plugin([&] {
        return provider_->table.allocate(&host_.api(), provider_->table.user_data, device_.device_id, stream_, bytes,
                                         &memory);
    });
    return status == OPDOCK_OK ? memory : nullptr;
}

} // namespace opdock::core
