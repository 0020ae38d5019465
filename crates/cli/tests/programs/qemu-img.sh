# package: qemu-utils
# needs: /usr/bin/qemu-img
# what: an image converted by worker threads
text 60000 >a.raw; truncate -s 8M a.raw
run qemu-img convert -f raw -O qcow2 -m 8 -W a.raw a.qcow2
run qemu-img convert -f qcow2 -O raw -m 8 a.qcow2 b.raw
cmp a.raw b.raw && echo same
run qemu-img check a.qcow2 | head -1
