#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../example.bash
. "$(dirname "$0")/../example.bash"

expect 0 "rmsnorm of a row of 2 with weight 0.5: 0.5" "prepared: default.cpu" \
    "Op 'rmsnorm_fwd' using 'default.cpu'" "Op 'rmsnorm_fwd' using 'reference.cpp'" '"chain"' -- "$build/host-app"
PLUGIN_PREFER=reference expect 0 "prepared: reference.cpp" -- "$build/host-app"
PLUGIN_PREFER=fastest expect 1 "PLUGIN_PREFER" "fastest" -- "$build/host-app"

# The same without CMake.
PKG_CONFIG_PATH=$(dirname "$(find "$installation" -name opdock.pc)")
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs opdock)
# shellcheck disable=SC2086 # several flags
c++ -std=c++20 "$source/main.cpp" $flags "-Wl,-rpath,$(pkg-config --variable=libdir opdock)" -o "$build/by-pkg-config"
expect 0 "prepared: default.cpu" -- "$build/by-pkg-config"
