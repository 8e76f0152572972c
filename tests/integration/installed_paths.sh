#!/usr/bin/env bash
# What the files of an installation say is at share/... is there, and its overview begins with that:
# installed_paths.sh INSTALLATION.
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

# Who reads the overview from its beginning meets what is here before what is in the source tree alone.
first() { grep -nm 1 -- "$1" share/doc/opdock/overview.md | cut -d : -f 1; }
here=$(first 'PREFIX/share/opdock/plugin-template')
for elsewhere in '^    tools/demo' 'cp -r plugin-sdk/template'; do
    if ! [[ -n $here && $here -lt $(first "$elsewhere") ]]; then
        echo "overview.md names '$elsewhere' before the template of an installation" >&2
        missing=1
    fi
done
exit "$missing"
