// SPDX-License-Identifier: Apache-2.0
// Delayed jobs by when they fall due: a table whose bars are logarithmic, so that ten jobs of the
// next second are seen beside a million of next week.

import {fill, h, say} from './dom.js';
import {brief, count, duration} from './format.js';

export class DueBars {
  #rows = [];
  #body = h('tbody');

  constructor() {
    this.element = h('table', {class: 'due-bars'},
      h('caption', {class: 'visually-hidden'}, 'Delayed jobs by when they fall due'), this.#body);
  }

  /** `classes` are [{until_ms or null, count}], the soonest first; `far` is not in them. */
  update(classes, far) {
    const all = [...classes.map((entry) => ({label: this.#label(entry), n: entry.count})),
      {label: 'far, in the store', n: far, far: true}];
    if (this.#rows.length !== all.length) this.#make(all);
    const most = Math.max(10, ...all.map((entry) => entry.n));
    all.forEach((entry, i) => {
      const row = this.#rows[i];
      say(row.label, entry.label);
      say(row.number, brief(entry.n));
      row.number.title = count(entry.n);
      const share = entry.n > 0 ? Math.log1p(entry.n) / Math.log1p(most) : 0;
      row.bar.style.inlineSize = `${(100 * share).toFixed(1)}%`;
    });
  }

  #label(entry) {
    return entry.until_ms === null ? 'later' : `within ${duration(entry.until_ms)}`;
  }

  #make(all) {
    this.#rows = all.map((entry) => {
      const label = h('th', {scope: 'row'});
      const bar = h('i', {class: entry.far ? 'bar far' : 'bar'});
      const number = h('td', {class: 'number'});
      return {label, bar, number,
        row: h('tr', {}, label, h('td', {class: 'bar-cell', 'aria-hidden': 'true'}, bar), number)};
    });
    fill(this.#body, this.#rows.map((row) => row.row));
  }
}
