#!/bin/sh
# Tries an installed package as its users would: run it in a machine or a root with the package, gcc, g++, pkg-config, gdb,
# man-db, bash-completion, memcached and python3. Ends with "all of it works", or at the first thing that does not.
set -eu
# Named from where this was started; below, the folder is another.
drop_in=${DROP_IN:+$(realpath "$DROP_IN")}
work=$(mktemp -d)
server=
trap 'test -z "$server" || kill "$server"; rm -rf "$work"' EXIT
cd "$work"

say() { printf '%-34s' "$1"; }

say "python3 under raddle run"
raddle run --stats -- python3 -c '
import threading
total, lock = 0, threading.Lock()
def work():
    global total
    with lock: total += 1
threads = [threading.Thread(target=work) for _ in range(200)]
[t.start() for t in threads]; [t.join() for t in threads]
print(total)' >out 2>err
grep -qx 200 out
grep -Eq '^ *[0-9]+  threads created' err
echo "200 threads"

# Starts memcached by the words given, and has it keep a value.
memcached_answers() {
    "$@" memcached -u nobody -l 127.0.0.1 -p 21799 -t 4 2>err &
    server=$!
    python3 - <<'P'
import socket, time
for _ in range(600):
    try:
        s = socket.create_connection(("127.0.0.1", 21799)); break
    except OSError:
        time.sleep(0.1)
s.sendall(b"set k 0 0 6\r\nraddle\r\nget k\r\n")
text = b""
while not text.endswith(b"END\r\n"):
    text += s.recv(100)
assert text == b"STORED\r\nVALUE k 0 6\r\nraddle\r\nEND\r\n", text
P
    # What it has mapped says whether it was taken over.
    case $1 in raddle) grep -q raddle "/proc/$server/maps" ;; *) grep -q libraddle "/proc/$server/maps" ;; esac
}
stop() { kill "$server"; wait "$server" || true; server=; }

say "memcached under raddle run"
memcached_answers raddle run --
say "answers;"
timeout 60 raddle top --help >/dev/null
stop
echo "ends"

say "memcached, LD_PRELOAD as the unit"
# The variables of packaging/raddle.conf, if it is named; otherwise what it holds of importance.
variables=LD_PRELOAD=libraddle.so.0
test -z "$drop_in" || variables=$(sed -n 's/^Environment=//p' "$drop_in" | tr '\n' ' ')
memcached_answers env $variables
stop
echo "answers"

say "C with pkg-config"
cat >main.c <<'C'
#include <raddle.h>
#include <stdio.h>
static void *work(void *argument) { return argument; }
int main(void) {
    raddle_pool *pool = raddle_pool_create(0, NULL);
    pthread_t thread;
    void *value;
    raddle_thread_create(&thread, NULL, pool, 0, work, "joined");
    pthread_join(thread, &value);
    return puts(value) < 0;
}
C
cc main.c $(pkg-config --cflags --libs raddle) -o main-c
./main-c

say "C++ with raddle.hpp"
printf '#include <raddle.hpp>\n#include <cstdio>\nint main() { raddle::thread t([] { std::puts("joined"); }); t.join(); }\n' >main.cc
c++ main.cc $(pkg-config --cflags --libs raddle) -o main-cc
./main-cc

say "gdb knows the threads"
cat >sleeps.c <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>
static void *work(void *argument) { return sleep(1000), argument; }
int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_setname_np(t, "sleeper"); sleep(1); __builtin_trap(); }
C
cc -g sleeps.c -o sleeps -pthread
gdb -batch -ex 'set startup-with-shell off' -ex "set environment LD_PRELOAD libraddle.so.0" -ex run -ex 'info raddle-threads' ./sleeps >out 2>&1 || true
grep -q sleeper out || { tail -20 out; exit 1; }
echo "its name is shown"

say "manual pages and completions"
man raddle-run >out 2>/dev/null
grep -q compare out
bash -ic 'source /usr/share/bash-completion/completions/raddle; complete -p raddle' >out 2>/dev/null
grep -q _raddle out
echo "are there"
echo "all of it works"
