# package: curl
# needs: /usr/bin/curl
# threads=none
# what: 20 downloads side by side
mkdir -p www; text 5000 >www/a.txt
(cd www && exec python3 -m http.server "$PORT" --bind 127.0.0.1 >/dev/null 2>&1) &
server=$!
until_port "$PORT"
run curl -s -Z --parallel-max 10 $(for i in $(seq 20); do echo "http://localhost:$PORT/a.txt -o o$i"; done)
md5sum o* | cut -c1-32
kill "$server"
