#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../example.bash
. "$(dirname "$0")/../example.bash"
export PLUGIN_MODULES=$build

expect 0 "vendor.minimal" -- plugin-ls --op relu
PLUGIN_PREFER=vendor expect 0 "vendor.minimal" -- plugin-run relu --in "input=random:f32[2,3]"
# It serves f32 only.
PLUGIN_PREFER=vendor expect 0 "default.cpu" -- plugin-run relu --in "input=random:bf16[2,3]"
PLUGIN_PER_OP="relu=vendor:minimal" expect 1 "vendor.minimal" "bf16" -- plugin-run relu --in "input=random:bf16[2,3]"
