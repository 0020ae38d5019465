# package: tcl
# needs: /usr/bin/tclsh
# threads=none
# what: an event loop and a child
printf 'after 50 {set x 1}\nvwait x\nputs $x\nputs [exec echo child]\n' >t.tcl
run tclsh t.tcl
