# package: bind9 bind9-dnsutils
# needs: /usr/sbin/named
# what: a zone asked 80 times, 4 threads
cat >n.conf <<C
options { directory "$PWD"; listen-on port $PORT { 127.0.0.1; }; listen-on-v6 { none; }; recursion no; pid-file "$PWD/pid"; session-keyfile "$PWD/sk"; };
controls {};
zone "test" { type master; file "$PWD/z"; };
C
printf '$TTL 60\n@ SOA a a 1 60 60 60 60\n@ NS a\na A 10.1.2.3\nb CNAME a\n' >z
serve /usr/sbin/named -g -n 4 -c "$PWD/n.conf"
until_true dig +short +time=1 +tries=1 @127.0.0.1 -p "$PORT" a.test
for i in $(seq 40); do dig +short @127.0.0.1 -p "$PORT" b.test; dig +short +tcp @127.0.0.1 -p "$PORT" a.test; done
stop
