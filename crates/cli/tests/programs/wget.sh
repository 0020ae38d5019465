# package: wget
# needs: /usr/bin/wget
# threads=none
# what: a download
mkdir -p www; text 5000 >www/a.txt
(cd www && exec python3 -m http.server "$PORT" --bind 127.0.0.1 >/dev/null 2>&1) &
server=$!
until_port "$PORT"
run wget -q -O - "http://localhost:$PORT/a.txt" | md5sum
kill "$server"
