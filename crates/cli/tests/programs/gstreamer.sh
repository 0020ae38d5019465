# package: gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good
# needs: /usr/bin/gst-launch-1.0
# what: pictures and sound through queues, a thread for each
run gst-launch-1.0 -q videotestsrc num-buffers=60 ! video/x-raw,width=160,height=120,framerate=25/1 ! queue ! videoconvert ! tee name=t \
    t. ! queue ! fakesink t. ! queue ! videoscale ! filesink location=o.raw
md5sum o.raw
run gst-launch-1.0 -q audiotestsrc num-buffers=200 ! queue ! audioconvert ! audioresample ! queue ! wavenc ! filesink location=o.wav
md5sum o.wav
