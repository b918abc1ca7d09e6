# SPDX-License-Identifier: Apache-2.0
"""What is measured once a second, its table, and what counts as flat."""

import os
import re
import statistics
import threading
import urllib.request

import paths  # pylint: disable=unused-import
from beanstalk import now

MIB = 1 << 20
LATENESS = re.compile(r'^carillon_job_lateness_seconds_bucket\{le="([^"]+)"\} (\d+)', re.M)
HEAD = ("  time   put/s  done/s   jobs    MiB  fds threads  disk MiB"
        "   p50 ms  p99 ms  seen p99")

# What may differ between the first and the last third of the samples after the warm-up. Memory:
# what an allocator and a store keep for themselves varies by some per cent; a leak of 100 bytes a
# job would be three times as much within ten minutes. Files: without the store's. Lateness is
# counted by powers of two.
MORE_MEMORY = 1.05
MORE_MEMORY_MIB = 4
MORE_DESCRIPTORS = 4
MORE_THREADS = 0
# Beside it, if this machine has kept a thread waiting for longer that wanted to run, that is added,
# once for each of the threads that a job passes on its way from a producer to a worker.
MORE_LATENESS = 2.0
HOPS = 4
MORE_LATENESS_MS = 5.0
MORE_DISK = 1.25
MORE_DISK_MIB = 16


def quantile(values, q):
    """Of a list, or 0 if there is nothing in it."""
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else 0.0


def quantile_of_buckets(buckets, q):
    """In milliseconds, within the bucket in proportion; `buckets` are (limit, count so far)."""
    total = buckets[-1][1] if buckets else 0
    below, before = 0.0, 0
    for limit, count in buckets:
        if total and count >= q * total and count > before:
            if limit == float("inf"):
                return below * 1000
            return (below + (limit - below) * (q * total - before) / (count - before)) * 1000
        below, before = limit, count
    return 0.0


class Sample:
    """One second."""

    def __init__(self, **values):
        self.__dict__.update(values)


class Sampler(threading.Thread):
    """Takes a sample a second; every so many are a line of the table."""

    def __init__(self, soak, every):
        super().__init__(daemon=True)
        self.server, self.ledger, self.http = soak.server, soak.ledger, soak.http
        self.every = every
        self.stop = threading.Event()
        self.begun = now()
        self.samples = []
        self.buckets = {}
        self.counts = {"put": 0, "done": 0}
        self.pulse = soak.pulse
        self.error = None

    def run(self):
        print(HEAD, flush=True)
        try:
            while not self.stop.wait(max(0.0, self.begun + len(self.samples) + 1 - now())):
                self.take()
                if len(self.samples) % self.every == 0:
                    print(self.line(self.samples[-self.every:]), flush=True)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def take(self):
        status = (self.server.proc() / "status").read_text()
        seen = self.ledger.take_late()
        p50, p99 = self.lateness()
        with self.ledger.lock:
            done = self.ledger.counts["done"] + self.ledger.counts["cancelled"]
            put, live = self.ledger.counts["put"], len(self.ledger.live)
        self.samples.append(Sample(
            at=now() - self.begun, put=put - self.counts["put"], done=done - self.counts["done"],
            live=live, memory=int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024,
            threads=int(re.search(r"Threads:\s+(\d+)", status)[1]),
            descriptors=self.descriptors(), disk=self.disk(), p50=p50, p99=p99,
            seen_p99=quantile(seen, 0.99) * 1000, kept_waiting=self.pulse.take() * 1000))
        self.counts = {"put": put, "done": done}

    def lateness(self):
        """p50 and p99 of what has become ready since the last sample, as the server counts it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        buckets = {float(limit.replace("+Inf", "inf")): int(count)
                   for limit, count in LATENESS.findall(text)}
        since = [(limit, count - self.buckets.get(limit, 0)) for limit, count in buckets.items()]
        self.buckets = buckets
        return quantile_of_buckets(since, 0.5), quantile_of_buckets(since, 0.99)

    def descriptors(self):
        """But for those of files in the folder, which the store opens and closes."""
        count, folder = 0, str(self.server.data)
        for path in (self.server.proc() / "fd").iterdir():
            try:
                count += not os.readlink(path).startswith(folder + "/")
            except FileNotFoundError:
                pass  # Closed meanwhile.
        return count

    def disk(self):
        total = 0
        for path in self.server.data.rglob("*"):
            try:
                total += path.stat().st_blocks * 512
            except FileNotFoundError:
                pass  # The store has just deleted it.
        return total

    @staticmethod
    def line(samples):
        def middle(name):
            return statistics.median(getattr(sample, name) for sample in samples)
        return (f"{samples[-1].at:6.0f}{middle('put'):8.0f}{middle('done'):8.0f}"
                f"{middle('live'):7.0f}{middle('memory') / MIB:7.1f}{middle('descriptors'):5.0f}"
                f"{middle('threads'):8.0f}{middle('disk') / MIB:10.1f}{middle('p50'):9.2f}"
                f"{middle('p99'):8.2f}{middle('seen_p99'):10.2f}")


def judge(samples, warm_up, slack_ms, check):
    """Compares the last third of the samples after the warm-up with the first."""
    samples = [sample for sample in samples if sample.at >= warm_up]
    third = len(samples) // 3
    if not check(third >= 3, f"{len(samples)} samples after {warm_up:.0f} s of warm-up"):
        return
    first, last = samples[:third], samples[-third:]

    median = statistics.median

    def flat(what, of, scale, unit, by, times, plus):
        before = by(getattr(sample, of) for sample in first) / scale
        after = by(getattr(sample, of) for sample in last) / scale
        check(after <= before * times + plus, f"{what}: {before:.1f}, then {after:.1f} {unit} "
              f"(at most {before * times + plus:.1f})")

    flat("memory", "memory", MIB, "MiB", median, MORE_MEMORY, MORE_MEMORY_MIB)
    flat("file descriptors", "descriptors", 1, "", median, 1, MORE_DESCRIPTORS)
    flat("threads", "threads", 1, "", median, 1, MORE_THREADS)
    flat("folder, at most", "disk", MIB, "MiB", max, MORE_DISK, MORE_DISK_MIB)
    kept_waiting = [median(sample.kept_waiting for sample in part) for part in (first, last)]
    print(f"  the machine kept a thread waiting for {kept_waiting[0]:.1f} ms at most in a second, "
          f"then {kept_waiting[1]:.1f} (medians)")
    more = MORE_LATENESS_MS + slack_ms + HOPS * max(0.0, kept_waiting[1] - kept_waiting[0])
    for name, of in (("lateness p50", "p50"), ("lateness p99", "p99"),
                     ("lateness p99 as workers see it", "seen_p99")):
        flat(name, of, 1, "ms", median, MORE_LATENESS, more)
    mean_at = statistics.fmean(sample.at for sample in samples)
    mean = statistics.fmean(sample.memory for sample in samples)
    rise = sum((sample.at - mean_at) * (sample.memory - mean) for sample in samples) / \
        sum((sample.at - mean_at) ** 2 for sample in samples)
    print(f"  memory by linear regression: {rise * 60 / MIB:+.2f} MiB a minute")
