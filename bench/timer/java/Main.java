// SPDX-License-Identifier: Apache-2.0

import java.util.HashMap;
import java.util.Map;

/** The timers of the JVM under the workloads of docs/internals/benchmarks.md: `Main WORKLOAD PEER
 *  NAME=VALUE...`. Prints a line of JSON for each cell; run by bench_timer. */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    Map<String, String> words = new HashMap<>();
    for (int i = 2; i < args.length; i++) {
      int at = args[i].indexOf('=');
      words.put(args[i].substring(0, at), args[i].substring(at + 1));
    }
    Load load = new Load(words);
    String peer = args[1];
    switch (args[0]) {
      case "T1":
        Adding.run(peer, load);
        break;
      case "T2":
        Memory.perTimer(peer, load);
        break;
      case "T3":
        Pairs.run(peer, load);
        break;
      case "T4":
        Lateness.run(peer, load);
        break;
      case "T5":
        Idle.run(peer, load);
        break;
      case "T6":
        Elsewhere.run(peer, load);
        break;
      case "T8":
        Memory.flat(peer, load);
        break;
      default:
        throw new IllegalArgumentException("no workload " + args[0]);
    }
    System.exit(0); // whatever threads a peer has left
  }

  /** Ends the run unless what was timed is what was done. */
  static void check(boolean done, String what) {
    if (!done) {
      throw new IllegalStateException(what);
    }
  }
}
