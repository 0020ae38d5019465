# package: gawk
# needs: /usr/bin/gawk
# threads=none
# what: a co-process
run gawk 'BEGIN { c = "sort -n"; for (i = 50; i > 0; i--) print i |& c; close(c, "to"); while ((c |& getline x) > 0) s = s x; print s }'
