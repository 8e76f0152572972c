// A document opdock.plugin-tune/1 with all possible results.
#pragma once

#include <nlohmann/json.hpp>

inline nlohmann::json every_outcome() {
    return nlohmann::json::parse(R"json({
        "schema": "opdock.plugin-tune/1", "device": "cpu", "dry_run": false, "interrupted": false, "seconds": 3.5,
        "left_out": [{"op": "conv", "impl_id": "default.cpu", "reason": "its signature does not determine shapes"}],
        "shapes": [
            {"op": "norm", "impl_id": "default.cpu", "inputs": [{"name": "input", "source": "f32[4,8]"}],
             "attributes": [{"name": "eps", "value": "1e-6"}], "device": "cpu:0", "model": "Some CPU",
             "dtypes": "f32", "key": "n=8", "bucketed": "n: log2", "database": "/c/tune.sqlite", "outcome": "tuned",
             "before": {"config": {"block": 64}, "outcome": "timed", "microseconds": 12.5, "spread": 0.02, "samples": 15,
                        "source": "defaults"},
             "best": {"config": {"block": 256}, "outcome": "timed", "microseconds": 10, "spread": 0.01, "samples": 15},
             "gain": 1.25, "complete": true, "seconds": 3.1, "kept": true, "problem": "",
             "tried": [{"config": {"block": 64}, "outcome": "timed", "microseconds": 12.5, "spread": 0.02, "samples": 15},
                       {"config": {"block": 256}, "outcome": "timed", "microseconds": 10, "spread": 0.01, "samples": 15},
                       {"config": {"block": 1}, "outcome": "refused", "reason": "UNSUPPORTED: too small"},
                       {"config": {"block": 7}, "outcome": "wrong", "reason": "in 'output', element 3"}]},
            {"op": "norm", "impl_id": "default.cpu", "inputs": [{"name": "input", "source": "f32[8,8]"}],
             "attributes": [], "outcome": "known", "origin": "10 us when it was tuned", "database": "/c/tune.sqlite",
             "best": {"config": {"block": 256}}},
            {"op": "norm", "impl_id": "default.cpu", "inputs": [], "attributes": [], "outcome": "failed",
             "error": {"status": "UNSUPPORTED", "message": "it has no knobs"}},
            {"op": "norm", "impl_id": null, "inputs": [], "attributes": [], "outcome": "skipped",
             "reason": "interrupted"}]})json");
}
