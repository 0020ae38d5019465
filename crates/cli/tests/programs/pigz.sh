# package: pigz
# needs: /usr/bin/pigz
# ci
# what: packs with 4 threads, unpacks
text 60000 >a.txt
md5sum <a.txt
run pigz -n -p 4 -k a.txt
md5sum <a.txt.gz
run pigz -dc a.txt.gz | md5sum
