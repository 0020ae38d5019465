#!/usr/bin/env bash
# What checks cost, in instructions (valgrind --tool=callgrind), less what an empty run takes: each program is built without and with them.
#     yields/cost/cost.sh PLUGIN FOLDER_OF_LLVMS_TOOLS [FOLDER_WITH_sqlite3.c FOLDER_OF_ZLIBS_SOURCES]
set -euo pipefail
plugin=$(realpath "$1") tools=$2 sqlite=${3:-} zlib=${4:-}
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build() { # name, sources and flags
    local name=$1
    shift
    "$tools/clang" -O2 -w "$@" -o "$work/$name.plain" -lm -lpthread -ldl
    for source in "$@"; do
        case $source in *.c) "$tools/clang" -O2 -w -fpass-plugin="$plugin" "${flags[@]}" -c "$source" -o "$work/$name.$(basename "$source").o" ;; esac
    done
    "$tools/clang" "$work/$name".*.o -o "$work/$name.checked" -lm -lpthread -ldl
}
count() { valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null | sed -nE 's/.*Collected : ([0-9]+).*/\1/p'; }
row() { # program, work
    local plain checked empty
    plain=$(count "$work/$1.plain" "$2") checked=$(count "$work/$1.checked" "$2") empty=$(count "$work/$1.plain" nothing)
    [ "$("$work/$1.plain" "$2")" = "$("$work/$1.checked" "$2")" ] || { echo "$2: another result with checks" >&2; exit 1; }
    awk -v name="$2" -v a="$plain" -v b="$checked" -v e="$empty" 'BEGIN { printf "%-10s %12d %12d %7.3f\n", name, a - e, b - e, (b - e) / (a - e) }'
}
printf '%-10s %12s %12s %7s\n' work without with ratio
flags=()
build kernels kernels.c
for name in matmul mandel sha collatz chase chase2 sieve words fib; do row kernels $name; done
if [ -n "$sqlite" ] && [ -n "$zlib" ]; then
    flags=(-I"$sqlite" -I"$zlib" -DHAVE_UNISTD_H)
    build real "${flags[@]}" real.c "$sqlite/sqlite3.c" "$zlib"/*.c
    for name in sqlite deflate inflate crc adler; do row real $name; done
fi
