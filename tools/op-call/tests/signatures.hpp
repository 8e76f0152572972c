// Signatures for tests.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "op-call/signature.hpp"
#include "opdock/opdock.hpp"

inline opdock::op_call::Signature parsed(const std::string &text) {
    return opdock::op_call::read_signature(nlohmann::json::parse(opdock::parse_signature(text)));
}

inline opdock::op_call::Signature rmsnorm() {
    return parsed("rmsnorm_fwd(input: T[..., n], weight: U[n], *, eps: float = 1e-5, zero_centered_gamma: bool = false)"
                  " -> (output: T[..., n], rsigma: f32[...]?)");
}

inline opdock::op_call::Signature sgd() {
    return parsed("sgd(grads: T[n]*, mut params: U[n]*, noop: i32[1]?, *, momentum: float) -> ()");
}
