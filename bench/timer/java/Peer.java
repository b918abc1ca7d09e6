// SPDX-License-Identifier: Apache-2.0

/** A timer of the JVM behind one interface. Only one is loaded in a process, so that calls are
 *  bound early. */
interface Peer {
  /** Schedules from any thread; returns what cancel() takes. */
  Object add(Task task, long delayNanos);

  /** Whether the task will never run. */
  boolean cancel(Object handle);

  /** How many the timer says it holds. */
  long pending();

  /** Waits until what add() left for later is done, and pending timers are where they stay. */
  default void settle() throws InterruptedException {}

  void close() throws InterruptedException;

  static Peer make(String name) {
    switch (name) {
      case "Netty":
        return new HashedWheelPeer(100, 512);
      case "Netty, 1 ms ticks":
        // A turn of 65 s: a timer of the workloads is visited once.
        return new HashedWheelPeer(1, 65_536);
      case "ScheduledThreadPool":
        return new ScheduledPoolPeer(false);
      case "ScheduledThreadPool, remove":
        return new ScheduledPoolPeer(true);
      case "DelayQueue":
        return new DelayQueuePeer(false);
      case "DelayQueue, remove":
        return new DelayQueuePeer(true);
      default:
        throw new IllegalArgumentException("no peer " + name);
    }
  }
}
