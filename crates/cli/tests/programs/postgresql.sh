# package: postgresql
# needs: /usr/lib/postgresql/15/bin/postgres
# what: a cluster, 4 clients of pgbench, a sum
bin=/usr/lib/postgresql/15/bin
as_user
"${drop[@]}" $bin/initdb -D data -A trust -U me >/dev/null
serve "${drop[@]}" $bin/postgres -D data -p "$PORT" -k "$PWD" -c fsync=off
until_true $bin/pg_isready -h 127.0.0.1 -p "$PORT"
sql() { psql -h 127.0.0.1 -p "$PORT" -U me -At postgres -c "$1"; }
pgbench -h 127.0.0.1 -p "$PORT" -U me -i -q postgres 2>/dev/null
pgbench -h 127.0.0.1 -p "$PORT" -U me -c 4 -j 2 -t 100 postgres 2>/dev/null | grep -E 'actually processed|failed'
sql 'select count(*), sum(i::bigint * i) from generate_series(1, 100000) i'
sql 'select count(*) from pgbench_history'
stop INT
