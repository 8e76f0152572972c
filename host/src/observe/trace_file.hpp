// Reads what a trace's file holds, whoever wrote it and wherever it was stopped, and writes it as Chrome's JSON, which
// Perfetto and chrome://tracing open.
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
    uint32_t call; // in Trace::calls
    uint32_t thread;
    int32_t status;
    double begin; // microseconds of the monotonic clock
    double duration;
    double device_time; // microseconds; negative: the device did not tell
};

struct Trace {
    uint64_t process = 0;
    std::vector<TracedCall> calls;
    std::vector<TraceEvent> events; // by begin
    uint64_t overwritten = 0;       // earlier calls, whose places later ones took
    uint64_t broken = 0;            // records that do not hold together: the process was stopped as it wrote them
};

// Throws Error(OPDOCK_INVALID_ARGUMENT), which begins with `name`, for bytes that are no trace. Any bytes are safe to
// give.
Trace read_trace(std::string_view bytes, const std::string &name);

std::string chrome_json(const Trace &trace);

} // namespace opdock::core
