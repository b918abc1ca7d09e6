// SPDX-License-Identifier: Apache-2.0
// The event stream: a `history` event first, then one `stats` event a second. Read by fetch and not
// by EventSource, which cannot send a token. When the connection is lost it is tried again, less
// and less often; a page that nobody looks at lets go of it after a while.

import {headers, on_unauthorized, url_of} from './api.js';

const kFirstRetryMs = 500;
const kLastRetryMs = 8000;
/** No event for this long: the connection is dead, though nobody said so. */
const kSilenceMs = 5000;
const kHiddenMs = 60_000;
export const kHistory = 300;

/** All that is drawn. `points` are [at_ms, puts, fired, deleted, p50, p99], one for each second. */
export const live = {state: 'connecting', stats: null, points: [], retry_at: 0, problem: ''};

const listeners = new Set();
let reading = null;  // AbortController of the stream that is read.
let retry_ms = kFirstRetryMs;
let retry_timer = 0;
let silence_timer = 0;
let hidden_timer = 0;

/** Calls `listener(live)` after each change; returns what ends that. */
export function subscribe(listener) {
  listeners.add(listener);
  if (live.stats) listener(live);
  return () => listeners.delete(listener);
}

function tell() {
  for (const listener of listeners) listener(live);
}

function set_state(state, problem = '') {
  live.state = state;
  live.problem = problem;
  tell();
}

/** The server's calendar, by its last event and the time since. */
export function now_ms() {
  return live.stats ? live.stats.at_ms + (performance.now() - live.received) : Date.now();
}

function point_of(stats) {
  return [stats.at_ms, stats.rates.puts, stats.rates.fired, stats.rates.deleted,
    stats.lateness_ms?.p50 ?? null, stats.lateness_ms?.p99 ?? null];
}

function on_event(name, text) {
  const value = JSON.parse(text);
  if (name === 'history') {
    live.points = value.points.slice(-kHistory);
  } else if (name === 'stats') {
    live.stats = value;
    live.received = performance.now();
    live.points.push(point_of(value));
    if (live.points.length > kHistory) live.points.shift();
    live.state = 'live';
    live.problem = '';
    retry_ms = kFirstRetryMs;
    tell();
  } else if (name === 'unavailable') {
    set_state('unavailable');
  }
}

function expect_event() {
  clearTimeout(silence_timer);
  silence_timer = setTimeout(() => reading?.abort(), kSilenceMs);
}

/** Takes the events out of the text received so far; returns the rest. */
function take_events(text) {
  let begin = 0;
  for (;;) {
    const end = text.indexOf('\n\n', begin);
    if (end < 0) return text.slice(begin);
    let name = 'message';
    const data = [];
    for (const line of text.slice(begin, end).split('\n')) {
      if (line.startsWith('event:')) name = line.slice(6).trim();
      if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
    }
    if (data.length > 0) on_event(name, data.join('\n'));
    begin = end + 2;
  }
}

async function read(signal) {
  const response = await fetch(url_of('events'), {
    headers: headers({Accept: 'text/event-stream'}), cache: 'no-store', signal,
  });
  if (response.status === 401 || response.status === 403) {
    set_state('denied', response.status === 401 ? 'A token is needed.'
      : 'This token does not allow it.');
    on_unauthorized.ask();
    return false;
  }
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) throw new Error('The server has ended the connection.');
    expect_event();
    text = take_events(text + value.replaceAll('\r', ''));
  }
}

/** Connects now, whether or not it is connected. */
export async function connect() {
  clearTimeout(retry_timer);
  reading?.abort();
  const mine = reading = new AbortController();
  expect_event();
  let again = true;
  try {
    again = await read(mine.signal);
  } catch (error) {
    if (reading !== mine) return;  // Another connection has taken over.
    live.problem = error.name === 'AbortError' ? 'The server is silent.' : error.message;
  }
  clearTimeout(silence_timer);
  if (reading !== mine || !again) return;
  // Spread, so that the pages of a whole team do not come back in the same moment.
  const wait = retry_ms * (0.75 + Math.random() / 2);
  retry_ms = Math.min(retry_ms * 2, kLastRetryMs);
  live.retry_at = Date.now() + wait;
  set_state('lost', live.problem);
  retry_timer = setTimeout(connect, wait);
}

function disconnect() {
  clearTimeout(retry_timer);
  clearTimeout(silence_timer);
  const old = reading;
  reading = null;
  old?.abort();
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(hidden_timer);
  if (document.hidden) {
    hidden_timer = setTimeout(disconnect, kHiddenMs);
  } else if (reading === null) {
    connect();
  }
});
globalThis.addEventListener('online', () => {
  if (live.state === 'lost') connect();
});
