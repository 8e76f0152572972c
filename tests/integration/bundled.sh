#!/usr/bin/env bash
# bundled.sh INSTALLATION FOLDER SCRIPT: copies an installation to FOLDER, bundles its libraries with SCRIPT
# (bundle.cmake) and moves it. It must find all libraries except glibc's within itself, and work.
set -euo pipefail
installation=$1 folder=$2 script=$3

rm -rf "$folder"
mkdir -p "$folder"
cp -r "$installation" "$folder/made"
cmake -DCMAKE_INSTALL_PREFIX="$folder/made" -P "$script"
mv "$folder/made" "$folder/moved"

if command -v dpkg-query >/dev/null && [[ -z $(ls "$folder/moved/share/doc/opdock/licenses") ]]; then
    echo "the licenses of bundled libraries are missing" >&2
    exit 1
fi

unset LD_LIBRARY_PATH
glibc='^(linux-vdso|ld-linux-.*|/.*/ld-linux-.*|lib(c|m|dl|rt|pthread|resolv|mvec))\.so'
for file in "$folder"/moved/bin/plugin-* "$folder"/moved/lib*/libopdock.so.1 "$folder"/moved/lib*/opdock/plugins/*.so \
    "$folder"/moved/lib*/opdock/bundled/*.so* "$folder"/moved/libexec/opdock/plugin-probe; do
    needed=$(ldd "$file" 2>/dev/null || true)
    elsewhere=$(awk '{print $1, $3}' <<<"$needed" | grep -Ev "$glibc" | grep -v " $folder/moved/" | grep -v '^statically' || true)
    if [[ -n $elsewhere ]]; then
        echo "$file takes libraries from elsewhere: $elsewhere" >&2
        exit 1
    fi
done

export HOME=$folder XDG_CACHE_HOME=$folder/cache
"$folder/moved/bin/plugin-run" silu --in 'input=random:f32[4,8]' 2>&1 | tee "$folder/output"
grep -q 'served by  default.cpu' "$folder/output"
