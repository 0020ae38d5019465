# package: unbound
# needs: /usr/sbin/unbound
# what: a local zone asked 80 times, 4 threads
cat >u.conf <<C
server:
  interface: 127.0.0.1
  port: $PORT
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "$PWD"
  pidfile: ""
  use-syslog: no
  num-threads: 4
  local-zone: "test." static
  local-data: "a.test. A 10.1.2.3"
remote-control:
  control-enable: no
C
serve /usr/sbin/unbound -d -c u.conf
until_true dig +short +time=1 +tries=1 @127.0.0.1 -p "$PORT" a.test
for i in $(seq 40); do dig +short @127.0.0.1 -p "$PORT" a.test; dig +short +tcp @127.0.0.1 -p "$PORT" a.test; done
stop
