"""A thousand threads in a ring hand a token on, a hundred times round."""
import queue
import threading

THREADS, ROUNDS = 1000, 100
boxes = [queue.SimpleQueue() for _ in range(THREADS)]


def hand_on(i):
    for _ in range(ROUNDS):
        boxes[(i + 1) % THREADS].put(boxes[i].get())


threads = [threading.Thread(target=hand_on, args=(i,)) for i in range(THREADS)]
for thread in threads:
    thread.start()
boxes[0].put("token")
for thread in threads:
    thread.join()
print(boxes[0].get(), "is back after", THREADS * ROUNDS, "hops")
