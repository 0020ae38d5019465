# Processes forked from the first thread and from others, each with threads of its own.
import concurrent.futures
import multiprocessing
import threading


def work(x):
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append(i * x)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(results)


def main():
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(4) as pool:
        print(pool.map(work, range(20)))
    queue = multiprocessing.Queue()

    def start(i):
        process = multiprocessing.Process(target=queue.put, args=(i,))
        process.start()
        process.join()

    threads = [threading.Thread(target=start, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sorted(queue.get() for _ in threads))
    with concurrent.futures.ProcessPoolExecutor(3) as executor:
        print(list(executor.map(work, range(6))))


if __name__ == "__main__":
    main()
