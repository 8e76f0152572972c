#!/usr/bin/env bash
# Runs the unit tests, and fails if they take less than 90 % of the branches of any stage of the host. Branches for
# exceptions do not count. REPORT/STAGE.html shows the lines.
#
# usage: measure.sh SOURCE BUILD REPORT
set -euo pipefail
source=$1 build=$2 report=$3
least=90

stages=(
    'search search|manifest|library_place'
    'inspect inspect|elf|elf_dynamic|elf_notes|note|keyed_lines|plugin_file|library_versions'
    'probe probe|scan|transcript'
    'load load|held_directory|deferred_plugin'
    'register register|registration_fields|registration_difference'
    'policy policy|policy_names|policy_sources|policy_stack|policy_yaml|setting_text|token|bounded_yaml|trust_policy'
)

find "$build" -name '*.gcda' -delete
# One case measures time, which counting branches would distort.
ctest --test-dir "$build" --tests-regex '^unit:' --exclude-regex 'takes long' --parallel "$(nproc)" --output-on-failure \
    --progress >"$report/tests.log" || {
    tail -n 40 "$report/tests.log" >&2
    exit 1
}

short=()
for stage in "${stages[@]}"; do
    name=${stage%% *}
    echo "$name"
    gcovr --root "$source" --object-directory "$build/host" --filter "$source/host/src/[^/]*/(${stage#* })[.]cpp" \
        --exclude-throw-branches --exclude-unreachable-branches --branches \
        --html-details "$report/$name.html" --txt - --fail-under-branch "$least" "$build/host/CMakeFiles/opdock_core.dir" \
        2>"$report/$name.log" | grep -E '^(host|TOTAL)' || short+=("$name")
done
if ((${#short[@]} > 0)); then
    echo "below $least %: ${short[*]}; see $report" >&2
    exit 1
fi
