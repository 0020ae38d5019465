# package: aria2
# needs: /usr/bin/aria2c
# what: a download in parts
mkdir -p www; text 5000 >www/a.txt
(cd www && exec python3 -m http.server "$PORT" --bind 127.0.0.1 >/dev/null 2>&1) &
server=$!
until_port "$PORT"
run aria2c -q -x4 -s4 --async-dns=false "http://localhost:$PORT/a.txt" -o b.txt
md5sum <b.txt
kill "$server"
