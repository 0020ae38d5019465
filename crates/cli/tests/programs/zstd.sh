# package: zstd
# needs: /usr/bin/zstd
# ci
# what: packs with 4 threads, unpacks
text 60000 >a.txt
md5sum <a.txt
run zstd -q -T4 -B100K -3 -k a.txt
md5sum <a.txt.zst
run zstd -q -dc a.txt.zst | md5sum
