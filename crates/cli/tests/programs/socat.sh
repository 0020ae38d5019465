# package: socat
# needs: /usr/bin/socat
# threads=none
# what: an echo
serve socat "TCP-LISTEN:$PORT,fork,reuseaddr,bind=127.0.0.1" EXEC:cat
until_port "$PORT"
for i in 1 2 3; do echo "hello $i" | run socat -t 5 - "TCP:127.0.0.1:$PORT"; done
stop >/dev/null || true
