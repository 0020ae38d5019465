# package: plzip
# needs: /usr/bin/plzip
# what: packs with 4 threads, unpacks
text 60000 >a.txt
md5sum <a.txt
run plzip -n4 -1 -k a.txt
md5sum <a.txt.lz
run plzip -n4 -dc a.txt.lz | md5sum
