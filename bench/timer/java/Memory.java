// SPDX-License-Identifier: Apache-2.0

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.concurrent.atomic.LongAdder;

/** T2 and T8: the heap in use after a collection, which is kinder than the resident memory. */
final class Memory {
  private Memory() {}

  /** T2: a timer that waits. */
  static void perTimer(String name, Load load) throws Exception {
    Adding.add(name, 20_000, 1, load.delayNanos);
    long before = used();
    Peer peer = Peer.make(name);
    LongAdder fired = new LongAdder();
    Adding.fill(peer, fired, load.timers, load.delayNanos);
    peer.settle();
    double bytes = (double) (used() - before) / load.timers;
    Main.check(peer.pending() == load.timers, "pending " + peer.pending());
    Main.check(fired.sum() == 0, "a timer has fired");
    peer.close();
    new Result().param("timers", load.timers).value("bytes", bytes).print();
  }

  /** T8: adding and cancelling at an even rate. */
  static void flat(String name, Load load) throws Exception {
    Peer peer = Peer.make(name);
    LongAdder fired = new LongAdder();
    long all = (long) (load.rate * load.seconds);
    long base = 0;
    long cancelled = 0;
    long begin = System.nanoTime();
    for (long done = 0; done < all;) {
      long due = Math.min(all, (long) ((System.nanoTime() - begin) / 1e9 * load.rate));
      for (; done < due; done++) {
        if (peer.cancel(peer.add(new Counting(fired), load.delayNanos))) {
          cancelled++;
        }
      }
      if (base == 0 && done >= all / 10) {
        base = used();
      }
      Thread.sleep(1);
    }
    double seconds = (System.nanoTime() - begin) / 1e9;
    double grown = used() - base;
    Main.check(cancelled == all, "added " + all + ", cancelled " + cancelled);
    Main.check(fired.sum() == 0, "a timer has fired");
    peer.close();
    new Result().param("rate", load.rate).param("seconds", load.seconds)
        .value("grown_mib", grown / (1 << 20)).value("bytes_per_pair", grown / (0.9 * all))
        .value("k_pairs_per_s", all / seconds / 1e3).print();
  }

  /** Of the heap, right after a collection: a thread takes megabytes at a time afterwards. */
  private static long used() throws InterruptedException {
    System.gc();
    Thread.sleep(20);
    System.gc();
    long used = 0;
    for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
      if (pool.getType() == MemoryType.HEAP) {
        used += pool.getCollectionUsage().getUsed();
      }
    }
    return used;
  }
}
