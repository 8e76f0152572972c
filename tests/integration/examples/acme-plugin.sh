#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../example.bash
. "$(dirname "$0")/../example.bash"
export PLUGIN_MODULES=$build
rmsnorm=(plugin-run rmsnorm_fwd --in "input=random:bf16[64,1024]" --in "weight=random:bf16[1024]")

expect 0 "vendor.acme" -- plugin-ls --op rmsnorm_fwd
expect 0 "vendor.acme" -- plugin-ls --op acme.scaled_residual
expect 0 -- plugin-ls --exists vendor.acme
expect 0 "ok" -- plugin-ls --check "$build/libacme.so"

# The plugin's ops are checked one by one.
expect 0 "plugin-check: acme rmsnorm_fwd" "plugin-check: acme silu_and_mul" "plugin-check: acme acme.scaled_residual" \
    "100% tests passed" -- ctest --test-dir "$build"

# Our own implementation is used by default, the vendor's if it is preferred.
expect 0 "default.cpu" -- "${rmsnorm[@]}"
PLUGIN_PREFER=vendor expect 0 "vendor.acme" -- "${rmsnorm[@]}"
PLUGIN_PREFER=vendor PLUGIN_DENY_VENDORS=Acme expect 0 "default.cpu" -- "${rmsnorm[@]}"

# The vendor's own op is served like any other.
expect 0 "vendor.acme" -- plugin-run acme.scaled_residual --in "input=random:f32[8,32]" --in "residual=random:f32[8,32]" \
    --in "scale=random:f32[32]"

# If the vendor's implementation fails, the next one takes over; in strict mode the failure is reported instead.
export PLUGIN_PREFER=vendor ACME_FAIL=rmsnorm_fwd
expect 0 "default.cpu" "ACME_FAIL names rmsnorm_fwd" -- "${rmsnorm[@]}"
PLUGIN_STRICT=1 expect 1 "vendor.acme" "ACME_FAIL names rmsnorm_fwd" -- "${rmsnorm[@]}"

# In the user's plugin directory it is found without being named.
unset PLUGIN_MODULES ACME_FAIL
mkdir -p "$XDG_DATA_HOME/opdock/plugins"
cp "$build/libacme.so" "$build/acme.tune.yaml" "$XDG_DATA_HOME/opdock/plugins"
expect 0 "vendor.acme" -- "${rmsnorm[@]}"
