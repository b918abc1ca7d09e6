// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.atomic.LongAdder;

/** A task of a timer that is not to fire meanwhile. */
final class Counting extends Task {
  private final LongAdder fired;

  Counting(LongAdder fired) {
    this.fired = fired;
  }

  @Override
  public void run() {
    fired.increment();
  }
}
