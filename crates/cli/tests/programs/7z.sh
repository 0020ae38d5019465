# package: p7zip-full
# needs: /usr/lib/p7zip/7z
# what: packs with 4 threads, tests, unpacks
text 60000 >a.txt
md5sum <a.txt
run /usr/lib/p7zip/7z a -mmt=4 -mx=3 -bd a.7z a.txt | grep -E 'Everything'
run /usr/lib/p7zip/7z t -mmt=4 a.7z | grep -E 'Everything'
run /usr/lib/p7zip/7z x -so a.7z | md5sum
