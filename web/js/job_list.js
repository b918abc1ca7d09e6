// SPDX-License-Identifier: Apache-2.0
// Jobs of one state, page by page, with a search; of one tube or of all.

import * as api from './api.js';
import {RowList, fill, h, say} from './dom.js';
import {brief, bytes, count, duration, exact_time, relative, time} from './format.js';
import {open_job} from './job_sheet.js';
import {now_ms} from './live.js';
import {kStates, row_of_job} from './model.js';

const kPageSize = 50;
const kTypingMs = 250;

/** Of these, the first that has jobs is what a list opens on. */
const kOpensOn = ['delayed', 'ready', 'buried', 'reserved'];

/** Searched for, by name in the address. */
const kFields = ['state', 'key', 'from', 'until', 'id'];

export class JobList {
  #tube;
  #query;
  #remember;
  #cursors = [null];  // Of the pages up to this one.
  #next = null;
  #rows;
  #asked = 0;
  #timer = 0;
  #abort = null;
  #states = new Map();
  #undecided;  // Whether the state is that of most use, once counts are known.
  #decided;  // Whether the address is to name it.

  #found = h('p', {class: 'count', role: 'status'});
  #problem = h('p', {class: 'problem', role: 'alert'});
  #empty = h('p', {class: 'empty', hidden: true});
  #head = h('tr');
  #table;
  #due_fields = [];
  #earlier = h('button', {onclick: () => this.#turn(-1)}, '‹ Earlier');
  #later = h('button', {onclick: () => this.#turn(1)}, 'Later ›');
  #again = h('button', {onclick: () => this.#load()}, 'Refresh');
  #body = h('tbody');

  /** `query` is what the address asks for; `remember(query)` is told when that changes. */
  constructor({tube, query, remember}) {
    this.#tube = tube;
    this.#remember = remember;
    this.#query = Object.fromEntries(kFields.map((name) => [name, query.get(name) ?? '']));
    // An address that says nothing leaves the choice to what there is.
    this.#undecided = kFields.every((name) => this.#query[name] === '');
    if (!kStates.includes(this.#query.state)) this.#query.state = 'delayed';
    this.#decided = query.get('state') === this.#query.state;
    this.#table = h('div', {class: 'table-box'}, h('table', {class: 'list jobs'},
      h('caption', {class: 'visually-hidden'}, 'Jobs'), h('thead', {}, this.#head), this.#body));
    this.#rows = new RowList(this.#body, (job) => job.id, (job) => this.#make(job));
    this.element = h('section', {class: 'panel flush job-list', 'aria-label': 'Jobs'},
      this.#search(), this.#problem, this.#table, this.#empty,
      h('footer', {class: 'pager'}, h('div', {class: 'buttons'}, this.#earlier, this.#later),
        this.#found, this.#again));
    this.#restart();
  }

  /** How many jobs there are of each state, for the buttons. */
  set_counts(counts) {
    for (const [state, number] of this.#states) say(number, brief(counts[state]));
    if (!this.#undecided) return;
    this.#undecided = false;
    const state = kOpensOn.find((one) => counts[one] > 0);
    if (state === undefined || state === this.#query.state) return;
    this.#query.state = state;
    this.element.querySelector(`input[value="${state}"]`).checked = true;
    this.#show_fields();
    this.#restart();
  }

  /** Loads the page that is shown again. */
  refresh() {
    return this.#load();
  }

  close() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    ++this.#asked;
  }

  #search() {
    const states = h('fieldset', {class: 'segments states', 'aria-label': 'State'},
      kStates.map((state) => {
        const number = h('b');
        this.#states.set(state, number);
        return h('label', {class: state}, h('input', {type: 'radio', name: 'state', value: state,
          checked: this.#query.state === state, onchange: () => this.#set('state', state)}),
        h('span', {}, state, ' ', number));
      }));
    const text = (name, label, more) => h('label', {class: `search-${name}`}, h('span', {}, label),
      h('input', {type: 'search', value: this.#query[name], spellcheck: 'false',
        autocomplete: 'off', ...more,
        oninput: (event) => this.#set(name, event.target.value.trim(), kTypingMs)}));
    this.#due_fields = [
      text('from', 'Due from', {type: 'datetime-local', step: '1'}),
      text('until', 'Due before', {type: 'datetime-local', step: '1'})];
    this.#show_fields();
    return h('form', {class: 'search', role: 'search', onsubmit: (event) => {
      event.preventDefault();
      this.#restart();
    }}, states, h('div', {class: 'search-fields'}, text('key', 'Key begins with'),
      text('id', 'Id', {inputmode: 'numeric'}), this.#due_fields));
  }

  /** Only what is delayed is due. */
  #show_fields() {
    for (const field of this.#due_fields) field.hidden = this.#query.state !== 'delayed';
  }

  #set(name, value, wait_ms = 0) {
    if (this.#query[name] === value) return;
    this.#query[name] = value;
    this.#undecided = false;
    if (name === 'state') this.#decided = true;
    this.#show_fields();
    const {state} = this.#query;
    this.#remember({...this.#query, state: state === 'delayed' && !this.#decided ? '' : state});
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#restart(), wait_ms);
  }

  #restart() {
    this.#cursors = [null];
    this.#load();
  }

  #turn(by) {
    if (by > 0) this.#cursors.push(this.#next);
    else this.#cursors.pop();
    this.#load().then(() => this.#table.scrollIntoView({block: 'nearest'}));
  }

  async #fetch(signal) {
    const {state, key, from, until, id} = this.#query;
    if (id !== '') {
      try {
        const job = await api.job(id);
        const here = this.#tube === null || job.tube === this.#tube;
        return {jobs: here ? [job] : []};
      } catch (error) {
        if (error.status === 404) return {jobs: []};
        throw error;
      }
    }
    const at = (text) => (text === '' || state !== 'delayed' ? null
      : new Date(text).toISOString());
    return api.list(this.#tube, {
      state, key_prefix: key, due_from: at(from), due_until: at(until), limit: kPageSize,
      cursor: this.#cursors[this.#cursors.length - 1],
    }, {signal});
  }

  async #load() {
    const mine = ++this.#asked;
    this.#abort?.abort();
    this.#abort = new AbortController();
    this.#table.setAttribute('aria-busy', 'true');
    let page;
    try {
      page = await this.#fetch(this.#abort.signal);
    } catch (error) {
      if (mine !== this.#asked || error.name === 'AbortError') return;
      this.#table.removeAttribute('aria-busy');
      fill(this.#problem, error.sentence ?? error.message);
      return;
    }
    if (mine !== this.#asked) return;
    this.#table.removeAttribute('aria-busy');
    fill(this.#problem);
    this.#show(page);
  }

  #show(page) {
    const jobs = page.jobs.map(row_of_job);
    this.#next = page.next ?? page.next_cursor ?? null;
    const by_id = this.#query.id !== '';
    const state = this.#query.state;
    fill(this.#head, this.#columns(by_id ? null : state).map((column) =>
      h('th', {scope: 'col', class: column.class}, column.label)));
    this.#rows = new RowList(fill(this.#body), (job) => job.id, (job) => this.#make(job));
    this.#rows.show(jobs);
    this.#table.hidden = jobs.length === 0;
    this.#empty.hidden = jobs.length > 0;
    const searched = this.#query.key || this.#query.from || this.#query.until;
    say(this.#empty, by_id ? 'There is no such job here.'
      : searched ? `No ${state} job is like that.` : `No job is ${state}.`);
    const before = (this.#cursors.length - 1) * kPageSize;
    say(this.#found, jobs.length === 0 ? ''
      : by_id ? 'one job' : `${count(before + 1)}–${count(before + jobs.length)}`);
    this.#earlier.disabled = this.#cursors.length <= 1;
    this.#later.disabled = this.#next === null;
    this.element.querySelector('.pager').hidden = jobs.length === 0 && this.#cursors.length <= 1;
  }

  /** What is worth a column depends on the state. */
  #columns(state) {
    const due = {label: 'Due', of: (job) => [h('span', {title: exact_time(job.due_ms)},
      time(job.due_ms)), ' ', h('small', {}, relative(job.due_ms, now_ms()))]};
    const left = {label: 'Reserved until', of: (job) => [time(job.reserved_until_ms), ' ',
      h('small', {}, relative(job.reserved_until_ms, now_ms()))]};
    const waits = {label: 'Age', class: 'number', of: (job) => duration(job.age_ms)};
    const of_state = {delayed: [due], ready: [waits], reserved: [left], buried: [waits]};
    return [
      {label: 'Id', of: (job) => h('a', {href: '#', role: 'button', 'aria-haspopup': 'dialog',
        onclick: (event) => {
          event.preventDefault();
          this.open(job.id);
        }}, job.id)},
      this.#tube === null ? {label: 'Tube', class: 'text', of: (job) => job.tube} : null,
      {label: 'Key', class: 'text', of: (job) => job.key ?? h('span', {class: 'none'}, '–')},
      ...(of_state[state] ?? [{label: 'State', of: (job) => job.state}]),
      {label: 'Priority', class: 'number spare', of: (job) => count(job.priority)},
      {label: 'Attempts', class: 'number', of: (job) => (job.max_attempts
        ? `${job.attempt} of ${job.max_attempts}` : count(job.attempt))},
      {label: 'Size', class: 'number spare', of: (job) => bytes(job.size)},
    ].filter((column) => column !== null);
  }

  #make(job) {
    const columns = this.#columns(this.#query.id !== '' ? null : this.#query.state);
    const row = h('tr', {class: 'openable', onclick: (event) => {
      if (!event.target.closest('a, button') && getSelection().isCollapsed) this.open(job.id);
    }}, columns.map((column) => h('td', {class: column.class}, column.of(job))));
    return {row, update: () => {}};
  }

  open(id) {
    open_job(id, {changed: () => this.refresh()});
  }
}
