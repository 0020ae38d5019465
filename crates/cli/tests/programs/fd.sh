# package: fd-find
# needs: /usr/bin/fdfind
# what: 200 files with 4 threads
for i in $(seq 20); do mkdir -p "d/$i/e"; for k in $(seq 10); do : >"d/$i/e/f$k.txt"; done; done
run fdfind -j4 -e txt . d | sort | md5sum
run fdfind -j4 'f1.*' d -x echo | sort | md5sum
