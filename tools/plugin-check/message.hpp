// Messages between plugin-check and the process that runs an implementation.
#pragma once

#include <nlohmann/json.hpp>

#include "cases.hpp"
#include "op-call/call.hpp"

namespace opdock::plugin_check {

// The worker's end of a SOCK_SEQPACKET pair. plugin-check sends requests, one JSON object per packet, {"number", "do",
// ...}; the worker answers each with {"number", "bytes", "text"}: the number of bytes of elements at the beginning of
// the exchange, and the number of bytes of the JSON object after them. Unasked, a worker sends {"fault": text} from a
// signal handler, and {"copy": true} from a process that the plugin forked.
inline constexpr int message_descriptor = 3;

// An unnamed file for large data: inputs on their way to the worker, outputs on their way back.
inline constexpr int exchange_descriptor = 4;

inline constexpr size_t largest_packet = size_t{64} * 1024;

// A call's part of a request: the parts of a case that matter for making the call, and the inputs' dtypes and shapes.
// The inputs' elements follow each other in the exchange.
nlohmann::json as_json(const Case &one, const op_call::Operands &inputs);

Case case_of(const nlohmann::json &json);
op_call::Operands operands_in(const nlohmann::json &json, DLDevice device);
// Tensors without their values.
std::vector<op_call::Tensors> inputs_of(const nlohmann::json &json);

// Transfers everything, or returns false.
bool write_exchange(int exchange, const void *from, size_t bytes, size_t offset);
bool read_exchange(int exchange, void *to, size_t bytes, size_t offset);

} // namespace opdock::plugin_check
