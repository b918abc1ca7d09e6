// SPDX-License-Identifier: Apache-2.0
// Limits and webhook of a tube: shown, and changed as the JSON that the API takes.

import * as api from './api.js';
import {ask, wrong} from './dialogs.js';
import {fill, h} from './dom.js';
import {count, duration} from './format.js';

let shown = '';

/** Fills `place`, if anything is new: what somebody reads or has focused stays as it is. */
export function show_settings(place, name, tube, after) {
  const settings = tube.settings ?? {};
  const state = JSON.stringify([name, settings, tube.webhook]);
  if (shown === state && place.childElementCount > 0) return;
  shown = state;
  const change = h('button', {class: 'small', onclick: () => ask_settings(name, settings, after)},
    'Change …');
  const list = (facts) => h('dl', {class: 'facts'}, facts.map(([label, value]) =>
    h('div', {}, h('dt', {}, label), h('dd', {}, value))));
  fill(place, h('header', {}, h('h2', {}, 'Settings'), change),
    list(facts_of(settings, tube.webhook)),
    tube.webhook
      ? [h('h3', {class: 'part'}, 'The webhook now'), list(state_of(tube.webhook))] : null);
}

/** Backoff, rate: "base 1 s, cap 1 h". */
const members_of = (object) => Object.entries(object).map(([name, value]) =>
  `${words_of(name).toLowerCase()} ${text_of(name, value)}`).join(', ');

function text_of(field, value) {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return members_of(value) || 'none';
  return field.endsWith('_ms') ? duration(value)
    : typeof value === 'number' ? count(value) : String(value);
}

function facts_of(settings, state) {
  const facts = [['Most jobs', settings.max_jobs ? count(settings.max_jobs) : 'no limit']];
  const hook = settings.webhook;
  // Its settings are shown to the role admin only; how it is doing, to all.
  if (!hook) return [...facts, ['Webhook', state ? 'there is one' : 'none: workers reserve']];
  facts.push(['Webhook', hook.url]);
  for (const [field, value] of Object.entries(hook)) {
    if (field !== 'url' && value !== null) facts.push([words_of(field), text_of(field, value)]);
  }
  return facts;
}

/** How the webhook fares: each [member, its words, how it is said]. Unknown members follow. */
const kStateWords = [
  ['in_flight', 'Posts on their way'],
  ['concurrency_now', 'At most at present'],
  ['waits_for_connection', 'Waits for a connection'],
  ['delivered', 'Jobs delivered'],
  ['failed_attempts', 'Attempts that failed'],
  ['failures_in_row', 'Failures in a row'],
  ['buried', 'Jobs buried so far'],
  ['paused_for_ms', 'Paused for another'],
  ['last_ago_ms', 'Last post', (value) => `${duration(value)} ago`],
  ['last_outcome', 'It was'],
  ['last_status', 'Status'],
  ['last_error', 'Error'],
  ['secrets', 'Secrets set'],
  ['headers', 'Headers set'],
];

function state_of(state) {
  const is_there = (value) => value !== null && value !== undefined && value !== '';
  const known = new Set(kStateWords.map(([field]) => field));
  const others = Object.keys(state).filter((field) => !known.has(field))
    .map((field) => [field, words_of(field)]);
  return [...kStateWords, ...others].filter(([field]) => is_there(state[field]))
    .map(([field, words, say]) => [words, say ? say(state[field]) : text_of(field, state[field])]);
}

/** "max_in_flight" -> "Max in flight". */
export function words_of(field) {
  const text = field.replace(/_(ms|bytes)$/, '').replaceAll('_', ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

async function ask_settings(name, settings, after) {
  const changed = await ask({
    title: `Settings of ${name}`, action: 'Save',
    text: 'As the API takes them: max_jobs, webhook. An empty object has the defaults.',
    fields: [{name: 'settings', label: 'Settings (JSON)', type: 'textarea', rows: 12,
      value: JSON.stringify(settings, null, 2)}],
    submit: async (values) => {
      let wanted;
      try {
        wanted = JSON.parse(values.settings);
      } catch (error) {
        throw wrong('settings', error.message);
      }
      await api.set_settings(name, wanted);
    },
  });
  if (changed) await after(`The settings of ${name} are changed.`);
}
