// Memory for the length of one call, from the caller, the program's allocator or the device's provider.
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

    // Finds the memory, the device being current. A status other than OPDOCK_OK comes with *reason:
    // OPDOCK_INVALID_ARGUMENT when the caller has to give some or gave too little, else what the provider returned.
    opdock_status provide(std::string *reason);

    // Null when the attempt needs none.
    void *memory() const { return memory_; }

  private:
    opdock_status allocate(std::string *reason);

    CallHost &host_;
    const Attempt &attempt_;
    const opdock_args &args_;
    void *memory_ = nullptr;
    bool owned_ = false;                       // from one of the two:
    const DeviceProvider *provider_ = nullptr; // null: from the program's allocator
};

} // namespace opdock::core
