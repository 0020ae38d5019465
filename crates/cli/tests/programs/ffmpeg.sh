# package: ffmpeg
# needs: /usr/bin/ffmpeg
# what: a film made, encoded and filtered with 4 threads
run ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=25:duration=2 -threads 4 -c:v mpeg4 -q:v 5 -bitexact -f avi a.avi
run ffmpeg -v error -threads 4 -i a.avi -vf scale=160:120 -filter_threads 4 -f framemd5 -bitexact - | md5sum
