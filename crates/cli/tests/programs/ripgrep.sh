# package: ripgrep
# needs: /usr/bin/rg
# ci
# what: 200 files with 4 threads
mkdir d; for i in $(seq 200); do text 100 >"d/f$i"; done
run rg -j4 -c --no-messages '9 .*7 .*3' d | sort | md5sum
run rg -j4 --files d | sort | md5sum
