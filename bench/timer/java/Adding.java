// SPDX-License-Identifier: Apache-2.0

import java.util.Arrays;
import java.util.concurrent.atomic.LongAdder;

/** T1: adding many timers. */
final class Adding {
  private Adding() {}

  static void run(String name, Load load) throws Exception {
    int threads = load.threads[0];
    double cold = add(name, load.timers, threads, load.delayNanos);
    double[] warm = new double[load.rounds];
    for (int i = 0; i < load.rounds; i++) {
      System.gc();
      warm[i] = add(name, load.timers, threads, load.delayNanos);
    }
    Arrays.sort(warm);
    new Result().param("threads", threads).param("timers", load.timers)
        .value("cold_ms", cold).value("warm_ms", warm[load.rounds / 2]).print();
  }

  /** In ms. */
  static double add(String name, int timers, int threads, long delayNanos) throws Exception {
    Peer peer = Peer.make(name);
    LongAdder fired = new LongAdder();
    int share = timers / threads;
    long nanos = Threads.together(threads, index -> fill(peer, fired, share, delayNanos));
    long added = (long) share * threads;
    Main.check(peer.pending() == added, "added " + added + ", pending " + peer.pending());
    peer.close();
    Main.check(fired.sum() == 0, "a timer of " + delayNanos + " ns has fired");
    return nanos / 1e6;
  }

  static void fill(Peer peer, LongAdder fired, int timers, long delayNanos) {
    for (int i = 0; i < timers; i++) {
      peer.add(new Counting(fired), delayNanos);
    }
  }
}
