// The first function is the hot path; what it does and does not do is measured in tests/bench. Everything after it is
// the long way: the first call of a shape, calls that fail, scopes, calls from kernels.
#include "dispatch.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "bind.hpp"
#include "error.hpp"
#include "host.hpp"
#include "memo.hpp"
#include "plugin_call.hpp"
#include "resolve_error.hpp"

namespace opdock::core {
namespace {

// One call on the long way.
struct Run {
    Host &host;
    ThreadState &thread;
    Memo &memo;
    const opdock_args &args;
    Pointers pointers;
    bool strict;
};

opdock_status call_slowly(const Target *target, OpEntry &op, const opdock_args &args) noexcept;
opdock_status continue_after_head(ThreadState &thread, Memo &memo, const Pointers &pointers, const opdock_args &args,
                                  opdock_status status) noexcept;

bool serves_steadily(const Memo &memo, const Attempt &attempt) {
    return memo.chain.serving.load(std::memory_order_relaxed) == &attempt.implementation &&
           !attempt.deployment.has_failures();
}

void count_served(Attempt &attempt) {
    // One writer, so no atomic addition is needed.
    attempt.served.store(attempt.served.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

} // namespace

opdock_status call_target(const opdock_target *given, opdock_handle *handle, const opdock_args *args) {
    const Target *target = static_cast<const Target *>(given);
    ThreadState *thread = opdock_thread_state;
    if (thread == nullptr || thread->flags != 0 || handle->index >= thread->n_slots) [[unlikely]] {
        return call_slowly(nullptr, *static_cast<OpEntry *>(handle), *args);
    }
    const Slot *slot = thread->slots[handle->index].get();
    if (slot == nullptr || slot->ways[0].target_id != target->id) [[unlikely]] {
        return call_slowly(target, *static_cast<OpEntry *>(handle), *args);
    }
    Memo &memo = *slot->ways[0].memo;
    Attempt &head = *memo.attempts.front();
    if (!head.plain || !memo.quick) [[unlikely]] {
        return call_slowly(target, *static_cast<OpEntry *>(handle), *args);
    }
    void *data[Memo::max_tensors];
    Pointers pointers{data, head.attributes.data()};
    if (!match(memo, *args, pointers, true) || (pointers.bits & head.alignment_mask) != 0) [[unlikely]] {
        return call_slowly(target, *static_cast<OpEntry *>(handle), *args);
    }
    const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size), 0, data, args->stream, nullptr, 0};
    opdock_status status;
    try {
        status = head.implementation.kernel(&head.problem, &call);
    } catch (...) {
        status = status_of_exception();
    }
    if (status == OPDOCK_OK && serves_steadily(memo, head)) [[likely]] {
        count_served(head);
        return OPDOCK_OK;
    }
    return continue_after_head(*thread, memo, pointers, *args, status);
}

opdock_status leave_error(opdock_status status, std::string message) {
    thread_state().error = std::move(message);
    return status;
}

opdock_status leave_current_exception() noexcept {
    try {
        try {
            throw;
        } catch (const Error &error) {
            return leave_error(error.status(), error.what());
        } catch (const std::bad_alloc &) {
            return leave_error(OPDOCK_OUT_OF_MEMORY, "opdock ran out of memory");
        } catch (const std::exception &exception) {
            return leave_error(OPDOCK_INTERNAL_ERROR, std::string("opdock: ") + exception.what());
        }
    } catch (...) {
        return OPDOCK_OUT_OF_MEMORY; // no memory even for the message
    }
}

namespace {

bool is_active(const ThreadState &thread, const Implementation &implementation) {
    for (const Frame *frame = thread.active; frame != nullptr; frame = frame->previous) {
        if (frame->implementation == &implementation) {
            return true;
        }
    }
    return false;
}

// Memory for the length of one call, from wherever the program or the device's provider has it.
class Workspace {
  public:
    Workspace(const Attempt &attempt, const opdock_args &args)
        : host_(attempt.host), device_(attempt.deployment.device()), stream_(args.stream) {
        if (attempt.workspace_size == 0) {
            return;
        }
        if (args.workspace != nullptr) {
            if (args.workspace_size < attempt.workspace_size) {
                throw Error(OPDOCK_INVALID_ARGUMENT,
                            fmt::format("the workspace given has {} bytes; '{}' needs {}", args.workspace_size,
                                        attempt.implementation.impl_id, attempt.workspace_size));
            }
            memory = args.workspace;
            return;
        }
        memory = allocate(attempt.workspace_size);
        owned_ = true;
        if (memory == nullptr) {
            throw Error(OPDOCK_OUT_OF_MEMORY, fmt::format("no memory for a workspace of {} bytes for '{}'",
                                                          attempt.workspace_size, attempt.implementation.impl_id));
        }
    }
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;
    ~Workspace() {
        if (!owned_ || memory == nullptr) {
            return;
        }
        if (host_.workspace().allocate != nullptr) {
            host_.workspace().free(host_.workspace().user_data, device_, stream_, memory);
        } else {
            call_plugin([&] {
                return provider_->table.free(&host_.api(), provider_->table.user_data, device_.device_id, stream_,
                                             memory);
            });
        }
    }

    void *memory = nullptr;

  private:
    void *allocate(uint64_t bytes) {
        if (host_.workspace().allocate != nullptr) {
            return host_.workspace().allocate(host_.workspace().user_data, device_, stream_, bytes);
        }
        provider_ = find_provider(host_.catalog().providers, device_.device_type);
        if (provider_ == nullptr) {
            return nullptr;
        }
        void *made = nullptr;
        call_plugin([&] {
            return provider_->table.allocate(&host_.api(), provider_->table.user_data, device_.device_id, stream_,
                                             bytes, &made);
        });
        return made;
    }

    Host &host_;
    DLDevice device_;
    void *stream_;
    const DeviceProvider *provider_ = nullptr;
    bool owned_ = false;
};

void remember_launch(ThreadState &thread, const Attempt &attempt) {
    thread.launches.at(thread.n_launches % thread.launches.size()) = {&attempt.implementation,
                                                                      attempt.deployment.device()};
    ++thread.n_launches;
}

// "rmsnorm_fwd (vendor.acme), gelu (vendor.acme)", the latest first.
std::string recent_launches(const ThreadState &thread, DLDevice device) {
    std::string text;
    const size_t kept = std::min<size_t>(thread.n_launches, thread.launches.size());
    for (size_t back = 1; back <= kept; ++back) {
        const Launch &launch = thread.launches.at((thread.n_launches - back) % thread.launches.size());
        if (same_device(launch.device, device)) {
            text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", launch.implementation->op,
                                launch.implementation->impl_id);
        }
    }
    return text;
}

// Calls the kernel of an attempt that is ready. On failure *reason is its message.
opdock_status invoke(Run &run, Attempt &attempt, std::string *reason) {
    const uint64_t alignment = attempt.alignment_mask;
    if ((run.pointers.bits & alignment) != 0) {
        *reason = fmt::format("it needs data aligned to {} bytes", alignment + 1);
        return OPDOCK_UNSUPPORTED;
    }
    std::copy_n(run.pointers.attributes, attempt.attributes.size(), attempt.attributes.begin());
    std::vector<void *> mapped;
    for (const uint32_t tensor : attempt.map) {
        mapped.push_back(run.pointers.data[tensor]);
    }
    if (attempt.provider != nullptr) {
        const opdock_device &table = attempt.provider->table;
        const opdock_status status = call_plugin(
            [&] { return table.make_current(&run.host.api(), table.user_data, run.memo.shape.device.device_id); });
        if (status != OPDOCK_OK) {
            *reason = "make_current: " + take_message(status);
            return status;
        }
        remember_launch(run.thread, attempt);
    }
    const Workspace workspace(attempt, run.args);
    const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size),
                           0,
                           attempt.map.empty() ? run.pointers.data : mapped.data(),
                           run.args.stream,
                           workspace.memory,
                           workspace.memory != nullptr ? attempt.workspace_size : 0};
    const opdock_status status = call_plugin([&] { return attempt.implementation.kernel(&attempt.problem, &call); });
    if (status != OPDOCK_OK) {
        *reason = take_message(status);
    }
    return status;
}

opdock_status fail_call(const Run &run, opdock_status status, const Attempt &attempt, const std::string &reason,
                        const std::string &remark = {}) {
    return leave_error(status, fmt::format("op '{}': '{}' returned {}: {}{}{}", run.memo.chain.op->name,
                                           attempt.implementation.impl_id, opdock_status_name(status), reason,
                                           remark.empty() ? "" : "\n", remark));
}

// What an implementation that did not serve leaves behind; true when the next one may be tried.
bool may_fall_back(Run &run, Attempt &attempt, opdock_status status, const std::string &reason, opdock_status *result) {
    const bool counts =
        status != OPDOCK_UNSUPPORTED && status != OPDOCK_INVALID_ARGUMENT && status != OPDOCK_OUT_OF_MEMORY;
    if (counts && attempt.deployment.count_failure(reason)) {
        run.host.drop_failed(run.memo.chain, attempt.deployment);
    }
    if (status == OPDOCK_INVALID_ARGUMENT || status == OPDOCK_OUT_OF_MEMORY) {
        *result = fail_call(run, status, attempt, reason);
        return false;
    }
    if (status == OPDOCK_DEVICE_LOST) {
        const std::string launches = recent_launches(run.thread, run.memo.shape.device);
        const std::string remark =
            launches.empty() ? "" : "Launched last, on this thread, any of which may be the cause: " + launches;
        *result = fail_call(run, status, attempt, reason, remark);
        run.host.lose_device(run.memo.shape.device, run.thread.error);
        return false;
    }
    if (run.strict) {
        *result = fail_call(run, status, attempt, reason,
                            "Nothing else is tried because strict is set (" +
                                run.memo.chain.decision.policy.strict_source + ").");
        return false;
    }
    if (status == OPDOCK_UNSUPPORTED || status == OPDOCK_FAILED_CLEAN) {
        return true;
    }
    if (run.memo.shape.signature->writes_inputs() || run.pointers.aliased) {
        *result = fail_call(run, status, attempt, reason,
                            "Nothing else is tried because the op writes an input, which may be half written.");
        return false;
    }
    return true;
}

// Tries the links in order. With `head_status`, the first was tried already and returned that.
opdock_status run_chain(Run &run, const opdock_status *head_status = nullptr) {
    Memo &memo = run.memo;
    std::vector<Failure> failures;
    for (size_t i = 0; i < memo.attempts.size(); ++i) {
        Attempt &attempt = *memo.attempts[i];
        std::string reason;
        opdock_status status = OPDOCK_OK;
        if (i == 0 && head_status != nullptr) {
            status = *head_status;
            reason = status == OPDOCK_OK ? "" : take_message(status);
        } else {
            if (is_active(run.thread, attempt.implementation)) {
                failures.push_back(
                    {attempt.implementation.impl_id, "is running on this thread and must not call itself"});
                continue;
            }
            if (!attempt.ready) {
                status = attempt.prepare(memo.shape, false);
                reason = attempt.reason;
            }
            if (status == OPDOCK_OK) {
                status = invoke(run, attempt, &reason);
            }
        }
        if (status == OPDOCK_OK) {
            count_served(attempt);
            if (!serves_steadily(memo, attempt)) {
                attempt.deployment.count_success();
                run.host.note_serving(memo.chain, attempt.implementation, failures);
            }
            return OPDOCK_OK;
        }
        opdock_status result = status;
        if (!may_fall_back(run, attempt, status, reason, &result)) {
            return result;
        }
        if (run.host.is_capturing(memo.shape.device, run.args.stream)) {
            return fail_call(run, status, attempt, reason,
                             "Nothing else is tried because the stream is being captured; prepare the call before.");
        }
        failures.push_back({attempt.implementation.impl_id, fmt::format("{}: {}", opdock_status_name(status), reason)});
    }
    throw all_failed_error(memo.chain.op->name,
                           run.host.key_for(run.host.catalog(), memo.shape.device, &memo.shape.dtypes),
                           memo.chain.decision, failures);
}

opdock_status continue_after_head(ThreadState &thread, Memo &memo, const Pointers &pointers, const opdock_args &args,
                                  opdock_status status) noexcept {
    try {
        Run run{memo.attempts.front()->host, thread, memo, args, pointers, memo.chain.decision.policy.strict};
        return run_chain(run, &status);
    } catch (...) {
        return leave_current_exception();
    }
}

bool is_pinned(const Host &host, const Slot::Way &way) {
    return way.memo != nullptr && way.host_id == host.id() &&
           std::any_of(way.memo->attempts.begin(), way.memo->attempts.end(),
                       [](const auto &attempt) { return attempt->pins.load(std::memory_order_relaxed) != 0; });
}

// The memo of this thread for a call that was validated, most recent first; made when there is none.
Memo &memo_for(Host &host, ThreadState &thread, const OpEntry &op, const Target &target, const Bound &bound,
               const opdock_args &args, Pointers &pointers) {
    Slot &slot = thread.slot(op.index);
    for (size_t i = 0; i < Slot::n_ways; ++i) {
        Slot::Way &way = slot.ways.at(i);
        if (way.target_id == target.id && match(*way.memo, args, pointers, false)) {
            std::rotate(slot.ways.begin(), slot.ways.begin() + static_cast<std::ptrdiff_t>(i),
                        slot.ways.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            return *slot.ways.front().memo;
        }
        pointers.bits = 0;
        pointers.aliased = false;
    }
    const Chain &chain = host.chain_for(target, bound.device, bound.dtypes);
    // Publishing the chain gave the op a new target; remember the call under that one.
    const Target &current = host.target_of(op, thread);
    Memo &memo = host.adopt(std::make_unique<Memo>(chain, bound, args, host));
    // The oldest way goes, unless its kernel is further up this thread's stack. When all are, the slot is deeper than a
    // kernel can nest: implementations never call themselves.
    auto oldest = slot.ways.end() - 1;
    while (oldest != slot.ways.begin() && is_pinned(host, *oldest)) {
        --oldest;
    }
    if (oldest->memo != nullptr && oldest->host_id == host.id() && !is_pinned(host, *oldest)) {
        host.release(oldest->memo);
    }
    std::rotate(slot.ways.begin(), oldest, oldest + 1);
    slot.ways.front() = {current.find(bound.device, bound.dtypes) == &chain ? current.id : target.id, host.id(), &memo};
    return memo;
}

// What the quick path takes from a matching memo, for a call that just made one or has too much for the stack.
void point_at(const Bound &bound, std::vector<void *> &data, Pointers &pointers) {
    for (size_t i = 0; i < bound.tensors.size(); ++i) {
        const DLTensor *tensor = bound.tensors[i];
        bool empty = tensor == nullptr || tensor->data == nullptr;
        for (int32_t d = 0; !empty && d < tensor->ndim; ++d) {
            empty = tensor->shape[d] == 0;
        }
        data[i] = empty ? nullptr : static_cast<char *>(tensor->data) + tensor->byte_offset;
        pointers.bits |= reinterpret_cast<uint64_t>(data[i]);
    }
}

opdock_status call_slowly(const Target *target, OpEntry &op, const opdock_args &args) noexcept {
    try {
        Host &host = *op.host;
        ThreadState &thread = thread_state();
        if (target == nullptr) {
            target = &host.target_of(op, thread);
        }
        const CatalogOp &declared = *target->view->catalog.find(op.name);
        const Bound bound = bind(*declared.signature, args);
        host.check_not_lost(bound.device);
        if (host.is_capturing(bound.device, args.stream) && target->find(bound.device, bound.dtypes) == nullptr) {
            throw Error(OPDOCK_NOT_PREPARED,
                        fmt::format("op '{}': the stream is being captured and the op was never "
                                    "resolved for these dtypes; prepare the call before the capture",
                                    op.name));
        }
        std::vector<void *> data(bound.tensors.size());
        std::vector<opdock_value> attributes = bound.attributes;
        Pointers pointers{data.data(), attributes.data()};
        Memo &memo = memo_for(host, thread, op, *target, bound, args, pointers);
        pointers.bits = 0;
        point_at(bound, data, pointers);
        attributes = bound.attributes;
        pointers.aliased = bound.writes_inputs && !declared.signature->writes_inputs();
        Run run{host, thread, memo, args, pointers, memo.chain.decision.policy.strict};
        return run_chain(run);
    } catch (...) {
        return leave_current_exception();
    }
}

// Marks the implementation that calls another op as active on this thread.
class ActiveFrame {
  public:
    ActiveFrame(ThreadState &thread, Attempt &attempt)
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
    ThreadState &thread_;
    Attempt &attempt_;
    Frame frame_;
};

} // namespace

opdock_status call_from_kernel(const opdock_problem *from, const char *op, const opdock_args *args) {
    opdock_status status = OPDOCK_OK;
    try {
        auto &attempt = *static_cast<Attempt *>(from->host_data);
        const ActiveFrame frame(thread_state(), attempt);
        status = call_slowly(nullptr, attempt.host.op(op), *args);
    } catch (...) {
        status = leave_current_exception();
    }
    if (status != OPDOCK_OK) {
        thread_state().message = thread_state().error; // so that the kernel may return the status as it is
    }
    switch (status) { // the host's own statuses mean nothing to the caller of the kernel
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

} // namespace opdock::core
