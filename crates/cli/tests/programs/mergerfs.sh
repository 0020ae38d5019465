# package: mergerfs
# needs: /usr/bin/mergerfs
# what: a file system of 4 threads, read and written by 6 processes at once
mkdir a b m; text 3000 >a/f; text 100 >b/g
(run mergerfs -f -o threads=4 "$PWD/a:$PWD/b" "$PWD/m" >server.log 2>&1) &
for _ in $(seq 100); do if mountpoint -q m; then break; fi; sleep 0.1; done
if mountpoint -q m; then
    seq 20 | xargs -P 6 -I% md5sum m/f m/g | sort | uniq -c
    cp m/f m/h; ls m; cat a/h b/h 2>/dev/null | md5sum
    umount m
else
    echo "nobody may mount a file system"
fi
wait
