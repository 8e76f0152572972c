// Documents of schema opdock.plugin-ls/1, as a host would write them, and the page for their output.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/page.hpp"

inline const opdock::cli::Page plain(false);

inline nlohmann::json small_document() {
    return nlohmann::json::parse(R"json({
        "schema": "opdock.plugin-ls/1",
        "host": {"version": "1.0.0", "abi": [1, 0]},
        "policy": {"prefer": "vendor", "strict": false, "allow_vendors": null, "deny_vendors": ["evil"],
                   "per_op": {"gelu": ["reference"]}, "retry_failed": 60.0, "fallback_to_cpu": false,
                   "require": ["deterministic"], "require_per_op": {"gelu": []},
                   "trust": "warn", "trusted_sha256": null, "default_plugins": null,
                   "sources": {"prefer": "PLUGIN_PREFER", "deny_vendors": "PLUGIN_DENY_VENDORS", "trust": "PLUGIN_TRUST",
                               "per_op.gelu": "/etc/opdock/policy.yaml"}},
        "paths": [{"path": "/opt/acme/libacme.so", "origin": "PLUGIN_MODULES"},
                  {"path": "/usr/lib/opdock/plugins", "origin": "system"}],
        "problems": [],
        "plugins": [
            {"id": "acme", "version": "1.2.0", "vendor": "acme", "path": "/opt/acme/libacme.so", "requested": true,
             "status": "loaded", "code": "", "reason": "", "warnings": []},
            {"id": null, "version": null, "vendor": null, "path": "/usr/lib/opdock/plugins/libold.so",
             "requested": false, "status": "rejected", "code": "OPDOCK-E012",
             "reason": "plugin 'libold.so' was built for ABI 7.0; this host supports 1.0.\nRebuild it.", "warnings": []},
            {"id": "gpu", "version": "1.0.0", "vendor": "opdock", "path": "/usr/lib/opdock/plugins/libgpu.so",
             "requested": false, "status": "skipped", "code": "OPDOCK-E016", "reason": "PLUGIN_SKIP_CUDA is set",
             "warnings": []}],
        "ops": [
            {"op": "gelu", "signature": "gelu(input: T[...]) -> (output ~ input: T[...])",
             "implementations": [
                {"impl_id": "reference.cpp", "kind": "reference", "vendor": null, "priority": 0, "device": "cpu",
                 "dtypes": ["f32", "bf16"], "available": "yes", "reason": "", "plugin": "reference"}],
             "chains": [{"device": "cpu:0", "dtypes": ["f32", "bf16"], "chain": ["reference.cpp"]}]},
            {"op": "rmsnorm_fwd", "signature": "rmsnorm_fwd(input: T[..., n], weight: U[n]) -> (output: T[..., n])",
             "implementations": [
                {"impl_id": "vendor.acme", "kind": "vendor", "vendor": "acme", "priority": 10, "device": "cpu",
                 "dtypes": ["f32,f32"], "available": "unknown", "reason": "", "plugin": "acme",
                 "knobs": [{"name": "block", "type": "int", "minimum": 1, "maximum": 64, "default": 8, "doc": "rows"},
                           {"name": "path", "type": "choice", "choices": ["scalar", "simd"], "default": "simd", "doc": ""}]},
                {"impl_id": "reference.cpp", "kind": "reference", "vendor": null, "priority": 0, "device": "cpu",
                 "dtypes": ["f32,f32", "bf16,f32"], "available": "no", "reason": "no avx9", "plugin": "reference"}],
             "chains": [{"device": "cpu:0", "dtypes": ["f32,f32"], "chain": ["vendor.acme", "reference.cpp"]},
                        {"device": "cpu:0", "dtypes": ["bf16,f32"], "chain": []}]},
            {"op": "unserved", "signature": "unserved(a: T[n]) -> (b: T[n])", "implementations": [], "chains": []}]
})json");
}
