# package: imagemagick
# needs: /usr/bin/convert
# what: OpenMP: blurred, turned, compared
export MAGICK_THREAD_LIMIT=4
run convert -size 300x300 plasma:fractal -seed 1 -blur 0x3 -rotate 30 x.png 2>/dev/null
run convert -size 400x400 gradient:red-blue -blur 0x5 -resize 200x200 -rotate 17 rgb:- | md5sum
