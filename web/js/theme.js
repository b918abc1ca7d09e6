// SPDX-License-Identifier: Apache-2.0
// Light, dark, or what the system says.

import {fill, h} from './dom.js';

const kKey = 'carillon.theme';
const kThemes = [
  ['system', 'As the system', '◐'],
  ['light', 'Light', '☀'],
  ['dark', 'Dark', '☾'],
];
const listeners = new Set();

/** Called when the colours change, by choice or by the system. */
export function on_theme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell() {
  for (const listener of listeners) listener();
}

function chosen() {
  return document.documentElement.dataset.theme ?? 'system';
}

function choose(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === 'system') localStorage.removeItem(kKey);
    else localStorage.setItem(kKey, theme);
  } catch {
    // Storage is forbidden: it holds for this page.
  }
  tell();
}

export function mount_theme_switch(place) {
  fill(place, h('fieldset', {class: 'segments', 'aria-label': 'Theme'},
    kThemes.map(([theme, label, sign]) => h('label', {title: label},
      h('input', {type: 'radio', name: 'theme', value: theme, checked: chosen() === theme,
        'aria-label': label, onchange: () => choose(theme)}),
      h('span', {'aria-hidden': 'true'}, sign)))));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', tell);
}
