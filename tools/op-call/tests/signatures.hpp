// Signatures as opdock_signature_json gives them.
#pragma once

#include "op-call/signature.hpp"

inline opdock::op_call::Signature rmsnorm() {
    return opdock::op_call::read_signature(nlohmann::json::parse(R"json({
        "op": "rmsnorm_fwd",
        "signature": "rmsnorm_fwd(input: T[..., n], weight: U[n], *, eps: float = 1e-5, zero_centered_gamma: bool = false) -> (output: T[..., n], rsigma: f32[...]?)",
        "inputs": [{"name": "input", "optional": false, "list": false, "mut": false, "host": false},
                   {"name": "weight", "optional": false, "list": false, "mut": false, "host": false}],
        "outputs": [{"name": "output", "optional": false, "list": false, "mut": false, "host": false},
                    {"name": "rsigma", "optional": true, "list": false, "mut": false, "host": false}],
        "attributes": [{"name": "eps", "type": "float", "default": 1e-5},
                       {"name": "zero_centered_gamma", "type": "bool", "default": false}],
        "dtype_variables": ["T", "U"]})json"));
}

inline opdock::op_call::Signature sgd() {
    return opdock::op_call::read_signature(nlohmann::json::parse(R"json({
        "op": "sgd",
        "signature": "sgd(grads: T[n]*, mut params: U[n]*, noop: i32[1]?, *, momentum: float) -> ()",
        "inputs": [{"name": "grads", "optional": false, "list": true, "mut": false, "host": false},
                   {"name": "params", "optional": false, "list": true, "mut": true, "host": false},
                   {"name": "noop", "optional": true, "list": false, "mut": false, "host": false}],
        "outputs": [],
        "attributes": [{"name": "momentum", "type": "float", "default": null}],
        "dtype_variables": ["T", "U"]})json"));
}
