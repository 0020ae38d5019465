# package: graphicsmagick
# needs: /usr/bin/gm
# what: a picture made, blurred and turned by OpenMP's threads
OMP_NUM_THREADS=4 run gm convert -size 320x240 gradient:red-blue -blur 0x5 -edge 3 -rotate 30 -resize 50% ppm:a.ppm
md5sum <a.ppm
