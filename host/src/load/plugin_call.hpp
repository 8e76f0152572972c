// Calls into a plugin: converts exceptions to statuses and picks up the message that the plugin left. Lets the
// unwinding of a cancelled thread pass.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include <dlpack/dlpack.h>

#include "load/thread_state.hpp"
#include "opdock/cpp/status.hpp"
#include "opdock/opdock.h"
#include "text/spelling.hpp"

namespace opdock::core {

// Takes the message that a plugin left with fail(); a generic sentence if there is none.
inline std::string take_message(opdock_status status) {
    std::string message;
    message.swap(thread_state().message);
    if (message.empty() && status != OPDOCK_OK) {
        message = "it gave no reason";
    }
    return message;
}

// "FAILED", or "status 77, which is none of a plugin's" for unknown numbers.
inline std::string status_text(opdock_status status) {
    const bool known = status >= OPDOCK_OK && status <= OPDOCK_DEVICE_LOST;
    return known ? opdock_status_name(status) : "status " + std::to_string(status) + ", which is not a plugin's status";
}

// Returns a plugin's message as one line, cut after 64 KiB; empty for null.
inline std::string line_of(const char *message) {
    constexpr std::size_t most_bytes = 64 << 10;
    return message != nullptr ? visible_line({message, strnlen(message, most_bytes)}) : std::string();
}

// Leaves a message as fail() does. If there is no memory for it, only the status remains.
inline void leave_message(const char *begin, const char *end = "") noexcept {
    try {
        thread_state().leave_message(begin + line_of(end));
    } catch (...) { // NOLINT(bugprone-empty-catch)
    }
}

// The status for an exception that escaped from a plugin. Call it from a catch block.
inline opdock_status status_of_exception() noexcept {
    try {
        throw;
    } catch (const std::bad_alloc &) {
        leave_message("it threw std::bad_alloc");
        return OPDOCK_OUT_OF_MEMORY;
    } catch (const std::exception &exception) {
        leave_message("it threw: ", exception.what());
    } catch (...) {
        leave_message("it threw something that is not a std::exception");
    }
    return OPDOCK_FAILED;
}

// The status that a plugin returned on this device, or OPDOCK_FAILED for an unknown number: the effect of the call is
// unknown then. The CPU cannot be lost either, because it runs the host and serves everybody else.
inline opdock_status known_status(opdock_status returned, DLDevice device, std::string &reason) {
    const opdock_status last = device.device_type == kDLCPU ? OPDOCK_DEVICE_LOST - 1 : OPDOCK_DEVICE_LOST;
    if (returned >= OPDOCK_OK && returned <= last) {
        return returned;
    }
    reason = status_text(returned) + ": " + reason;
    return OPDOCK_FAILED;
}

// Keeps the current exception forever. The end of a catch block destroys the exception, whose destructor may throw, as
// may the destructor of the exception thrown by it: the catch block around the latter ends with this call.
inline void keep_current_exception() noexcept {
    struct KeptException {
        std::exception_ptr exception;
        KeptException *next;
    };
    static std::atomic<KeptException *> all{nullptr};
    if (auto *kept = new (std::nothrow) KeptException{std::current_exception(), all.load()}) {
        while (!all.compare_exchange_weak(kept->next, kept)) {
        }
    }
}

// Clears processor flags that the ABI requires to be clear on return, and that affect the host's own code: the
// direction of string instructions, and traps on unaligned access.
inline void clear_cpu_flags() {
#if defined(__x86_64__)
    constexpr unsigned long long direction = 1U << 10U, alignment = 1U << 18U;
    const unsigned long long flags = __builtin_ia32_readeflags_u64();
    if ((flags & (direction | alignment)) != 0) {
        __builtin_ia32_writeeflags_u64(flags & ~(direction | alignment));
    }
#endif
}

// Runs a plugin's code in `function`. Returns its status, or the status for an exception that escaped.
template<typename Function>
[[gnu::always_inline]] inline opdock_status status_of(Function function) {
    opdock_status status = OPDOCK_FAILED;
    try {
        try {
            return function();
        } catch (...) {
            opdock::detail::let_cancellation_pass();
            status = status_of_exception();
        }
    } catch (...) {
        opdock::detail::let_cancellation_pass();
        keep_current_exception();
    }
    return status;
}

template<typename Function>
opdock_status call_plugin(Function function) {
    return status_of([&] {
        thread_state().forget_message(); // may have to create the state
        const opdock_status status = function();
        clear_cpu_flags();
        return status;
    });
}

} // namespace opdock::core
