#!/usr/bin/env bash
# test_script.sh ROOT SCRATCH: the arguments of tools/test. The script runs in a tree of its own, where there is nothing
# to build and there are two tests.
set -euo pipefail
root=$1 scratch=$2

rm -rf "$scratch"
mkdir -p "$scratch/tools" "$scratch/build/release"
cp "$root/tools/test" "$scratch/tools"
printf '#!/bin/sh\ntouch build/built\n' >"$scratch/tools/build"
chmod +x "$scratch/tools/build"
printf 'add_test(one true)\nadd_test(two true)\n' >"$scratch/build/release/CTestTestfile.cmake"

# expect STATUS TEXT -- ARGUMENT...
expect() {
    local status=$1 text=$2 found=0 output
    shift 3
    output=$("$scratch/tools/test" "$@" 2>&1) || found=$?
    if ((found != status)) || [[ $output != *"$text"* ]]; then
        printf "tools/test %s ended with %s, expected %s and '%s':\n%s\n" "$*" "$found" "$status" "$text" "$output" >&2
        exit 1
    fi
}

# Refused before anything is built.
expect 2 "unknown argument '--bogus'" -- --bogus
expect 2 "unknown argument 'stray'" -- -N stray
expect 2 "-R needs a regular expression" -- -R
expect 0 "usage: tools/test" -- --help
if [[ -e $scratch/build/built ]]; then
    echo "tools/test built before it looked at its arguments" >&2
    exit 1
fi

expect 0 "0 tests failed out of 2" --
expect 0 "0 tests failed out of 1" -- -R one
expect 0 "0 tests failed out of 1" -- -E one
expect 0 "Total Tests: 2" -- -N
expect 0 "0 tests failed out of 1" -- -- -I 1,1
expect 8 "No tests were found" -- -R nothing_matches
