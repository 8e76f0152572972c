#!/usr/bin/env bash
# What the files of an installation say is at share/... is there: installed_paths.sh INSTALLATION.
set -euo pipefail
cd "$1"

mentioned=$(grep -rhoP '(?<![\w./])share/(doc/)?opdock[A-Za-z0-9./_-]*' share | sed 's/[.]$//' | sort -u)
if [[ -z $mentioned ]]; then
    echo "nothing under $1/share mentions a path below share/; the policy file should" >&2
    exit 1
fi
missing=0
while IFS= read -r path; do
    if [[ ! -e $path ]]; then
        echo "$1 has no $path; mentioned in:" >&2
        grep -rlF "$path" share >&2
        missing=1
    fi
done <<<"$mentioned"
exit "$missing"
