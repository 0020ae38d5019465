# package: fio
# needs: /usr/bin/fio
# what: 8 threads write and verify
run fio --name=a --thread --numjobs=4 --size=1m --rw=randwrite --bs=4k --verify=crc32c --ioengine=psync --directory="$PWD" --minimal >out
echo "status $?"; wc -l <out
