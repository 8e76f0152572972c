// Data that an observing kernel (dispatch/observed_kernel.hpp) needs about its call.
#pragma once

#include "observe/profiler_ranges.hpp"
#include "opdock/opdock.h"

namespace opdock::core {

class DeviceTimer;
class TickClock;
class TraceRing;
struct CountedCall;

// Observation of the calls of one memo or prepared call. Its pointers are valid as long as the CallObserver.
struct ObservedCall {
    opdock_kernel kernel = nullptr; // the observed kernel
    CountedCall *call = nullptr;
    TraceRing *ring = nullptr; // null: no trace
    bool counts = false;
    const TickClock *clock = nullptr;
    DeviceTimer *timer = nullptr;           // null: only the host's clock
    const ProfilerRanges *ranges = nullptr; // null: no profiler listens
    const ProfilerRanges::Name *range = nullptr;
    opdock_kernel in_range = nullptr; // the kernel inside the range
};

} // namespace opdock::core
