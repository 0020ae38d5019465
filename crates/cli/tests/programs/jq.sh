# package: jq
# needs: /usr/bin/jq
# threads=none
# what: a sum
seq 1000 | run jq -s 'map(. * 2) | add'
