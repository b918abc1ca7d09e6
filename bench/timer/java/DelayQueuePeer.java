// SPDX-License-Identifier: Apache-2.0

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;

/** The JDK's DelayQueue and a thread that takes from it. */
final class DelayQueuePeer implements Peer {
  private static final int PENDING = 0;
  private static final int FIRED = 1;
  private static final int CANCELLED = 2;

  private static final VarHandle STATE;

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Element.class, "state", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private static final class Element implements Delayed {
    final long deadline;
    Task task;
    volatile int state;

    Element(long deadline, Task task) {
      this.deadline = deadline;
      this.task = task;
    }

    @Override
    public long getDelay(TimeUnit unit) {
      return unit.convert(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
    }

    @Override
    public int compareTo(Delayed other) {
      return Long.signum(deadline - ((Element) other).deadline);
    }
  }

  private final DelayQueue<Element> queue = new DelayQueue<>();
  private final boolean remove;
  private final Thread taker = new Thread(this::take, "taker");

  /** `remove`: what is cancelled is searched for and taken out; otherwise it is marked, and let go
   *  when it would have been due. */
  DelayQueuePeer(boolean remove) {
    this.remove = remove;
    taker.start();
  }

  @Override
  public Object add(Task task, long delayNanos) {
    Element element = new Element(System.nanoTime() + delayNanos, task);
    queue.add(element);
    return element;
  }

  @Override
  public boolean cancel(Object handle) {
    Element element = (Element) handle;
    if (!STATE.compareAndSet(element, PENDING, CANCELLED)) {
      return false;
    }
    element.task = null;
    if (remove) {
      queue.remove(element);
    }
    return true;
  }

  @Override
  public long pending() {
    return queue.size();
  }

  @Override
  public void close() throws InterruptedException {
    taker.interrupt();
    taker.join();
  }

  private void take() {
    try {
      while (true) {
        Element element = queue.take();
        Task task = element.task;
        if (STATE.compareAndSet(element, PENDING, FIRED)) {
          task.run();
        }
      }
    } catch (InterruptedException e) {
      // closed
    }
  }
}
