# package: stress-ng
# needs: /usr/bin/stress-ng
# seconds=200
# what: stressors of threads, mutexes, semaphores, queues, signals
for s in pthread mutex sem futex mq sigrt switch clone; do run stress-ng --$s 2 --$s-ops 200 -q --verify -t 30; echo "$s $?"; done
