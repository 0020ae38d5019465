# package: brotli
# needs: /usr/bin/brotli
# threads=none
# what: packs, unpacks
text 60000 >a.txt
md5sum <a.txt
run brotli -q 5 -k a.txt
run brotli -dc a.txt.br | md5sum
