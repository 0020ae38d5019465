# package: busybox
# needs: /usr/bin/busybox
# threads=none
# what: awk, sort, tar
text 2000 | run busybox awk '{ s += $2 % 97 } END { print s }' 2>/dev/null || echo refused
