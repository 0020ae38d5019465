# package: pixz
# needs: /usr/bin/pixz
# what: packs with 4 threads, unpacks
text 60000 >a.txt
md5sum <a.txt
run pixz -p 4 -1 a.txt a.xz
run pixz -p 4 -d a.xz b.txt
md5sum <b.txt
