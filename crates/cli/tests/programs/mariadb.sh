# package: mariadb-server
# needs: /usr/sbin/mariadbd /usr/bin/mariadb-install-db
# what: InnoDB; 8 clients write, sums agree
as_user
"${drop[@]}" mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal >/dev/null 2>&1
serve "${drop[@]}" /usr/sbin/mariadbd --no-defaults --datadir="$PWD/data" --socket="$PWD/s" --port="$PORT" --bind-address=127.0.0.1 \
    --innodb-buffer-pool-size=32M --skip-log-bin --pid-file="$PWD/pid" --thread-handling=one-thread-per-connection
sql() { mariadb --no-defaults -S "$PWD/s" -u root -N "$@"; }
until_true sql -e 'select 1'
sql -e 'create database d; create table d.t (id int primary key auto_increment, c int, v int) engine=innodb'
for c in 1 2 3 4 5 6 7 8; do
    for i in $(seq 60); do echo "insert into d.t (c, v) values ($c, $i);"; done | sql &
    clients+=($!)
done
wait "${clients[@]}"
sql -e 'select c, count(*), sum(v) from d.t group by c order by c; check table d.t'
stop
