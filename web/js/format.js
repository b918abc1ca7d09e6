// SPDX-License-Identifier: Apache-2.0
// Numbers and times as people read them. Missing values are shown as a dash.

const kDash = '–';
const kThinSpace = '\u202f';
const whole = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23',
});
const day = new Intl.DateTimeFormat(undefined, {month: 'short', day: 'numeric'});
const day_and_year = new Intl.DateTimeFormat(undefined,
  {year: 'numeric', month: 'short', day: 'numeric'});
const exact = new Intl.DateTimeFormat(undefined, {
  dateStyle: 'medium', timeStyle: 'long', hourCycle: 'h23',
});

const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** 1234567 -> "1 234 567", in the reader's grouping. */
export const count = (value) => (known(value) ? whole.format(value) : kDash);

/** At most four digits: 999, 12.4 k, 3.25 M. */
export function brief(value) {
  if (!known(value)) return kDash;
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (value < size * (unit === 'k' ? 10 : 1)) continue;
    const scaled = value / size;
    return scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0) + kThinSpace + unit;
  }
  return whole.format(value);
}

/** A rate a second. */
export const rate = (value) =>
  known(value) && value > 0 && value < 10 ? value.toFixed(1) : brief(value);

/** A length of time with the two units that matter: "850 ms", "3.2 s", "4 min 10 s", "2 d 3 h". */
export function duration(ms) {
  if (!known(ms)) return kDash;
  const length = Math.abs(ms);
  if (length < 1) return length === 0 ? '0 ms' : `${length.toFixed(1)} ms`;
  if (length < 1000) return `${length < 10 ? trim(length.toFixed(1)) : Math.round(length)} ms`;
  if (length < 60_000) return `${trim((length / 1000).toFixed(length < 10_000 ? 1 : 0))} s`;
  const units = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000]];
  const first = units.findIndex(([, size]) => length >= size);
  const [unit, size] = units[first];
  const text = `${whole.format(Math.floor(length / size))} ${unit}`;
  const next = units[first + 1];
  const rest = next ? Math.floor((length % size) / next[1]) : 0;
  return rest > 0 ? `${text} ${rest} ${next[0]}` : text;
}

const trim = (text) => text.replace(/\.0$/, '');

/** "in 4 min", "3 s ago", seen from `now_ms`. */
export function relative(at_ms, now_ms) {
  if (!known(at_ms)) return kDash;
  const left = at_ms - now_ms;
  if (Math.abs(left) < 1000) return 'now';
  return left > 0 ? `in ${duration(left)}` : `${duration(left)} ago`;
}

/** A point in time in the reader's zone; the day and the year only if they are not today's. */
export function time(at_ms) {
  if (!known(at_ms)) return kDash;
  const at = new Date(at_ms);
  const now = new Date();
  if (at.toDateString() === now.toDateString()) return clock.format(at);
  const date = at.getFullYear() === now.getFullYear() ? day : day_and_year;
  return `${date.format(at)}, ${clock.format(at)}`;
}

/**
 * The same by the clocks of `zone` (null: the reader's), which it names; by the reader's if the
 * browser does not know that zone.
 */
export function time_in(at_ms, zone) {
  if (!known(at_ms)) return kDash;
  const options = {month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit',
    second: '2-digit', hourCycle: 'h23', timeZoneName: 'short'};
  const is_now = new Date(at_ms).getFullYear() === new Date().getFullYear();
  if (!is_now) options.year = 'numeric';
  try {
    return new Intl.DateTimeFormat(undefined, {...options, timeZone: zone ?? undefined})
      .format(new Date(at_ms));
  } catch {
    return new Intl.DateTimeFormat(undefined, options).format(new Date(at_ms));
  }
}

/** With the date, the seconds and the zone: for titles. */
export const exact_time = (at_ms) => (known(at_ms) ? exact.format(new Date(at_ms)) : '');

export function bytes(value) {
  if (!known(value)) return kDash;
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (value >= size) return `${trim((value / size).toFixed(value < size * 100 ? 1 : 0))} ${unit}`;
  }
  return `${whole.format(value)} B`;
}

/** Milliseconds of an API time: RFC 3339 text or an integer. */
export function instant(value) {
  if (!known(value)) return null;
  const ms = typeof value === 'number' ? value : Date.parse(value);
  return Number.isNaN(ms) ? null : ms;
}

/** "90", "90s", "10m", "1h30m", "2d" as milliseconds; null if it is none. Bare numbers: seconds. */
export function parse_duration(text) {
  const sizes = {ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000};
  const compact = text.replace(/\s+/g, '').toLowerCase();
  if (/^\d+(\.\d+)?$/.test(compact)) return Math.round(Number(compact) * 1000);
  if (!/^(\d+(\.\d+)?(ms|min|s|m|h|d))+$/.test(compact)) return null;
  let ms = 0;
  for (const [, number, , unit] of compact.matchAll(/(\d+(\.\d+)?)(ms|min|s|m|h|d)/g)) {
    ms += Number(number) * sizes[unit];
  }
  return Math.round(ms);
}

export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;
