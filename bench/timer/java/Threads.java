// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;

/** Threads of this process: running some at once, and what the kernel says of them. */
final class Threads {
  private Threads() {}

  /** One thread's part of a workload. */
  interface Part {
    void run(int index) throws Exception;
  }

  /** Runs `count` parts at once; returns the ns from the common start to the last one's end. */
  static long together(int count, Part part) throws Exception {
    CyclicBarrier start = new CyclicBarrier(count + 1);
    Thread[] threads = new Thread[count];
    long[] ends = new long[count];
    Throwable[] failure = new Throwable[1];
    for (int i = 0; i < count; i++) {
      int index = i;
      threads[i] = new Thread(() -> {
        try {
          start.await();
          part.run(index);
        } catch (Throwable e) {
          synchronized (failure) {
            failure[0] = e;
          }
        }
        ends[index] = System.nanoTime();
      });
      threads[i].start();
    }
    Thread.sleep(1); // all of them wait
    long begin = System.nanoTime();
    start.await();
    long end = begin;
    for (int i = 0; i < count; i++) {
      threads[i].join();
      end = Math.max(end, ends[i]);
    }
    if (failure[0] != null) {
      throw new Exception(failure[0]);
    }
    return end - begin;
  }

  /** What threads have used. */
  static final class Use {
    long cpuNanos;
    long switches;

    void add(Use other, int sign) {
      cpuNanos += sign * other.cpuNanos;
      switches += sign * other.switches;
    }
  }

  /** By the kernel's number of the thread. */
  static Map<String, Use> snapshot() throws IOException {
    Map<String, Use> all = new HashMap<>();
    try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
      for (Path thread : threads) {
        Use use = new Use();
        String[] times = Files.readString(thread.resolve("schedstat")).split(" ");
        use.cpuNanos = Long.parseLong(times[0]);
        for (String line : Files.readAllLines(thread.resolve("status"))) {
          if (line.contains("ctxt_switches")) {
            use.switches += Long.parseLong(line.substring(line.indexOf(':') + 1).trim());
          }
        }
        all.put(thread.getFileName().toString(), use);
      }
    }
    return all;
  }
}
