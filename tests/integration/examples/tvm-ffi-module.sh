#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../example.bash
. "$(dirname "$0")/../example.bash"
export PLUGIN_MODULES=$build/libacme.so PLUGIN_PREFER=vendor

expect 1 "tvm-ffi cannot be opened" "LD_LIBRARY_PATH" -- env PLUGIN_PER_OP="silu=vendor:acme" plugin-run silu --in "input=random:f32[2,3]"
LD_LIBRARY_PATH=$(tvm-ffi-config --libdir)
export LD_LIBRARY_PATH
expect 0 "vendor.acme" -- plugin-run silu --in "input=random:f32[2,3]"
expect 0 "vendor.acme" -- plugin-run rmsnorm_fwd --in "input=random:f32[2,3,4]" --in "weight=random:f32[4]"
expect 0 "rmsnorm_fwd" "silu" -- plugin-check "$build/libacme.so"
