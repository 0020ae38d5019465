/* SQLite and zlib at work: cost.sh counts their instructions with and without checks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sqlite3.h"
#include "zlib.h"
static int cb(void*p,int n,char**v,char**k){(void)k;for(int i=0;i<n;i++)*(long*)p+=v[i]?strlen(v[i])+v[i][0]:0;return 0;}
int main(int c,char**a){
 if(!strcmp(a[1],"sqlite")){sqlite3*d;long s=0;char*e=0;sqlite3_open(":memory:",&d);
  sqlite3_exec(d,"create table t(a integer primary key,b text,c real);create index i on t(b);begin",0,0,&e);
  sqlite3_stmt*st;sqlite3_prepare_v2(d,"insert into t values(?,?,?)",-1,&st,0);
  for(int i=0;i<5000;i++){char b[32];sprintf(b,"name%d",(i*7919)%5000);sqlite3_bind_int(st,1,i);sqlite3_bind_text(st,2,b,-1,SQLITE_TRANSIENT);sqlite3_bind_double(st,3,i*1.5);sqlite3_step(st);sqlite3_reset(st);}
  sqlite3_exec(d,"commit",0,0,&e);
  sqlite3_exec(d,"select b,count(*),sum(c) from t where a%3=1 group by substr(b,1,6) order by 2 desc,1 limit 50",cb,&s,&e);
  sqlite3_exec(d,"select x.b,y.c from t x join t y on x.b=y.b where x.a<2000 and y.b like 'name1%' order by y.c desc",cb,&s,&e);
  sqlite3_exec(d,"with recursive r(n) as (select 1 union all select n+1 from r where n<20000) select sum(n*n%7),max(hex(n)) from r",cb,&s,&e);
  printf("%ld %s\n",s,e?e:"");}
 if(!strcmp(a[1],"deflate")||!strcmp(a[1],"inflate")||!strcmp(a[1],"crc")||!strcmp(a[1],"adler")){uLong n=400000;unsigned char*b=malloc(n),*z=malloc(2*n),*o=malloc(n);unsigned r=1;for(uLong i=0;i<n;i++){r=r*1103515245+12345;b[i]=i>2000&&(r>>20)%3?b[i-1000-(r>>28)]:'a'+(r>>16)%26;}
  uLongf l=2*n;
  if(a[1][0]=='c'){printf("%lu\n",crc32(0,b,n));return 0;}
  if(a[1][0]=='a'){printf("%lu\n",adler32(1,b,n));return 0;}
  if(a[1][0]=='d'){compress2(z,&l,b,n,6);printf("%lu\n",l);}
  else{compress2(z,&l,b,n,1);uLongf m=0;for(int i=0;i<20;i++){m=n;uncompress(o,&m,z,l);}printf("%lu %d\n",m,memcmp(o,b,n));}}
}
