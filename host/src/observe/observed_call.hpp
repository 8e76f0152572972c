// What a watching kernel (dispatch/observed_kernel.hpp) needs of its call.
#pragma once

#include "observe/profiler_ranges.hpp"
#include "opdock/opdock.h"

namespace opdock::core {

class DeviceTimer;
class TickClock;
class TraceRing;
struct CountedCall;

// How the calls of one memo or prepared call are watched. What it points to lives as long as the CallObserver.
struct ObservedCall {
    opdock_kernel kernel = nullptr; // the one that is watched
    CountedCall *call = nullptr;
    TraceRing *ring = nullptr; // null: no trace
    bool counts = false;
    const TickClock *clock = nullptr;
    DeviceTimer *timer = nullptr;           // null: the host's clock alone
    const ProfilerRanges *ranges = nullptr; // null: no profiler listens
    const ProfilerRanges::Name *range = nullptr;
    opdock_kernel in_range = nullptr; // the one that the range is around
};

} // namespace opdock::core
