/* SQLite and zlib at work: cost.sh counts their instructions with and without checks. The argument names the work; any other one prepares nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sqlite3.h"
#include "zlib.h"

static int adds(void *sum, int count, char **values, char **names) {
    (void)names;
    for (int i = 0; i < count; i++)
        *(long *)sum += values[i] ? (long)strlen(values[i]) + values[i][0] : 0;
    return 0;
}

#define NUMBERS(n) "with recursive r(n) as (select 1 union all select n+1 from r where n<" #n ") "

static const struct {
    const char *name, *text;
} queries[] = {
    {"group", "select b,count(*),sum(c) from t where a%3=1 group by substr(b,1,6) order by 2 desc,1 limit 50"},
    {"join", "select x.b,y.c from t x join t y on x.b=y.b where x.a<2000 order by y.c desc"},
    {"like", "select count(*) from t where b like '%9%1' or b glob '*8?3*'"},
    {"recursion", NUMBERS(20000) "select sum(n*n%7) from r"},
    {"hex", NUMBERS(5000) "select max(hex(n*n)||lower(upper(hex(n)))) from r"},
    {"format", NUMBERS(5000) "select sum(length(printf('%08d %5.2f %s %x',n,n/7.0,hex(n),n))) from r"},
    {"sort", NUMBERS(6000) "select group_concat(m,'') from (select n*7919%6007 as m from r order by m)"},
    {"text_sort", NUMBERS(4000) "select max(m) from (select hex(n*7919%6007) as m from r order by m desc limit 3000)"},
    {"json_parse", NUMBERS(1500)
     "select sum(json_extract(j,'$.c[2].d')) from (select '{\"a\":'||n||',\"b\":\"x\\ny\",\"c\":[1,2.5,{\"d\":'||n||'}]}' as j from r)"},
    {"json_build", NUMBERS(2000) "select length(json_group_array(json_object('n',n,'s',hex(n),'h',n/3.0))) from r"},
    {"window", NUMBERS(3000) "select sum(w) from (select sum(n) over (order by n rows 20 preceding) as w from r)"},
    {"dates", NUMBERS(1500) "select max(strftime('%Y-%m-%d %H:%M',n*100000,'unixepoch','+3 days')) from r"},
};

static void fills(sqlite3 *base) {
    sqlite3_exec(base, "create table t(a integer primary key,b text,c real);create index i on t(b);begin", 0, 0, 0);
    sqlite3_stmt *insert;
    sqlite3_prepare_v2(base, "insert into t values(?,?,?)", -1, &insert, 0);
    for (int i = 0; i < 5000; i++) {
        char name[32];
        sprintf(name, "name%d", i * 7919 % 5000);
        sqlite3_bind_int(insert, 1, i);
        sqlite3_bind_text(insert, 2, name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_double(insert, 3, i * 1.5);
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    sqlite3_exec(base, "commit", 0, 0, 0);
}

static int asks(const char *work) {
    sqlite3 *base;
    long sum = 0;
    char *error = 0;
    sqlite3_open(":memory:", &base);
    if (!strcmp(work, "insert")) {
        fills(base);
        sum = sqlite3_total_changes(base);
    }
    for (unsigned i = 0; i < sizeof queries / sizeof *queries; i++)
        if (!strcmp(work, queries[i].name)) {
            if (i < 3)
                fills(base);
            sqlite3_exec(base, queries[i].text, adds, &sum, &error);
        }
    printf("%ld %s\n", sum, error ? error : "");
    sqlite3_close(base);
    return error != 0;
}

enum { SIZE = 400000 };

static uLong packs(unsigned char *to, const unsigned char *from, int level, int strategy) {
    z_stream stream = {0};
    deflateInit2(&stream, level, Z_DEFLATED, 15, 8, strategy);
    stream.next_in = (unsigned char *)from;
    stream.avail_in = SIZE;
    stream.next_out = to;
    stream.avail_out = 2 * SIZE;
    deflate(&stream, Z_FINISH);
    uLong length = stream.total_out;
    deflateEnd(&stream);
    return length;
}

int main(int count, char **arguments) {
    const char *work = count > 1 ? arguments[1] : "";
    static const char *const packing[] = {"crc", "adler", "deflate1", "deflate6", "deflate9", "huffman", "rle", "inflate"};
    int which = -1;
    for (int i = 0; i < 8; i++)
        if (!strcmp(work, packing[i]))
            which = i;
    if (which < 0)
        return asks(work);
    unsigned char *bytes = malloc(SIZE), *packed = malloc(2 * SIZE), *again = malloc(SIZE);
    unsigned state = 1;
    for (uLong i = 0; i < SIZE; i++) {
        state = state * 1103515245 + 12345;
        bytes[i] = i > 2000 && (state >> 20) % 3 ? bytes[i - 1000 - (state >> 28)] : 'a' + (state >> 16) % 26;
    }
    uLong result = 0, length = SIZE;
    switch (which) {
    case 0: result = crc32(0, bytes, SIZE); break;
    case 1: result = adler32(1, bytes, SIZE); break;
    case 2: result = packs(packed, bytes, 1, Z_DEFAULT_STRATEGY); break;
    case 3: result = packs(packed, bytes, 6, Z_DEFAULT_STRATEGY); break;
    case 4: result = packs(packed, bytes, 9, Z_DEFAULT_STRATEGY); break;
    case 5: result = packs(packed, bytes, 6, Z_HUFFMAN_ONLY); break;
    case 6: result = packs(packed, bytes, 6, Z_RLE); break;
    default:
        result = packs(packed, bytes, 1, Z_DEFAULT_STRATEGY);
        for (int i = 0; i < 20; i++) {
            length = SIZE;
            uncompress(again, &length, packed, result);
        }
        result = (uLong)memcmp(again, bytes, SIZE);
    }
    printf("%lu\n", result);
    return 0;
}
