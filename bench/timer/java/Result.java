// SPDX-License-Identifier: Apache-2.0

import java.util.Locale;

/** A line of results, as bench_timer reads it. */
final class Result {
  private final StringBuilder params = new StringBuilder();
  private final StringBuilder values = new StringBuilder();
  private final StringBuilder lateness = new StringBuilder();

  Result param(String name, double value) {
    field(params, name, value);
    return this;
  }

  Result value(String name, double value) {
    field(values, name, value);
    return this;
  }

  /** Of each timer that fired, in ns. */
  Result lateness(long[] nanos) {
    for (long late : nanos) {
      lateness.append(lateness.length() == 0 ? "" : ",").append(late);
    }
    return this;
  }

  void print() {
    System.out.println("{\"bench\":\"\",\"cell\":\"\",\"peer\":\"\",\"rep\":0,\"params\":{" + params
        + "},\"values\":{" + values + "},\"lateness_ns\":[" + lateness + "]}");
  }

  private static void field(StringBuilder fields, String name, double value) {
    if (fields.length() > 0) {
      fields.append(',');
    }
    fields.append('"').append(name).append("\":");
    fields.append(String.format(Locale.ROOT, "%.6f", value));
  }
}
