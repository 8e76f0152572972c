# Sourced by the test of an example, NAME.sh INSTALLATION SOURCE BUILD. Builds the example against the installation, and
# provides a clean environment and the function `expect`.
set -euo pipefail
# shellcheck disable=SC2034 # used by the tests
installation=$1 source=$2 build=$3

# Settings of the person who runs the tests must not matter.
for variable in $(compgen -e PLUGIN_) ACME_FAIL; do
    unset "$variable"
done
rm -rf "$build/user"
export HOME=$build/user XDG_DATA_HOME=$build/user
export PATH=$installation/bin:$PATH

if ! log=$(cmake -S "$source" -B "$build" -G Ninja -DCMAKE_PREFIX_PATH="$installation" 2>&1 && cmake --build "$build" 2>&1); then
    printf '%s\n' "$log" >&2
    exit 1
fi

# expect STATUS TEXT... -- COMMAND...: the command exits with this status, and prints all of these texts.
expect() {
    local status=$1 found=0 output text
    local -a texts=()
    shift
    while [[ $1 != -- ]]; do
        texts+=("$1")
        shift
    done
    shift
    output=$("$@" 2>&1) || found=$?
    if ((found != status)); then
        printf "'%s' ended with %s, expected %s:\n%s\n" "$*" "$found" "$status" "$output" >&2
        exit 1
    fi
    for text in "${texts[@]}"; do
        if [[ $output != *"$text"* ]]; then
            printf "'%s' did not say '%s' but:\n%s\n" "$*" "$text" "$output" >&2
            exit 1
        fi
    done
}
