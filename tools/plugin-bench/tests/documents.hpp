// A document opdock.plugin-bench/1 with every outcome.
#pragma once

#include <nlohmann/json.hpp>

inline nlohmann::json every_outcome() {
    return nlohmann::json::parse(R"json({
        "schema": "opdock.plugin-bench/1", "device": "cpu:0", "model": "Some CPU", "architecture": "x86_64",
        "driver": "", "rounds": 15, "time": 2, "cold": false, "interrupted": false, "seconds": 3.5,
        "ceilings": {"copy": {"bytes_per_second": 1e10, "measured": [1e10, 9.5e9], "bytes": 67108864},
                     "matmul": {"f32": {"flops_per_second": 2e11, "measured": [2e11, 1.9e11], "op": "linear_fwd",
                                        "impl_id": "default.cpu"},
                                "bf16": null}},
        "left_out": [{"op": "conv", "reason": "its signature does not determine shapes"}],
        "calls": [{"op": "norm", "inputs": [], "attributes": [], "impl_id": "default.cpu", "indirect": 1.25,
                   "kernel": {"ns": 100, "spread": 0.01},
                   "prepared": {"ns": 100.5, "spread": 0.01, "over_kernel": 0.5, "ratio": 1.005,
                                "ratio_if_empty": 1.4},
                   "handle": {"ns": 150, "spread": 0.01, "over_kernel": 50, "ratio": 1.5, "ratio_if_empty": 41},
                   "by_name": {"ns": 200, "spread": 0.01, "over_kernel": 100, "ratio": 2, "ratio_if_empty": 81}}],
        "shapes": [
            {"op": "norm", "inputs": [{"name": "input", "source": "f32[4,8]"}],
             "attributes": [{"name": "eps", "value": "1e-6"}], "dtype": "f32", "outcome": "timed", "bytes": 256,
             "flops": null, "copies": 1,
             "implementations": [
                {"impl_id": "reference.cpp", "kind": "reference", "outcome": "timed", "microseconds": 0.5,
                 "low": 0.49, "high": 0.51, "spread": 0.04, "samples": 15, "batch": 600},
                {"impl_id": "default.cpu", "kind": "default", "outcome": "timed", "microseconds": 0.05,
                 "low": 0.049, "high": 0.05, "spread": 0.02, "samples": 15, "batch": 6000},
                {"impl_id": "vendor.acme", "kind": "vendor", "outcome": "declined", "reason": "n is not 16"}]},
            {"op": "linear_fwd", "inputs": [{"name": "input", "source": "f32[64,64]"},
                                            {"name": "weight", "source": "f32[64,64]"}],
             "attributes": [], "dtype": "f32", "outcome": "timed", "bytes": 49152, "flops": 524288, "copies": 1,
             "implementations": [
                {"impl_id": "default.cpu", "kind": "default", "outcome": "timed", "microseconds": 10, "low": 9.9,
                 "high": 10.1, "spread": 0.02, "samples": 15, "batch": 60}]},
            {"op": "norm", "inputs": [], "attributes": [], "outcome": "failed", "implementations": [],
             "error": {"status": "OUT_OF_MEMORY", "message": "no memory left"}},
            {"op": "norm", "inputs": [], "attributes": [], "outcome": "skipped", "implementations": []}]})json");
}
