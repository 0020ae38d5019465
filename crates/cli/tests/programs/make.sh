# package: make
# needs: /usr/bin/make
# threads=none
# what: 20 rules, 4 at a time
{ echo 'all: $(addprefix t,$(shell seq 20))'; printf 't%%:\n\t@echo $@ >$@\n'; } >Makefile
run make -s -j4
cat t* | sort | md5sum
