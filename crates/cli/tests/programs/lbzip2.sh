# package: lbzip2
# needs: /usr/bin/lbzip2
# what: packs with 4 threads, unpacks
text 60000 >a.txt
md5sum <a.txt
run lbzip2 -n4 -k a.txt
md5sum <a.txt.bz2
run lbzip2 -n4 -dc a.txt.bz2 | md5sum
