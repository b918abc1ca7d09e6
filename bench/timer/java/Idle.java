// SPDX-License-Identifier: Apache-2.0

import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/** T5: one timer far away. */
final class Idle {
  private Idle() {}

  static void run(String name, Load load) throws Exception {
    // The JVM has threads of its own that tick; only those that come with the timer count.
    Map<String, Threads.Use> others = Threads.snapshot();
    Peer peer = Peer.make(name);
    LongAdder fired = new LongAdder();
    peer.add(new Counting(fired), TimeUnit.HOURS.toNanos(1));
    Thread.sleep((long) (load.seconds / 10 * 1e3)); // its threads come to rest
    Threads.Use before = sum(Threads.snapshot(), others);
    Thread.sleep((long) (load.seconds * 1e3));
    Threads.Use use = sum(Threads.snapshot(), others);
    use.add(before, -1);
    Main.check(peer.pending() == 1 && fired.sum() == 0, "the timer is not pending");
    peer.close();
    new Result().param("seconds", load.seconds).value("switches", use.switches)
        .value("cpu_us", use.cpuNanos / 1e3).print();
  }

  private static Threads.Use sum(Map<String, Threads.Use> all, Map<String, Threads.Use> others) {
    Threads.Use sum = new Threads.Use();
    all.forEach((id, use) -> {
      if (!others.containsKey(id)) {
        sum.add(use, 1);
      }
    });
    return sum;
  }
}
