# package: sqlite3
# needs: /usr/bin/sqlite3
# threads=none
# what: 100,000 rows, an index, threads for sorting
run sqlite3 a.db 'pragma threads=4; create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<100000) insert into t select x, (x*7919)%100003 from c; create index i on t(b,a); select count(*), sum(b) from t where b>50000; pragma integrity_check'
