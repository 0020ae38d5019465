# package: haproxy
# needs: /usr/sbin/haproxy
# what: 4 threads before a native origin
mkdir -p www; text 500 >www/a.txt; chmod 755 . www
(cd www && exec python3 -m http.server "$PORT2" --bind 127.0.0.1 >/dev/null 2>&1) &
origin=$!
until_port "$PORT2"
cat >h.cfg <<C
global
  nbthread 4
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 10s
frontend f
  bind 127.0.0.1:$PORT
  default_backend b
backend b
  server s 127.0.0.1:$PORT2
C
serve /usr/sbin/haproxy -db -f h.cfg
until_port "$PORT"
for i in $(seq 30); do curl -s "http://127.0.0.1:$PORT/a.txt" | md5sum; done
stop
kill "$origin"
