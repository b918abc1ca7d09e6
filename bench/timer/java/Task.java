// SPDX-License-Identifier: Apache-2.0

import io.netty.util.Timeout;
import io.netty.util.TimerTask;

/** What a timer runs, in the form that each peer wants. */
abstract class Task implements Runnable, TimerTask {
  @Override
  public final void run(Timeout timeout) {
    run();
  }
}
