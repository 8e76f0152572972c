// What travels between plugin-check and the process in which an implementation runs.
#pragma once

#include <nlohmann/json.hpp>

#include "cases.hpp"
#include "op-call/call.hpp"

namespace opdock::plugin_check {

// The worker's end of a SOCK_SEQPACKET pair. plugin-check sends requests, one JSON object in each packet, {"number",
// "do", ...}; the worker answers each with {"number", "bytes", "text"}: so many bytes of elements lie at the beginning
// of the exchange, and behind them a JSON object of so many. On its own a worker sends {"fault": text} from a signal
// handler, and {"copy": true} from a process that the plugin forked.
inline constexpr int message_descriptor = 3;

// A file without a name, for what is large: inputs on their way to the worker, outputs on their way back.
inline constexpr int exchange_descriptor = 4;

inline constexpr size_t largest_packet = size_t{64} * 1024;

// A call's part in a request: what of a case matters to who makes the call, and the inputs' dtypes and shapes. Their
// elements follow each other in the exchange.
nlohmann::json as_json(const Case &one, const op_call::Operands &inputs);

Case case_of(const nlohmann::json &json);
op_call::Operands operands_in(const nlohmann::json &json, DLDevice device);
// Without their values.
std::vector<op_call::Tensors> inputs_of(const nlohmann::json &json);

// All of it, or false.
bool write_exchange(int exchange, const void *from, size_t bytes, size_t offset);
bool read_exchange(int exchange, void *to, size_t bytes, size_t offset);

} // namespace opdock::plugin_check
