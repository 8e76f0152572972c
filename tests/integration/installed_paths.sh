#!/usr/bin/env bash
# installed_paths.sh INSTALLATION: checks that every path share/... mentioned in an installed file exists, and that the
# overview mentions the installation before the source tree.
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

# A reader of the overview meets installed paths before those that exist only in the source tree.
first() { grep -nm 1 -- "$1" share/doc/opdock/overview.md | cut -d : -f 1; }
here=$(first 'PREFIX/share/opdock/plugin-template')
for elsewhere in '^    tools/demo' 'cp -r plugin-sdk/template'; do
    if ! [[ -n $here && $here -lt $(first "$elsewhere") ]]; then
        echo "overview.md names '$elsewhere' before the template of an installation" >&2
        missing=1
    fi
done
exit "$missing"
