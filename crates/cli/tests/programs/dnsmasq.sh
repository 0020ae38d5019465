# package: dnsmasq-base
# needs: /usr/sbin/dnsmasq
# threads=none
# what: a name asked 20 times
serve /usr/sbin/dnsmasq -k -C /dev/null -p "$PORT" --listen-address=127.0.0.1 --bind-interfaces --address=/a.test/10.1.2.3 --pid-file="$PWD/pid" --user=nobody
until_true dig +short +time=1 +tries=1 @127.0.0.1 -p "$PORT" a.test
for i in $(seq 20); do dig +short @127.0.0.1 -p "$PORT" a.test; done
stop
