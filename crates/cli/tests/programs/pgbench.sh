# package: postgresql
# needs: /usr/lib/postgresql/15/bin/pgbench
# what: the client, 8 threads, against a native server
bin=/usr/lib/postgresql/15/bin
as_user
"${drop[@]}" $bin/initdb -D data -A trust -U me >/dev/null
"${drop[@]}" $bin/postgres -D data -p "$PORT" -k "$PWD" -c fsync=off >/dev/null 2>&1 &
server=$!
until_true $bin/pg_isready -h 127.0.0.1 -p "$PORT"
$bin/pgbench -h 127.0.0.1 -p "$PORT" -U me -i -q postgres 2>/dev/null
run $bin/pgbench -h 127.0.0.1 -p "$PORT" -U me -c 16 -j 8 -t 50 postgres | grep -E 'actually processed|failed|threads'
stop INT
