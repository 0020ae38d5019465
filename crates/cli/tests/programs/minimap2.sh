# package: minimap2
# needs: /usr/bin/minimap2
# what: 500 reads found again with 4 threads
awk 'BEGIN { x = 7; for (i = 0; i < 50000; i++) { x = (x * 1103515245 + 12345) % 2147483648; g = g substr("ACGT", int(x / 65536) % 4 + 1, 1) }
    print ">c" >"ref.fa"; print g >"ref.fa"
    for (i = 0; i < 500; i++) { printf ">r%d\n%s\n", i, substr(g, i * 90 + 1, 150) >"reads.fa" } }'
run minimap2 -t 4 ref.fa reads.fa
