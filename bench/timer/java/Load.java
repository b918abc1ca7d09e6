// SPDX-License-Identifier: Apache-2.0

import java.util.Arrays;
import java.util.Map;

/** How much a workload does: what follows its name on the command line. */
final class Load {
  final int timers;
  final int[] threads;
  final int pending;
  final int rounds;
  final double seconds;
  final double rate;
  final long delayNanos;

  Load(Map<String, String> words) {
    timers = (int) number(words, "timers");
    threads = Arrays.stream(words.get("threads").split(",")).mapToInt(Integer::parseInt).toArray();
    pending = (int) number(words, "pending");
    rounds = (int) number(words, "rounds");
    seconds = number(words, "seconds");
    rate = number(words, "rate");
    delayNanos = (long) (number(words, "delay_s") * 1e9);
  }

  long nanos() {
    return (long) (seconds * 1e9);
  }

  private static double number(Map<String, String> words, String name) {
    String text = words.get(name);
    if (text == null) {
      throw new IllegalArgumentException("no " + name);
    }
    return Double.parseDouble(text);
  }
}
