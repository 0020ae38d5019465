# package: default-jdk-headless
# needs: /usr/bin/java
# seconds=200
# what: 300 threads, pools, a collection, stack traces of all
cat >A.java <<'J'
import java.util.*; import java.util.concurrent.*; import java.util.concurrent.atomic.*; import java.util.stream.*;
public class A { public static void main(String[] a) throws Exception {
  AtomicLong s = new AtomicLong(); Thread[] t = new Thread[300];
  for (int i = 0; i < 300; i++) { int n = i; t[i] = new Thread(() -> { List<int[]> l = new ArrayList<>(); for (int k = 0; k < 50; k++) l.add(new int[1000]); s.addAndGet(n + l.size()); }); t[i].start(); }
  for (Thread x : t) x.join(); System.out.println(s);
  ExecutorService p = Executors.newFixedThreadPool(16); List<Future<Integer>> f = new ArrayList<>();
  for (int i = 0; i < 500; i++) { int n = i; f.add(p.submit(() -> n * 2)); } int r = 0; for (Future<Integer> x : f) r += x.get(); System.out.println(r); p.shutdown(); System.out.println(p.awaitTermination(10, TimeUnit.SECONDS));
  System.out.println(LongStream.range(0, 1000000).parallel().sum()); System.gc();
  Thread w = new Thread(() -> { try { Thread.sleep(100000); } catch (InterruptedException e) { System.out.println("interrupted"); } }); w.start(); System.out.println(Thread.getAllStackTraces().size() > 2); w.interrupt(); w.join();
} }
J
run java -Xmx128m A.java
