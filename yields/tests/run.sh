#!/usr/bin/env bash
# The pass against programs: each is built at all levels without and with it, with LLVM's verifier after it, and must say the same; the parts that
# must check say so if they do not. A second build counts what runs between two checks, and the longest gap must keep to the bound.
#     tests/run.sh PLUGIN FOLDER_OF_LLVMS_TOOLS
set -euo pipefail
plugin=$(realpath "$1") tools=$2
cd "$(dirname "${BASH_SOURCE[0]}")/programs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0 cases=0
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }
compiler() { case $1 in *.cc) echo "$tools/clang++ -std=c++17" ;; *) echo "$tools/clang" ;; esac; }
# In weights. Segments of one function, and of the callee that ends and the one that begins beside it (docs/preemptible.md).
gap=4096 bound=$((3 * 4096))

for program in loops.c calls.c special.c exceptions.cc vector.c; do
    name=${program%.*} cc=$(compiler "$program")
    for flags in -O0 -O1 -O2 -O3 -Os "-O2 -fPIC" "-O2 -fno-pie -no-pie" "-O2 -march=haswell -g"; do
        case $flags in *haswell*) grep -q avx2 /proc/cpuinfo || continue ;; esac
        cases=$((cases + 1))
        # shellcheck disable=SC2086
        $cc $flags -w -DINSTRUMENTED=0 "$program" -o "$work/plain"
        # shellcheck disable=SC2086
        if ! $cc $flags -w -DINSTRUMENTED=1 -fpass-plugin="$plugin" "$program" -o "$work/checked" 2>"$work/errors"; then
            fail "$program $flags: $(head -n 3 "$work/errors")"
            continue
        fi
        (ulimit -s 65536; timeout 60 "$work/plain") >"$work/expected"
        (ulimit -s 65536; timeout 60 "$work/checked") >"$work/said" || fail "$program $flags: ended with $?"
        cmp -s "$work/expected" "$work/said" || fail "$program $flags: $(diff "$work/expected" "$work/said" | head -n 4)"
    done
    # The gaps, where the whole program is counted: without excluded functions in the way.
    for flags in -O1 -O2 -O3; do
        cases=$((cases + 1))
        # shellcheck disable=SC2086
        RADDLE_YIELDS=measure $cc $flags -w -DINSTRUMENTED=1 -DMEASURE -fpass-plugin="$plugin" "$program" -o "$work/measured"
        (ulimit -s 65536; timeout 120 "$work/measured") 2>&1 >/dev/null | sed -n 's/^gap //p' >"$work/gap"
        longest=$(cat "$work/gap")
        if [ -z "$longest" ] || [ "$longest" -le 0 ]; then fail "$program $flags: no gap was measured"; continue; fi
        if [ "$longest" -gt "$bound" ]; then fail "$program $flags: $longest between two checks, the bound is $bound"; fi
        echo "$name $flags: at most $longest between two checks"
    done
done

# A verifier after the pass by itself, on what the optimiser hands it.
for program in loops.c calls.c special.c exceptions.cc vector.c; do
    cc=$(compiler "$program")
    for flags in -O0 -O2; do
        cases=$((cases + 1))
        # shellcheck disable=SC2086
        $cc $flags -w -DINSTRUMENTED=1 -S -emit-llvm "$program" -o "$work/before.ll"
        "$tools/opt" -load-pass-plugin="$plugin" -passes=raddle-yields -verify-each -S "$work/before.ll" -o "$work/after.ll" ||
            fail "$program $flags: the verifier"
        # Once is enough: what has checks gets no more.
        "$tools/opt" -load-pass-plugin="$plugin" -passes=raddle-yields -S "$work/after.ll" -o "$work/again.ll"
        [ "$(grep -c 'call.*@__raddle_yield' "$work/after.ll")" = "$(grep -c 'call.*@__raddle_yield' "$work/again.ll")" ] ||
            fail "$program $flags: checks twice"
    done
done

# Functions that are left alone, one by one.
cases=$((cases + 1))
"$tools/clang" -O2 -w -DINSTRUMENTED=1 -fpass-plugin="$plugin" -S -emit-llvm special.c calls.c
checks() { [[ $(cat special.ll calls.ll | sed -n "/^define.*@$1(/,/^}/p") == *__raddle_quantum* ]]; }
for function in naked choose probes excluded excluded_by_pragma raddle_quantum_used small hands_on gives_way; do
    if checks $function; then fail "$function has a check"; fi
done
for function in fib even tail calls_small compare jumps_back calls_hands_on hands_on_to_pointer; do
    checks $function || fail "$function has no check"
done
rm -f special.ll calls.ll

# A vectorised loop keeps its vector body.
cases=$((cases + 1))
vectors() { sed -n "/^define.*@$1(/,/^}/p" "$2" | grep -cE '= (fadd|fmul|add|.*call).*<[0-9]+ x ' || true; }
"$tools/clang" -O3 -w -DINSTRUMENTED=0 -S -emit-llvm vector.c -o "$work/plain.ll"
"$tools/clang" -O3 -w -DINSTRUMENTED=0 -fpass-plugin="$plugin" -S -emit-llvm vector.c -o "$work/checked.ll"
for function in saxpy sum matmul; do
    before=$(vectors $function "$work/plain.ll") after=$(vectors $function "$work/checked.ll")
    [ "$before" -gt 0 ] && [ "$after" -ge "$before" ] || fail "$function: $before vector instructions before, $after after"
done

# Wrong limits are refused with a line that names them.
for limits in 'gap=x' 'gap=0' 'gip=3' 'chunk=5000'; do
    cases=$((cases + 1))
    if RADDLE_YIELDS=$limits "$tools/clang" -O1 -w -fpass-plugin="$plugin" -DINSTRUMENTED=0 -c vector.c -o /dev/null 2>"$work/errors"; then
        fail "$limits is accepted"
    fi
    grep -q '^raddle-yields: ' "$work/errors" || fail "$limits: $(head -n 1 "$work/errors")"
done

# Where there is no thread-local storage that a check could count in: other targets and a kernel's code are left alone.
for target in x86_64-unknown-none-elf i386-linux-gnu 'x86_64-linux-gnu -mcmodel=kernel' 'x86_64-linux-gnu -mno-red-zone'; do
    cases=$((cases + 1))
    printf 'unsigned f(unsigned n) { unsigned s = 1; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; s++; } return s; }\n' >"$work/bare.c"
    # shellcheck disable=SC2086
    "$tools/clang" --target=$target -ffreestanding -O2 -fpass-plugin="$plugin" -S -emit-llvm "$work/bare.c" -o "$work/bare.ll" || fail "$target"
    if grep -q __raddle "$work/bare.ll"; then fail "$target has checks"; fi
done

# A program with a start of its own: the link that would put checks in ends with a line; a library has none, and gets them.
case $(uname -m) in x86_64)
    cases=$((cases + 1))
    printf 'void _start(void) { unsigned s = 1; for (volatile unsigned n = 9999; n; n--) s = s * 3 + n; __asm__ volatile("syscall" ::"a"(60), "D"(s & 0)); }\n' >"$work/start.c"
    late=(-O2 -flto -nostdlib -fuse-ld="$tools/ld.lld" -Wl,--load-pass-plugin="$plugin")
    if "$tools/clang" "${late[@]}" -static "$work/start.c" -o "$work/start" 2>"$work/errors"; then fail "a start of its own is accepted"; fi
    grep -q '^raddle-yields: .*start files' "$work/errors" || fail "a start of its own: $(head -n 1 "$work/errors")"
    "$tools/clang" "${late[@]}" -shared -fPIC "$work/start.c" -o "$work/start.so" || fail "a library without start files"
    ;;
esac

# A thin link at level 0 asks no plug-in: what is compiled at that level has its checks before.
cases=$((cases + 1))
"$tools/clang" -O0 -w -flto=thin -fuse-ld="$tools/ld.lld" -fpass-plugin="$plugin" -Wl,--load-pass-plugin="$plugin" -DINSTRUMENTED=1 loops.c -o "$work/thin" &&
    "$work/thin" >"$work/said" || fail "a thin link at level 0: $?"
if grep 'no check asked' "$work/said"; then fail "a thin link at level 0 has no checks"; fi

# A plug-in of another version is refused by name, and nothing is compiled.
cases=$((cases + 1))
cat >"$work/version.c" <<'END'
struct info { unsigned version; const char *name, *release; void (*begin)(void *); };
struct info llvmGetPassPluginInfo(void) { return (struct info){ 1000, "raddle-yields", "1", 0 }; }
END
"$tools/clang" -shared -fPIC "$work/version.c" -o "$work/version.so"
if "$tools/clang" -O1 -w -fpass-plugin="$work/version.so" -DINSTRUMENTED=0 -c vector.c -o "$work/version.o" 2>"$work/errors"; then fail "another version is accepted"; fi
grep -qi 'version' "$work/errors" || fail "another version: $(head -n 1 "$work/errors")"

# A resolver, and what it calls, runs before there is thread-local storage where a program is static.
cases=$((cases + 1))
cat >"$work/early.c" <<'END'
static int one(void) { return 1; }
__attribute__((noinline)) static int probes(int n) { int v = 1; for (int i = 0; i < n; i++) { v = v * 3 + i; __asm__ volatile("" : "+r"(v)); } return v; }
__attribute__((noinline)) int probes_twice(int n) { return probes(n) | probes(n / 2); }
static int (*choose(void))(void) { return probes_twice(100000) ? one : 0; }
int chosen(void) __attribute__((ifunc("choose")));
int main(void) { return chosen() - 1; }
END
"$tools/clang" -O2 -static -fpass-plugin="$plugin" "$work/early.c" -o "$work/early" && "$work/early" || fail "a resolver in a static program: $?"

# Without a runtime: the same programs ran above with one of the test's own; here there is none.
cases=$((cases + 1))
printf '#include <stdio.h>\nint main(int c, char **v) { unsigned s = 0; for (int i = 0; i < 100000000 + c; i++) s = s * 3 + i; printf("%%u\\n", s); }\n' >"$work/alone.c"
"$tools/clang" -O2 -fpass-plugin="$plugin" "$work/alone.c" -o "$work/alone" && [ "$("$work/alone")" = "$("$tools/clang" -O2 "$work/alone.c" -o "$work/alone0" && "$work/alone0")" ] ||
    fail "a program without a runtime"

echo "yields: $cases cases, $failures failed"
[ "$failures" = 0 ]
