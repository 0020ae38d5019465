# package: rsync
# needs: /usr/bin/rsync
# threads=none
# what: a tree, twice
mkdir a; for i in $(seq 50); do text $i >"a/f$i"; done
run rsync -a a/ b
echo x >>a/f7
run rsync -ai --checksum a/ b | cut -c1-4,12-
diff -r a b && echo same
