// SPDX-License-Identifier: Apache-2.0

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** T4: how late timers fire, and what CPU that takes. */
final class Lateness {
  private static final double COMPILE_SECONDS = 0.4;

  private static final class Recording extends Task {
    private final Run run;
    private final int index;

    Recording(Run run, int index) {
      this.run = run;
      this.index = index;
    }

    @Override
    public void run() {
      run.firedAt[index] = System.nanoTime();
      run.times[index]++;
      if (run.left.decrementAndGet() == 0) {
        run.done.countDown();
      }
    }
  }

  /** One schedule, and when each of its timers fired. */
  private static final class Run {
    final long[] due;
    final long[] firedAt;
    final byte[] times;
    final AtomicInteger left;
    final CountDownLatch done = new CountDownLatch(1);
    long cpuNanos;

    Run(int timers) {
      due = new long[timers];
      firedAt = new long[timers];
      times = new byte[timers];
      left = new AtomicInteger(timers);
    }

    void run(Peer peer, double seconds) throws InterruptedException {
      OperatingSystemMXBean system =
          (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
      long cpuBefore = system.getProcessCpuTime();
      Random random = new Random(5);
      // Adding ends before the first is due.
      long begin = System.nanoTime() + (long) (seconds / 10 * 1e9);
      for (int i = 0; i < due.length; i++) {
        long planned = begin + (long) (random.nextDouble() * seconds * 1e9);
        long now = System.nanoTime();
        due[i] = Math.max(planned, now);
        peer.add(new Recording(this, i), due[i] - now);
      }
      boolean all = done.await((long) (seconds * 1e9) + 20_000_000_000L, TimeUnit.NANOSECONDS);
      cpuNanos = system.getProcessCpuTime() - cpuBefore;
      Main.check(all, left.get() + " of " + due.length + " timers have not fired");
      for (byte count : times) {
        Main.check(count == 1, "a timer fired " + count + " times");
      }
    }
  }

  private Lateness() {}

  static void run(String name, Load load) throws Exception {
    double compiling = Math.min(COMPILE_SECONDS, load.seconds);
    Peer first = Peer.make(name);
    new Run((int) (load.timers * compiling / load.seconds)).run(first, compiling);
    first.close();
    System.gc();
    Peer peer = Peer.make(name);
    Run run = new Run(load.timers);
    run.run(peer, load.seconds);
    peer.close();
    long[] late = new long[load.timers];
    for (int i = 0; i < late.length; i++) {
      late[i] = run.firedAt[i] - run.due[i];
    }
    new Result().param("timers", load.timers).param("seconds", load.seconds)
        .value("cpu_ms", run.cpuNanos / 1e6).lateness(late).print();
  }
}
