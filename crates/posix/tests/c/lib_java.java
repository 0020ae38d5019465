// The JVM's platform threads: locks, waits, parks, a pool, garbage.
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;

class Program {
    public static void main(String[] words) throws Exception {
        AtomicLong sum = new AtomicLong();
        Object lock = new Object();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            int number = i;
            Thread thread = new Thread(() -> {
                for (int round = 0; round < 50; round++) {
                    byte[] garbage = new byte[10000];
                    synchronized (lock) { sum.addAndGet(number + garbage.length - 10000); }
                    if (round % 10 == 0) Thread.yield();
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Integer>> futures = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            int number = i;
            futures.add(pool.submit(() -> number));
        }
        for (Future<Integer> future : futures) sum.addAndGet(future.get());
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.MINUTES);
        System.out.println(sum.get());
    }
}
