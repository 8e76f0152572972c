// Memory for the length of one call, from the caller, the program's allocator or the device's provider.
#pragma once

#include <cstdint>

#include "attempt.hpp"
#include "opdock/opdock.h"

namespace opdock::core {

class Workspace {
  public:
    // Throws Error: OPDOCK_INVALID_ARGUMENT when the caller gave too little, OPDOCK_OUT_OF_MEMORY when there is none.
    Workspace(const Attempt &attempt, const opdock_args &args);
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;
    ~Workspace();

    // Null when the attempt needs none.
    void *memory() const { return memory_; }

  private:
    void *allocate(uint64_t bytes);

    Host &host_;
    DLDevice device_;
    void *stream_;
    void *memory_ = nullptr;
    const DeviceProvider *provider_ = nullptr;
    bool owned_ = false;
};

} // namespace opdock::core
