// Memory for the duration of one call, from the caller, the program's allocator or the device's provider.
#pragma once

#include <cstdint>
#include <string>

#include "dispatch/attempt.hpp"
#include "opdock/opdock.h"

namespace opdock::core {

class Workspace {
  public:
    Workspace(const Attempt &attempt, const opdock_args &args);
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;
    ~Workspace();

    // Obtains the memory; the device must be current. A status other than OPDOCK_OK sets *reason:
    // OPDOCK_INVALID_ARGUMENT if the caller gave none or too little, else the provider's status.
    opdock_status provide(std::string *reason);

    // Null if the attempt needs none.
    void *memory() const { return memory_; }

  private:
    opdock_status allocate(std::string *reason);

    CallHost &host_;
    const Attempt &attempt_;
    const opdock_args &args_;
    void *memory_ = nullptr;
    bool owned_ = false;                       // allocated by one of the two:
    const DeviceProvider *provider_ = nullptr; // null: by the program's allocator
};

} // namespace opdock::core
