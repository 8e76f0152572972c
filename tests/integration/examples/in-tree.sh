#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../example.bash
. "$(dirname "$0")/../example.bash"

expect 0 "vendor.mine served 1 call: 0.365148 0.730297 1.09545 1.46059" "prepared with rsigma: default.cpu" -- "$build/in-tree"
# Without opdock's own plugins, nothing serves the calls that it does not support.
PLUGIN_MODULES_ONLY=1 expect 1 "vendor.mine served 1 call" "rsigma are left to others" -- "$build/in-tree"
PLUGIN_DENY_VENDORS=mine expect 0 "vendor.mine served 0 call" -- "$build/in-tree"
