# package: pbzip2
# needs: /usr/bin/pbzip2
# what: packs with 4 threads, unpacks
text 60000 >a.txt
md5sum <a.txt
run pbzip2 -q -p4 -k a.txt
md5sum <a.txt.bz2
run pbzip2 -q -p4 -dc a.txt.bz2 | md5sum
