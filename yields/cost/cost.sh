#!/usr/bin/env bash
# What checks cost, in instructions (valgrind --tool=callgrind), less what an empty run of the same build takes: each program is built without and with
# them. Below stand the geometric mean of the loops from others' code, and how many these are.
#     yields/cost/cost.sh PLUGIN FOLDER_OF_LLVMS_TOOLS [FOLDER_WITH_sqlite3.c FOLDER_OF_ZLIBS_SOURCES [RADDLE]]
# RADDLE is the command: with it Rust's loops are counted, too, whose program without checks is built in the same way, with a pass that does nothing.
# With ROUNDS=11 in the environment the columns are microseconds of processor time in place of instructions, the medians of so many rounds in which
# both run in turns, with the lowest and highest of the rounds' ratios; functions and loops are aligned alike in both builds then.
set -euo pipefail
plugin=$(realpath "$1") tools=$2 sqlite=${3:-} zlib=${4:-} raddle=${5:-}
raddle=${raddle:+$(realpath "$raddle")}
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rounds=${ROUNDS:-}
timed=()
if [ -n "$rounds" ]; then
    timed=(-Dmain=work_main -falign-functions=64 -falign-loops=32)
    export RUSTFLAGS="-Clink-arg=-Wl,-mllvm,-align-all-functions=6 -Clink-arg=-Wl,-mllvm,-align-loops=32"
    "$tools/clang" -O2 rounds.c -o "$work/rounds"
fi
build() { # name, sources
    local name=$1 source kind with
    local -a compiler
    shift
    if [ -n "$rounds" ]; then
        case $1 in *.cc) compiler=(clang++ -x c++) ;; *) compiler=(clang) ;; esac
        for kind in plain checked; do "$tools/${compiler[0]}" "${compiler[@]:1}" -O2 -c repeat.c -o "$work/$name.repeat.$kind.o"; done
    fi
    for kind in plain checked; do
        with=()
        if [ $kind = checked ]; then with=(-fpass-plugin="$plugin"); fi
        for source in "$@"; do
            case $source in *.cc) compiler=(clang++) ;; *) compiler=(clang) ;; esac
            "$tools/${compiler[0]}" -O2 -w "${timed[@]}" "${flags[@]}" "${with[@]}" -c "$source" -o "$work/$name.$(basename "$source").$kind.o"
        done
        "$tools/clang++" "$work/$name".*."$kind".o -o "$work/$name.$kind" -lm -lpthread -ldl
    done
}
count() { valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 >/dev/null | sed -nE 's/.*Collected : ([0-9]+).*/\1/p'; }
row() { # program, work
    local plain checked
    [ "$("$work/$1.plain" "$2")" = "$("$work/$1.checked" "$2")" ] || { echo "$2: another result with checks" >&2; exit 1; }
    if [ -n "$rounds" ]; then
        "$work/rounds" "$rounds" "$work/$1.plain" "$work/$1.checked" "$2"
        return
    fi
    # What the set-up takes is the set-up's, without checks and with them.
    plain=$(($(count "$work/$1.plain" "$2") - $(count "$work/$1.plain" nothing)))
    checked=$(($(count "$work/$1.checked" "$2") - $(count "$work/$1.checked" nothing)))
    awk -v name="$2" -v a="$plain" -v b="$checked" 'BEGIN { printf "%-18s %12d %12d %7.3f\n", name, a, b, b / a }'
}
printf '%-18s %12s %12s %7s\n' work without with ratio
flags=()
build kernels kernels.c
for name in matmul mandel sha collatz chase chase2 sieve words fib; do row kernels $name; done
build containers containers.cc
for name in sort stable_sort heap map hash_map regex find; do row containers $name; done | tee "$work/rows"
if [ -n "$sqlite" ] && [ -n "$zlib" ]; then
    flags=(-I"$sqlite" -I"$zlib" -DHAVE_UNISTD_H)
    build real real.c "$sqlite/sqlite3.c" "$zlib"/*.c
    for name in insert group join like recursion hex format sort text_sort json_parse json_build window dates \
        crc adler deflate1 deflate6 deflate9 huffman rle inflate; do row real $name; done | tee -a "$work/rows"
fi
if [ -n "$raddle" ]; then
    mkdir -p "$work/rust/src"
    cp real.rs "$work/rust/src/main.rs"
    printf '[package]\nname = "rust"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\nserde_json = "1"\nregex = "1"\nmemchr = "2"\n' \
        >"$work/rust/Cargo.toml"
    for kind in plain checked; do
        limits=${RADDLE_YIELDS:-gap=4096}
        if [ $kind = plain ]; then limits=off; fi
        (cd "$work/rust" && RADDLE_YIELDS=$limits RADDLE_YIELDS_PLUGIN=$plugin CARGO_TARGET_DIR=$work/rust/$kind "$raddle" cargo build -q --release)
        cp "$work/rust/$kind"/raddle/*/release/rust "$work/rust.$kind"
    done
    for name in std_sort std_sort_unstable std_hash std_btree std_format std_chars std_find memchr serde_parse serde_write regex_words regex_either; do
        row rust $name
    done | tee -a "$work/rows"
fi
awk '{ sum += log($4) } END { printf "%-18s %33.3f  (%d loops)\n", "mean", exp(sum / NR), NR }' "$work/rows"
