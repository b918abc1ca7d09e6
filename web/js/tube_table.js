// SPDX-License-Identifier: Apache-2.0
// The tubes as a table that sorts by its columns.

import {RowList, h, say} from './dom.js';
import {brief, count, duration} from './format.js';
import {link} from './router.js';

const by_number = (of) => (a, b) => (of(b) ?? -1) - (of(a) ?? -1);
const far_away = Number.MAX_SAFE_INTEGER;

/** Name, heading, order, class. What matters most stays on a narrow screen. */
const kColumns = [
  {key: 'name', label: 'Tube', order: (a, b) => a.name.localeCompare(b.name)},
  {key: 'ready', label: 'Ready', order: by_number((t) => t.ready), number: true},
  {key: 'oldest', label: 'Oldest', order: by_number((t) => t.oldest_ready_age_ms), number: true},
  {key: 'delayed', label: 'Delayed', order: by_number((t) => t.delayed), number: true},
  {key: 'next', label: 'Next due', number: true, spare: true,
    order: (a, b) => (a.next_due_in_ms ?? far_away) - (b.next_due_in_ms ?? far_away)},
  {key: 'reserved', label: 'Reserved', order: by_number((t) => t.reserved), number: true,
    spare: true},
  {key: 'buried', label: 'Buried', order: by_number((t) => t.buried), number: true},
  {key: 'waiting', label: 'Waiting', order: by_number((t) => t.waiting), number: true, spare: true,
    title: 'Workers that wait for a job'},
];

const kCounts = ['ready', 'delayed', 'reserved', 'buried', 'waiting'];

export class TubeTable {
  #sort = {key: 'ready', reverse: false};
  #heads = new Map();
  #list;
  #tubes = [];
  #most;

  /** At most `most` rows; `on_sort` is told what the reader sorts by. */
  constructor({most = Infinity, sort = null, on_sort = () => {}} = {}) {
    this.#most = most;
    if (sort && kColumns.some((column) => column.key === sort.key)) this.#sort = sort;
    const body = h('tbody');
    const head = h('tr', {}, kColumns.map((column) => {
      const cell = h('th', {scope: 'col', class: this.#class_of(column)},
        h('button', {class: 'sort', title: column.title, onclick: () => {
          const same = this.#sort.key === column.key;
          this.#sort = {key: column.key, reverse: same && !this.#sort.reverse};
          on_sort(this.#sort);
          this.#show();
        }}, column.label));
      this.#heads.set(column.key, cell);
      return cell;
    }));
    this.element = h('div', {class: 'table-box'}, h('table', {class: 'list tubes'},
      h('caption', {class: 'visually-hidden'}, 'Tubes'), h('thead', {}, head), body));
    this.#list = new RowList(body, (tube) => tube.name, (tube) => this.#make(tube));
  }

  update(tubes) {
    this.#tubes = tubes;
    this.#show();
  }

  #class_of(column) {
    return [column.number ? 'number' : '', column.spare ? 'spare' : ''].join(' ').trim() || null;
  }

  #show() {
    const {key, reverse} = this.#sort;
    for (const [name, cell] of this.#heads) {
      const descends = kColumns.find((c) => c.key === name).number && name !== 'next';
      if (name !== key) cell.removeAttribute('aria-sort');
      else cell.setAttribute('aria-sort', descends !== reverse ? 'descending' : 'ascending');
    }
    const order = kColumns.find((column) => column.key === key).order;
    const sorted = [...this.#tubes].sort((a, b) =>
      (reverse ? order(b, a) : order(a, b)) || a.name.localeCompare(b.name));
    this.#list.show(sorted.slice(0, this.#most));
  }

  #make(tube) {
    const paused = h('span', {class: 'badge', hidden: true}, 'paused');
    const cells = new Map(kColumns.map((column) =>
      [column.key, h(column.key === 'name' ? 'th' : 'td',
        {class: this.#class_of(column), scope: column.key === 'name' ? 'row' : null})]));
    cells.get('name').append(h('a', {href: link(['tubes', tube.name])}, tube.name), ' ', paused);
    const row = h('tr', {}, [...cells.values()]);
    const number = (key, value) => {
      const cell = cells.get(key);
      say(cell, brief(value));
      cell.classList.toggle('none', !value);
      if (value >= 10_000) cell.title = count(value);
    };
    return {row, update: (now) => {
      paused.hidden = !(now.pause_left_ms > 0);
      for (const key of kCounts) number(key, now[key]);
      cells.get('buried').classList.toggle('alarm', now.buried > 0);
      say(cells.get('oldest'), now.ready > 0 ? duration(now.oldest_ready_age_ms) : '–');
      cells.get('oldest').classList.toggle('none', !(now.ready > 0));
      const next = now.next_due_in_ms;
      say(cells.get('next'), next === null || next === undefined ? '–'
        : next <= 0 ? 'now' : duration(next));
      cells.get('next').classList.toggle('none', next === null || next === undefined);
    }};
  }
}
