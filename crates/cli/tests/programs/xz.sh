# package: xz-utils
# needs: /usr/bin/xz
# ci
# what: packs with 4 threads, unpacks
text 60000 >a.txt
md5sum <a.txt
run xz -T4 --block-size=200KiB -1 -k a.txt
md5sum <a.txt.xz
run xz -T4 -dc a.txt.xz | md5sum
