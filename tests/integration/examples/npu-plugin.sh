#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../example.bash
. "$(dirname "$0")/../example.bash"
export PLUGIN_MODULES=$build

expect 0 "npu:1" "Nova N1" -- plugin-ls --devices
NOVA_DEVICES=0 expect 0 -- plugin-ls --devices
expect 0 "nova" "PrivateUse1" -- plugin-ls -v
expect 0 "vendor.nova" -- plugin-run relu --device npu:1 --in "input=random:f32[2,3]"
# An op that it does not implement is not served on the device ...
expect 1 "npu" -- plugin-run gelu --device npu --in "input=random:f32[2,3]"
ctest --test-dir "$build" --output-on-failure
# ... unless the policy allows the CPU to serve it, on copies.
PLUGIN_FALLBACK_TO_CPU=1 expect 0 "default.cpu, on the CPU, on copies" "is run on the CPU" -- plugin-run gelu --device npu --in "input=random:f32[2,3]"
expect 1 "PLUGIN_FALLBACK_TO_CPU=1" -- plugin-ls --why gelu --device npu
