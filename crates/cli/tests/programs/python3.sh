# package: python3
# needs: /usr/bin/python3
# ci
# what: 200 threads, queues, a pool, subprocesses, asyncio
cat >p.py <<'P'
import threading, queue, concurrent.futures as cf, subprocess, asyncio, time, signal, os
q = queue.Queue(10)
def maker(n):
    for i in range(50): q.put(n * 50 + i)
ts = [threading.Thread(target=maker, args=(n,)) for n in range(100)]
got = []
def taker():
    for i in range(50): got.append(q.get())
ts += [threading.Thread(target=taker) for n in range(100)]
[t.start() for t in ts]; [t.join() for t in ts]
print(len(got), sum(got))
with cf.ThreadPoolExecutor(16) as pool: print(sum(pool.map(lambda x: x * x, range(2000))))
with cf.ThreadPoolExecutor(4) as pool: print(list(pool.map(lambda x: subprocess.check_output(['echo', str(x)]).decode().strip(), range(8))))
async def main():
    loop = asyncio.get_running_loop()
    print(await asyncio.gather(*[loop.run_in_executor(None, lambda x=x: x + 1) for x in range(20)]))
    p = await asyncio.create_subprocess_exec('echo', 'hello', stdout=asyncio.subprocess.PIPE)
    print((await p.communicate())[0])
asyncio.run(main())
signal.signal(signal.SIGUSR1, lambda *a: print('handled', threading.current_thread() is threading.main_thread()))
t = threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGUSR1)); t.start(); t.join()
e = threading.Event(); t = threading.Timer(0.05, e.set); t.start(); print(e.wait(10))
P
run /usr/bin/python3 p.py
