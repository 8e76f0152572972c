// An error that stops a stage: a status and a message for people. Caught at the C API.
#pragma once

#include <stdexcept>
#include <string>

#include "opdock/opdock.h"

namespace opdock::core {

class Error : public std::runtime_error {
  public:
    Error(opdock_status status, const std::string &message) : std::runtime_error(message), status_(status) {}

    opdock_status status() const noexcept { return status_; }

  private:
    opdock_status status_;
};

} // namespace opdock::core
