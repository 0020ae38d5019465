# package: stunnel4
# needs: /usr/bin/stunnel4
# what: TLS before a native server
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout k.pem -out c.pem 2>/dev/null
mkdir -p www; text 500 >www/a.txt
(cd www && exec python3 -m http.server "$PORT2" --bind 127.0.0.1 >/dev/null 2>&1) &
origin=$!
until_port "$PORT2"
printf 'foreground = quiet\npid =\ncert = %s/c.pem\nkey = %s/k.pem\n[x]\naccept = 127.0.0.1:%s\nconnect = 127.0.0.1:%s\n' "$PWD" "$PWD" "$PORT" "$PORT2" >s.conf
serve /usr/bin/stunnel4 s.conf
until_port "$PORT"
for i in $(seq 10); do curl -sk "https://127.0.0.1:$PORT/a.txt" | md5sum; done
stop; kill "$origin"
