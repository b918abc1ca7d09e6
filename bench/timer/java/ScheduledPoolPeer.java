// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The JDK's pool with a heap of tasks, a thread for each core. */
final class ScheduledPoolPeer implements Peer {
  private final ScheduledThreadPoolExecutor pool =
      new ScheduledThreadPoolExecutor(Runtime.getRuntime().availableProcessors());

  /** `remove`: what is cancelled leaves the heap at once, and not when it would have been due. */
  ScheduledPoolPeer(boolean remove) {
    pool.setRemoveOnCancelPolicy(remove);
    pool.prestartAllCoreThreads();
  }

  @Override
  public Object add(Task task, long delayNanos) {
    return pool.schedule((Runnable) task, delayNanos, TimeUnit.NANOSECONDS);
  }

  @Override
  public boolean cancel(Object handle) {
    return ((Future<?>) handle).cancel(false);
  }

  @Override
  public long pending() {
    return pool.getQueue().size();
  }

  @Override
  public void close() throws InterruptedException {
    pool.shutdownNow();
    pool.awaitTermination(10, TimeUnit.SECONDS);
  }
}
