# package: bind9-dnsutils
# needs: /usr/bin/dig /usr/sbin/unbound
# what: the client, of a native server
printf 'server:\n interface: 127.0.0.1\n port: %s\n do-daemonize: no\n username: ""\n chroot: ""\n directory: "%s"\n pidfile: ""\n use-syslog: no\n local-zone: "test." static\n local-data: "a.test. A 10.1.2.3"\nremote-control:\n control-enable: no\n' "$PORT" "$PWD" >u.conf
/usr/sbin/unbound -d -c u.conf >/dev/null 2>&1 &
server=$!
until_true dig +short +time=1 +tries=1 @127.0.0.1 -p "$PORT" a.test
for i in $(seq 10); do run dig +short @127.0.0.1 -p "$PORT" a.test; done
stop
