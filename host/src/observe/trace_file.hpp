// Reads a trace file, whoever wrote it and wherever it was stopped, and writes it as Chrome's JSON,
// which Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "observe/trace_format.hpp"

namespace opdock::core {

struct TracedCall {
    std::string op; // "": a call that there was no room to describe
    std::string impl_id;
    std::string device;
    std::string arguments;
    std::string config;
};

struct TraceEvent {
    uint32_t call; // index in Trace::calls
    uint32_t thread;
    int32_t status;
    double begin; // microseconds of the monotonic clock
    double duration;
    double device_time; // microseconds; negative if the device reported none
};

struct Trace {
    uint64_t process = 0;
    std::vector<TracedCall> calls;
    std::vector<TraceEvent> events; // sorted by begin
    uint64_t overwritten = 0;       // earlier calls, overwritten by later ones
    uint64_t broken = 0;            // inconsistent records: the process was stopped while writing
};

// Throws Error(OPDOCK_INVALID_ARGUMENT) with a message starting with `name` for bytes that are no
// trace. Any bytes are safe.
Trace read_trace(std::string_view bytes, const std::string &name);

std::string chrome_json(const Trace &trace);

} // namespace opdock::core
