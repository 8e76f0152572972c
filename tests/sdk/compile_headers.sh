#!/bin/sh
# compile_headers.sh INCLUDE_DIR [-idirafter DIR]
#
# Compiles every public header by itself, in every language version that the SDK promises, with every compiler that is
# installed: C headers as C99, C11, C23, C++17, C++20 and C++23; C++ headers as C++17, C++20 and C++23. Prints failures
# and exits with 1.
set -u
include=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One line per compilation: compiler, language, standard, header.
for header in $(cd "$include" && find opdock -name '*.h' -o -name '*.hpp' | sort); do
    for compiler in gcc clang; do
        command -v "$compiler" >/dev/null || continue
        case $header in
        *.h)
            echo "$compiler c c99 $header"
            echo "$compiler c c11 $header"
            echo "$compiler c c2x $header"
            ;;
        esac
        echo "$compiler c++ c++17 $header"
        echo "$compiler c++ c++20 $header"
        echo "$compiler c++ c++2b $header"
    done
done >"$work/list"

cat >"$work/compile" <<'END'
#!/bin/sh
compiler=$1 language=$2 standard=$3 header=$4
shift 4
if ! printf '#include "%s"\nextern int opdock_not_empty;\n' "$header" |
    "$compiler" -x "$language" -std="$standard" -Wall -Wextra -pedantic -Wshadow -Wconversion -Werror \
        -fsyntax-only "$@" -; then
    echo "$header does not compile as $standard with $compiler"
    exit 1
fi
END
xargs -P 2 -L 1 sh -c 'sh "$0" "$2" "$3" "$4" "$5" $1' "$work/compile" "-I$include $*" <"$work/list" || exit 1
# Code for an ABI version that these headers support compiles; for another version it does not.
for target in 0x0100 0x0101 0x0200 1; do
    outcome=0
    printf '#include "opdock/plugin.h"\nextern int opdock_not_empty;\n' |
        gcc -x c -DOPDOCK_TARGET_ABI=$target -fsyntax-only "-I$include" "$@" - 2>/dev/null || outcome=1
    if [ $outcome -ne $([ $target = 0x0100 ]; echo $?) ]; then
        echo "OPDOCK_TARGET_ABI=$target: it compiles, or does not, where the contrary was expected"
        exit 1
    fi
done
echo "$(wc -l <"$work/list") compilations of $(cut -d' ' -f4 "$work/list" | sort -u | wc -l) headers"
