// SPDX-License-Identifier: Apache-2.0

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Netty's timer, without its leak detection. Callbacks run on its one thread. */
final class HashedWheelPeer implements Peer {
  /** What its thread moves from the queue of new timers to the wheel in a tick. */
  private static final long MOVED_A_TICK = 100_000;

  private final HashedWheelTimer timer;
  private final long tickMillis;
  private long settled;

  HashedWheelPeer(long tickMillis, int slots) {
    this.tickMillis = tickMillis;
    timer = new HashedWheelTimer(Executors.defaultThreadFactory(), tickMillis,
        TimeUnit.MILLISECONDS, slots, false);
    timer.start();
  }

  @Override
  public Object add(Task task, long delayNanos) {
    return timer.newTimeout(task, delayNanos, TimeUnit.NANOSECONDS);
  }

  @Override
  public boolean cancel(Object handle) {
    return ((Timeout) handle).cancel();
  }

  @Override
  public long pending() {
    return timer.pendingTimeouts();
  }

  @Override
  public void settle() throws InterruptedException {
    long fresh = pending() - settled;
    if (fresh > 0) {
      Thread.sleep((fresh / MOVED_A_TICK + 3) * tickMillis);
    }
    settled = pending();
  }

  @Override
  public void close() {
    timer.stop();
  }
}
