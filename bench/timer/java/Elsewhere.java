// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/** T6: one thread adds, another cancels. */
final class Elsewhere {
  private static final int A_BATCH = 256;
  private static final int BATCHES = 64;
  private static final double COMPILE_SECONDS = 0.4;

  private Elsewhere() {}

  static void run(String name, Load load) throws Exception {
    measure(name, load, (long) (Math.min(COMPILE_SECONDS, load.seconds) * 1e9));
    System.gc();
    double rate = measure(name, load, load.nanos());
    new Result().param("threads", 2).value("m_pairs_per_s", rate / 1e6).value("pair_ns", 1e9 / rate)
        .print();
  }

  private static double measure(String name, Load load, long nanos) throws Exception {
    Peer peer = Peer.make(name);
    LongAdder fired = new LongAdder();
    Object[][] ring = new Object[BATCHES][A_BATCH];
    AtomicLong written = new AtomicLong();
    AtomicLong read = new AtomicLong();
    AtomicLong last = new AtomicLong(Long.MAX_VALUE); // batches in all, once known
    long[] cancelled = new long[1];
    long took = Threads.together(2, index -> {
      if (index == 0) {
        long end = System.nanoTime() + nanos;
        long batch = 0;
        for (; System.nanoTime() < end; batch++) {
          while (batch - read.get() >= BATCHES) {
            Thread.onSpinWait();
          }
          Object[] handles = ring[(int) (batch % BATCHES)];
          for (int i = 0; i < A_BATCH; i++) {
            handles[i] = peer.add(new Counting(fired), load.delayNanos);
          }
          written.set(batch + 1);
        }
        last.set(batch);
      } else {
        long hits = 0;
        for (long batch = 0;; batch++) {
          while (batch >= written.get() && batch < last.get()) {
            Thread.onSpinWait();
          }
          if (batch >= last.get()) {
            break;
          }
          Object[] handles = ring[(int) (batch % BATCHES)];
          for (int i = 0; i < A_BATCH; i++) {
            if (peer.cancel(handles[i])) {
              hits++;
            }
          }
          read.set(batch + 1);
        }
        cancelled[0] = hits;
      }
    });
    peer.close();
    long added = written.get() * A_BATCH;
    Main.check(cancelled[0] == added, "added " + added + ", cancelled " + cancelled[0]);
    Main.check(fired.sum() == 0, "a timer of " + load.delayNanos + " ns has fired");
    return added * 1e9 / took;
  }
}
