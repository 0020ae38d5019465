# package: memcached
# needs: /usr/bin/memcached
# ci
# what: 400 keys over 8 connections
serve /usr/bin/memcached -u nobody -l 127.0.0.1 -p "$PORT" -t 4
until_port "$PORT"
for c in 1 2 3 4 5 6 7 8; do
    {
        exec 3<>"/dev/tcp/127.0.0.1/$PORT"
        for k in $(seq 50); do printf 'set k%d-%d 0 0 5\r\nv%04d\r\n' "$c" "$k" "$k" >&3; done
        for k in $(seq 50); do read -r -u 3 line; done
        for k in $(seq 50); do printf 'get k%d-%d\r\n' "$c" "$k" >&3; done
        printf 'quit\r\n' >&3
        cat <&3 >"out$c"
    } &
    clients+=($!)
done
wait "${clients[@]}"
cat out?
stop
