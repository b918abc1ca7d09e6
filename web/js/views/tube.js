// SPDX-License-Identifier: Apache-2.0
// One tube: how it is, its jobs, its settings.

import * as api from '../api.js';
import {ask, wrong} from '../dialogs.js';
import {fill, h, say} from '../dom.js';
import {brief, count, duration, parse_duration, plural} from '../format.js';
import {JobList} from '../job_list.js';
import {empty_tube, row_of_tube} from '../model.js';
import {attempt, done, failed} from '../notices.js';
import {here, link, note} from '../router.js';
import {show_settings} from '../tube_settings.js';

const kRefreshMs = 2000;

export function show_tube(main, name) {
  document.title = `${name} · carillon`;
  const list = new JobList({tube: name, query: here().query,
    remember: (query) => note(['tubes', name], query)});
  const facts = h('dl', {class: 'tiles small'});
  const badge = h('span', {class: 'badge', hidden: true});
  const settings = h('section', {class: 'panel', 'aria-label': 'Settings'});
  let tube = null;

  const pause = h('button', {onclick: () => (tube?.pause_left_ms > 0 ? resume() : ask_pause())});
  const kick = h('button', {onclick: ask_kick}, 'Kick …');
  const clear = h('button', {class: 'danger', onclick: ask_clear}, 'Clear …');
  const put = h('button', {class: 'primary', onclick: ask_put}, 'Put a job …');
  say(pause, 'Pause …');

  main.append(
    h('nav', {class: 'crumbs', 'aria-label': 'Where'}, h('a', {href: link(['tubes'])}, 'Tubes')),
    h('div', {class: 'page-head'}, h('h1', {class: 'name'}, name), badge,
      h('div', {class: 'buttons'}, put, pause, kick, clear)),
    facts, list.element, settings);

  const after = async (text) => {
    done(text);
    await Promise.all([refresh(), list.refresh()]);
  };

  function resume() {
    attempt(pause, async () => {
      await api.resume(name);
      await after(`${name} goes on.`);
    });
  }

  async function ask_pause() {
    let length = 0;
    const paused = await ask({
      title: `Pause ${name}`, action: 'Pause',
      text: 'No job of this tube is given out meanwhile. Put goes on, and so does the time.',
      fields: [{name: 'for_ms', label: 'For', value: '10 min', required: true,
        hint: 'A length of time, such as 90 s, 10 min or 2 h.'}],
      submit: async (values) => {
        length = parse_duration(values.for_ms);
        if (!length) throw wrong('for_ms', 'This is not a length of time.');
        await api.pause(name, length);
      },
    });
    if (paused) await after(`${name} is paused for ${duration(length)}.`);
  }

  async function ask_kick() {
    let kicked = 0;
    const worked = await ask({
      title: `Kick jobs of ${name}`, action: 'Kick',
      text: 'Buried jobs become ready; if none is buried, delayed ones.',
      fields: [{name: 'count', label: 'At most', type: 'number', value: '100', min: '1',
        required: true}],
      submit: async (values) => {
        kicked = (await api.kick(name, Number(values.count))).kicked;
      },
    });
    if (worked) await after(`${plural(kicked, 'job')} kicked.`);
  }

  async function ask_clear() {
    let cleared = 0;
    const number = (state) => (tube ? ` (${count(tube[state])})` : '');
    const states = ['delayed', 'ready', 'buried'];
    const worked = await ask({
      title: `Clear ${name}`, action: 'Delete these jobs', danger: true,
      text: 'Deleted jobs cannot be brought back. What workers hold stays.',
      fields: [
        ...states.map((state) => ({name: state, label: `${state}${number(state)}`,
          type: 'checkbox', value: false})),
        {name: 'name', label: `Type the name of the tube to confirm: ${name}`, required: true},
      ],
      submit: async (values) => {
        const wanted = states.filter((state) => values[state]);
        if (wanted.length === 0) throw wrong('delayed', 'Choose which jobs.');
        if (values.name !== name) throw wrong('name', 'This is not the name of the tube.');
        cleared = (await api.clear(name, wanted)).cleared;
      },
    });
    if (worked) await after(`${plural(cleared, 'job')} deleted.`);
  }

  async function ask_put() {
    let id = '';
    const worked = await ask({
      title: `Put a job into ${name}`, action: 'Put',
      fields: [
        {name: 'body', label: 'Body', type: 'textarea', rows: 4},
        {name: 'content_type', label: 'Content type', value: 'application/json'},
        {name: 'delay_ms', label: 'Delay', value: '0', hint: 'Such as 90 s, 10 min or 2 h.'},
        {name: 'key', label: 'Key', hint: 'A name of your choice, or nothing.'},
      ],
      submit: async (values) => {
        const delay_ms = parse_duration(values.delay_ms || '0');
        if (delay_ms === null) throw wrong('delay_ms', 'This is not a length of time.');
        const job = {body: values.body, delay_ms};
        if (values.content_type) job.content_type = values.content_type;
        if (values.key) job.key = values.key;
        id = (await api.put(name, job)).id;
      },
    });
    if (worked) await after(`Job ${id} was put.`);
  }

  function show() {
    const paused = tube.pause_left_ms > 0;
    badge.hidden = !paused;
    say(badge, `paused for another ${duration(tube.pause_left_ms)}`);
    say(pause, paused ? 'Resume' : 'Pause …');
    const fact = (label, value, below, state) => h('div', {class: `tile ${state ?? ''}`},
      h('dt', {}, label), h('dd', {class: 'value'}, value), h('dd', {class: 'note'}, below));
    fill(facts,
      fact('Delayed', brief(tube.delayed), tube.delayed > 0 && tube.next_due_in_ms !== null
        ? `next in ${duration(tube.next_due_in_ms)}` : 'none is due', 'delayed'),
      fact('Ready', brief(tube.ready), tube.ready > 0
        ? `oldest ${duration(tube.oldest_ready_age_ms)}` : 'none waits', 'ready'),
      fact('Reserved', brief(tube.reserved), `${plural(tube.waiting ?? 0, 'worker')} waiting`,
        'reserved'),
      fact('Buried', brief(tube.buried), tube.buried > 0 ? 'need a look' : 'none',
        tube.buried > 0 ? 'buried alarm' : 'buried'),
      fact('Put', brief(tube.puts), 'since the start'),
      fact('Deleted', brief(tube.deleted), 'since the start'));
    list.set_counts(tube);
    show_settings(settings, name, tube, after);
  }

  let timer = 0;
  let closed = false;
  let told = false;
  async function refresh() {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const now = row_of_tube(await api.tube(name));
        if (closed) return;
        tube = now;
        told = false;
        show();
      } catch (error) {
        if (closed) return;
        if (error.status === 404) {
          tube = empty_tube(name);
          show();
        } else if (!told && error.status !== 0) {
          failed(error);
        }
        told = true;
      }
    }
    if (!closed) timer = setTimeout(refresh, kRefreshMs);
  }
  refresh();
  return () => {
    closed = true;
    clearTimeout(timer);
    list.close();
  };
}
