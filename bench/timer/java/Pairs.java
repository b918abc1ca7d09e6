// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.atomic.LongAdder;

/** T3: add and cancel, by each thread its own. */
final class Pairs {
  private static final int A_BATCH = 256;
  private static final double COMPILE_SECONDS = 0.4;

  private Pairs() {}

  static void run(String name, Load load) throws Exception {
    // Until the compiler is done with it, with two threads: so it learns of contention too.
    long compiling = (long) (Math.min(COMPILE_SECONDS, load.seconds) * 1e9);
    measure(name, load, 1, compiling / 2, 0);
    measure(name, load, 2, compiling / 2, 0);
    for (int threads : load.threads) {
      System.gc();
      double rate = measure(name, load, threads, load.nanos(), load.pending);
      new Result().param("threads", threads).param("pending", load.pending)
          .value("m_pairs_per_s", rate / 1e6).value("pair_ns", 1e9 / rate).print();
    }
  }

  /** Pairs a second. */
  private static double measure(String name, Load load, int threads, long nanos, int pending)
      throws Exception {
    Peer peer = Peer.make(name);
    LongAdder fired = new LongAdder();
    LongAdder cancelled = new LongAdder();
    LongAdder added = new LongAdder();
    Adding.fill(peer, fired, pending, load.delayNanos);
    peer.settle();
    long took = Threads.together(threads, index -> {
      long pairs = 0;
      long hits = 0;
      long end = System.nanoTime() + nanos;
      while (System.nanoTime() < end) {
        for (int i = 0; i < A_BATCH; i++) {
          Object handle = peer.add(new Counting(fired), load.delayNanos);
          if (peer.cancel(handle)) {
            hits++;
          }
        }
        pairs += A_BATCH;
      }
      added.add(pairs);
      cancelled.add(hits);
    });
    peer.close();
    Main.check(cancelled.sum() == added.sum(),
        "added " + added.sum() + ", cancelled " + cancelled.sum());
    Main.check(fired.sum() == 0, "a timer of " + load.delayNanos + " ns has fired");
    return added.sum() * 1e9 / took;
  }
}
