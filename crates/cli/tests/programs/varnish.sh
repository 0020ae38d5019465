# package: varnish
# needs: /usr/sbin/varnishd
# what: a cache before a native origin: hits and misses
mkdir -p www; text 500 >www/a.txt; chmod 755 . www
(cd www && exec python3 -m http.server "$PORT2" --bind 127.0.0.1 >/dev/null 2>&1) &
origin=$!
until_port "$PORT2"
serve /usr/sbin/varnishd -F -n "$PWD/v" -a "127.0.0.1:$PORT" -b "127.0.0.1:$PORT2" -s malloc,20m -j none
until_port "$PORT"
for i in $(seq 30); do curl -s "http://127.0.0.1:$PORT/a.txt" | md5sum; done
curl -s -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$PORT/none"
stop
kill "$origin"
