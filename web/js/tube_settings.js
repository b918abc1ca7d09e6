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
  fill(place, h('header', {}, h('h2', {}, 'Settings'), change),
    h('dl', {class: 'facts'}, facts_of(settings, tube.webhook).map(([label, value]) =>
      h('div', {}, h('dt', {}, label), h('dd', {}, value)))));
}

function facts_of(settings, state) {
  const facts = [['Most jobs', settings.max_jobs ? count(settings.max_jobs) : 'no limit']];
  const hook = settings.webhook;
  if (!hook) {
    facts.push(['Webhook', 'none: workers reserve']);
    return facts;
  }
  facts.push(['Webhook', hook.url]);
  for (const [field, value] of Object.entries(hook)) {
    if (field === 'url' || field === 'secret' || value === null) continue;
    facts.push([words_of(field), typeof value === 'object' ? JSON.stringify(value)
      : field.endsWith('_ms') ? duration(value) : String(value)]);
  }
  for (const [field, value] of Object.entries(state ?? {})) {
    if (value === null || value === '') continue;
    facts.push([words_of(field), typeof value === 'object' ? JSON.stringify(value)
      : field.endsWith('_ms') ? duration(value) : String(value)]);
  }
  return facts;
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
