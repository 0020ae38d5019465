# package: slapd ldap-utils
# needs: /usr/sbin/slapd
# what: entries added and searched by 4 clients
mkdir db
cat >s.conf <<C
include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix "dc=x"
rootdn "cn=a,dc=x"
rootpw p
directory $PWD/db
C
serve /usr/sbin/slapd -d 0 -f "$PWD/s.conf" -h "ldap://127.0.0.1:$PORT"
until_port "$PORT"
printf 'dn: dc=x\nobjectClass: dcObject\nobjectClass: organization\no: x\ndc: x\n\n' | ldapadd -x -D cn=a,dc=x -w p -H "ldap://127.0.0.1:$PORT" >/dev/null
for c in 1 2 3 4; do
    for i in $(seq 40); do printf 'dn: cn=p%d-%d,dc=x\nobjectClass: person\ncn: p%d-%d\nsn: s\n\n' $c $i $c $i; done |
        ldapadd -x -D cn=a,dc=x -w p -H "ldap://127.0.0.1:$PORT" >/dev/null &
    clients+=($!)
done
wait "${clients[@]}"
ldapsearch -x -LLL -H "ldap://127.0.0.1:$PORT" -b dc=x '(sn=s)' dn | grep ^dn | sort
stop
