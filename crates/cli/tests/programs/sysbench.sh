# package: sysbench
# needs: /usr/bin/sysbench
# what: threads and mutexes, 8 threads
run sysbench threads --threads=8 --events=400 --time=0 run | grep -E 'total number of events'
run sysbench mutex --threads=8 --mutex-num=16 --mutex-locks=500 run | grep -E 'total number of events'
