// SPDX-License-Identifier: Apache-2.0
// The result of a kernel or callback written in C++: a status and the message that explains it.
//
//     if (n % 2 != 0)
//         return opdock::unsupported("n must be even, is " + std::to_string(n));
//     ...
//     return {}; // done
//
// Code too deep to return a Status throws a Failure instead; the firewall (firewall.hpp) converts both for the
// ABI.
#ifndef OPDOCK_CPP_STATUS_HPP
#define OPDOCK_CPP_STATUS_HPP

#include <cxxabi.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "opdock/abi/status.h"

namespace opdock {

class [[nodiscard]] Status {
  public:
    Status() noexcept = default;
    // A status whose message, if any, was already left, such as the result of opdock_host_api.call_op.
    explicit Status(opdock_status code) noexcept : code_(code) {}
    Status(opdock_status code, std::string message)
        : code_(code), message_(std::make_unique<std::string>(std::move(message))) {}

    opdock_status code() const noexcept { return code_; }
    bool ok() const noexcept { return code_ == OPDOCK_OK; }
    // Null if there is none.
    const char *message() const noexcept { return message_ ? message_->c_str() : nullptr; }

  private:
    opdock_status code_ = OPDOCK_OK;
    // Out of line, so that success costs only two words.
    std::unique_ptr<std::string> message_;
};

// Declines: nothing was written, and the next implementation may serve the call.
inline Status unsupported(std::string message) {
    return {OPDOCK_UNSUPPORTED, std::move(message)};
}
// The caller's mistake.
inline Status invalid_argument(std::string message) {
    return {OPDOCK_INVALID_ARGUMENT, std::move(message)};
}
inline Status out_of_memory(std::string message) {
    return {OPDOCK_OUT_OF_MEMORY, std::move(message)};
}
// Failed; outputs may be partly written.
inline Status failed(std::string message) {
    return {OPDOCK_FAILED, std::move(message)};
}
// Failed before anything was written.
inline Status failed_clean(std::string message) {
    return {OPDOCK_FAILED_CLEAN, std::move(message)};
}

// A Status other than OK, thrown.
class Failure : public std::runtime_error {
  public:
    Failure(opdock_status code, const std::string &message) : std::runtime_error(message), code_(code) {}
    opdock_status code() const noexcept { return code_; }

  private:
    opdock_status code_;
};

namespace detail {

// Must come first in a `catch (...)` block: the unwinding of a cancelled thread is not a C++ exception, and the C
// library ends the process if it is stopped. Exceptions of other languages pass too.
inline void let_cancellation_pass() {
    if (std::current_exception() == nullptr)
        throw;
}

} // namespace detail

} // namespace opdock

#endif
