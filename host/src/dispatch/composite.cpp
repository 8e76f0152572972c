#include "dispatch/composite.hpp"

#include <memory>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_host.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/prepare.hpp"
#include "load/plugin_call.hpp"
#include "signature/layout.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

// Marks an implementation as active on this thread while it calls another op.
class ActiveFrame {
  public:
    ActiveFrame(CallThread &thread, Attempt &attempt)
        : thread_(thread), attempt_(attempt), frame_{&attempt.implementation, thread.active} {
        thread_.active = &frame_;
        thread_.flags |= ThreadState::nested;
        attempt_.pins.fetch_add(1, std::memory_order_relaxed);
    }
    ActiveFrame(const ActiveFrame &) = delete;
    ActiveFrame &operator=(const ActiveFrame &) = delete;
    ~ActiveFrame() {
        attempt_.pins.fetch_sub(1, std::memory_order_relaxed);
        thread_.active = frame_.previous;
        if (thread_.active == nullptr) {
            thread_.flags &= ~ThreadState::nested;
        }
    }

  private:
    CallThread &thread_;
    Attempt &attempt_;
    Frame frame_;
};

// Maps the host's own statuses, which mean nothing to the caller of a kernel, to those of a plugin.
opdock_status plugin_status(opdock_status status) {
    switch (status) {
    case OPDOCK_UNKNOWN_OP:
    case OPDOCK_NO_IMPLEMENTATION:
    case OPDOCK_ALL_DROPPED:
        return OPDOCK_UNSUPPORTED;
    case OPDOCK_ALL_FAILED:
        return OPDOCK_FAILED;
    default:
        return status >= OPDOCK_UNKNOWN_OP ? OPDOCK_FAILED_CLEAN : status;
    }
}

// Converts a status of the host and leaves its message as a plugin's, so that a kernel may return it unchanged.
opdock_status passed_on(opdock_status status) {
    if (status != OPDOCK_OK) {
        leave_message(opdock_last_error());
    }
    return plugin_status(status);
}

// Runs `work` for the kernel that was given `from`, with its implementation marked as active.
template<class Work>
opdock_status inside_kernel(const opdock_problem *from, Work work) {
    try {
        auto &attempt = *static_cast<Attempt *>(from->host_data);
        const ActiveFrame frame(call_thread(), attempt);
        return work(attempt.host);
    } catch (...) {
        opdock::detail::let_cancellation_pass();
        return passed_on(leave_current_exception());
    }
}

opdock_status prepare_part(const opdock_problem *from, const char *op, const opdock_args *args, opdock_part **part,
                           uint64_t *workspace_size) {
    *part = nullptr;
    *workspace_size = 0;
    return inside_kernel(from, [&](CallHost &host) {
        std::unique_ptr<Prepared> prepared = prepare(host.op(op), full_args(*args), nullptr);
        if (!same_device(prepared->problem->device, from->device)) {
            throw Error(OPDOCK_INVALID_ARGUMENT,
                        fmt::format("op '{}': its tensors are on {}, but those of the op that contains it are on {}",
                                    op, host.devices().text(prepared->problem->device),
                                    host.devices().text(from->device)));
        }
        *workspace_size = prepared->workspace_size;
        *part = reinterpret_cast<opdock_part *>(prepared.release());
        return OPDOCK_OK;
    });
}

opdock_status run_part(const opdock_problem *from, const opdock_part *part, const opdock_call *call) {
    const auto &prepared = *reinterpret_cast<const Prepared *>(part);
    const bool is_complete = call->n_data == prepared.n_data && call->workspace_size >= prepared.workspace_size;
    return inside_kernel(from, [&](CallHost & /*host*/) {
        return is_complete ? status_of([&] { return opdock_prepared_run(&prepared, call); })
                           : run_incomplete(prepared, *call);
    });
}

void release_part(const opdock_host_api * /*host*/, opdock_part *part) {
    delete reinterpret_cast<Prepared *>(part);
}

} // namespace

opdock_status call_from_kernel(const opdock_problem *from, const char *op, const opdock_args *args) {
    return inside_kernel(from, [&](CallHost &host) { return passed_on(call_slowly(nullptr, host.op(op), *args)); });
}

const opdock_composite composite_extension = {
    .struct_size = OPDOCK_STRUCT_SIZE(opdock_composite, release),
    .reserved = 0,
    .prepare = prepare_part,
    .run = run_part,
    .release = release_part,
};

} // namespace opdock::core
