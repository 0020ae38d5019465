# package: gdb
# needs: /usr/bin/gdb
# what: symbols read with worker threads, a program run
printf '#include <stdio.h>\nint f(int x){return x*2;}\nint main(){printf("%%d\\n",f(21));return 0;}\n' >a.c; cc -g -o a a.c
run gdb -q -nx -batch -ex 'maint set worker-threads 4' -ex 'break f' -ex run -ex 'print x' -ex finish -ex continue ./a 2>/dev/null | grep -E '^\$|^Value|^42|exited' | sed 's/process [0-9]*/process N/'
