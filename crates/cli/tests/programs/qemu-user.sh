# package: qemu-user pigz
# needs: /usr/bin/qemu-x86_64
# what: user mode, with pigz and its 4 threads
text 20000 >a.txt
run qemu-x86_64 -L / /usr/bin/pigz -n -p 4 -k a.txt
md5sum <a.txt.gz
