# package: x264
# needs: /usr/bin/x264
# what: frames encoded with 4 threads
text 40000 | head -c 760320 >a.yuv
run x264 --quiet --threads 4 --input-res 176x144 --fps 25 -o a.264 a.yuv
md5sum <a.264
