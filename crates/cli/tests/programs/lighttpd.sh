# package: lighttpd
# needs: /usr/sbin/lighttpd
# threads=none
# what: files
mkdir www; text 500 >www/a.txt
printf 'server.document-root = "%s/www"\nserver.port = %s\nserver.bind = "127.0.0.1"\n' "$PWD" "$PORT" >l.conf
serve /usr/sbin/lighttpd -D -f l.conf
until_port "$PORT"
for i in $(seq 20); do curl -s "http://127.0.0.1:$PORT/a.txt" | md5sum; done
stop INT
