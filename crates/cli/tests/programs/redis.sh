# package: redis-server
# needs: /usr/bin/redis-server
# ci
# what: 4 io threads, pipelined writes, a background save and an append-only file
serve /usr/bin/redis-server --port "$PORT" --bind 127.0.0.1 --io-threads 4 --io-threads-do-reads yes --appendonly yes --dir "$PWD"
until_port "$PORT"
redis() { redis-cli -p "$PORT" "$@"; }
for i in $(seq 2000); do echo "SET key$i value$i"; echo "INCR counter"; echo "LPUSH list $i"; done | redis --pipe | tail -1
redis GET key1777
redis GET counter
redis LLEN list
redis BGSAVE
until_true sh -c "redis-cli -p $PORT LASTSAVE; redis-cli -p $PORT INFO persistence | grep -q rdb_bgsave_in_progress:0"
redis EVAL 'local s = 0 for i = 1, 1000 do s = s + i end return s' 0
redis UNLINK list
stop
