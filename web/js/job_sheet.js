// SPDX-License-Identifier: Apache-2.0
// One job, beside the page: what it is, its body, and what can be done with it.

import * as api from './api.js';
import {body_view} from './body_view.js';
import {ask, wrong} from './dialogs.js';
import {fill, h} from './dom.js';
import {
  bytes, count, duration, exact_time, instant, parse_duration, relative, time,
} from './format.js';
import {now_ms} from './live.js';
import {row_of_job} from './model.js';
import {attempt, done} from './notices.js';
import {link} from './router.js';

/** `changed` is called after each action that did something. */
export function open_job(id, {changed = () => {}} = {}) {
  const content = h('div', {class: 'sheet-content'}, h('p', {class: 'empty'}, 'Loading …'));
  const title = h('h2', {id: 'sheet-title'}, `Job ${id}`);
  const sheet = h('dialog', {class: 'sheet', 'aria-labelledby': 'sheet-title'},
    h('header', {}, title,
      h('button', {class: 'bare', 'aria-label': 'Close', onclick: () => sheet.close()}, '×')),
    content);
  sheet.addEventListener('close', () => sheet.remove());
  sheet.addEventListener('click', (event) => {
    if (event.target === sheet) sheet.close();  // The backdrop.
  });
  document.body.append(sheet);
  sheet.showModal();

  async function load() {
    let job;
    try {
      job = row_of_job(await api.job(id));
    } catch (error) {
      fill(content, h('p', {class: 'empty'},
        error.status === 404 ? 'This job is gone: it was deleted.' : error.sentence));
      return;
    }
    const body = h('div', {}, h('p', {class: 'empty'}, 'Loading …'));
    fill(content, facts_of(job), actions(job), h('h3', {}, 'Body'), body);
    try {
      fill(body, body_view(await api.body(id)));
    } catch (error) {
      fill(body, h('p', {class: 'problem'}, error.sentence));
    }
  }

  function actions(job) {
    const after = (text) => {
      done(text);
      changed();
      return load();
    };
    const held = job.state === 'reserved';
    const kick = h('button', {onclick: () => attempt(kick, async () => {
      await api.kick_job(id);
      await after(`Job ${id} was kicked: it is ready.`);
    })}, 'Kick');
    const move = h('button', {onclick: () => reschedule(job, after)}, 'Reschedule …');
    const remove = h('button', {class: 'danger', onclick: async () => {
      const asked = {title: `Delete job ${id}?`, text: 'It cannot be brought back.',
        action: 'Delete', danger: true, submit: () => api.cancel(id)};
      if (!await ask(asked)) return;
      done(`Job ${id} was deleted.`);
      sheet.close();
      changed();
    }}, 'Delete …');
    const can_kick = job.state === 'buried' || job.state === 'delayed';
    return h('div', {class: 'actions'}, can_kick ? kick : null, held ? null : move,
      held ? h('p', {class: 'note'}, 'A worker holds this job. It can be changed when it is done.')
        : remove);
  }

  load();
}

const kHistory = [['reserves', 'reserved'], ['timeouts', 'timed out'], ['releases', 'released'],
  ['buries', 'buried'], ['kicks', 'kicked']];
const times = (n) => (n === 1 ? 'once' : n === 2 ? 'twice' : `${count(n)} times`);

function facts_of(job) {
  const when = (ms) => (ms === null ? null
    : [h('span', {title: exact_time(ms)}, time(ms)), ' ', h('small', {}, relative(ms, now_ms()))]);
  const facts = [
    ['State', h('span', {class: `state ${job.state}`}, job.state)],
    ['Tube', h('a', {href: link(['tubes', job.tube])}, job.tube)],
    ['Key', job.key],
    ['Due', job.state === 'delayed' ? when(job.due_ms) : null],
    ['Reserved until', job.state === 'reserved' ? when(job.reserved_until_ms) : null],
    ['Priority', count(job.priority)],
    ['Time to run', duration(job.ttr_ms)],
    ['Attempts', job.max_attempts ? `${count(job.attempt)} of ${count(job.max_attempts)}`
      : count(job.attempt)],
    ['Backoff', job.backoff ? `${duration(job.backoff.base_ms)}, at most `
      + `${duration(job.backoff.cap_ms)}${job.backoff.jitter ? ', with jitter' : ''}` : null],
    ['Schedule', job.schedule],
    ['Size', bytes(job.size)],
    ['Put', when(instant(job.created_at))],
    ['Has been', kHistory.filter(([name]) => job.history[name] > 0)
      .map(([name, word]) => `${word} ${times(job.history[name])}`).join(', ') || null],
  ];
  return h('dl', {class: 'facts'}, facts.filter(([, value]) => value !== null
    && value !== undefined && value !== '').map(([name, value]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

async function reschedule(job, after) {
  let text = '';
  const two = (n) => String(n).padStart(2, '0');
  const local = (ms) => {
    const at = new Date(ms);
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
      + `T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  };
  const changed = await ask({
    title: `Reschedule job ${job.id}`, action: 'Reschedule',
    fields: [
      {name: 'delay_ms', label: 'After', placeholder: '10 min',
        hint: 'A delay from now, such as 90 s, 10 min or 1 h 30 min; 0 is now.'},
      {name: 'due_at', label: 'Or at', type: 'datetime-local', step: '1',
        value: job.state === 'delayed' && job.due_ms !== null ? local(job.due_ms) : '',
        hint: `In the time zone ${Intl.DateTimeFormat().resolvedOptions().timeZone}.`},
      {name: 'priority', label: 'Priority', value: String(job.priority),
        hint: '0 is the most urgent.'},
    ],
    submit: async (values) => {
      const changes = {};
      if (values.delay_ms.trim() !== '') {
        changes.delay_ms = parse_duration(values.delay_ms);
        if (changes.delay_ms === null) throw wrong('delay_ms', 'This is not a length of time.');
        text = `Job ${job.id} is due in ${duration(changes.delay_ms)}.`;
      } else if (values.due_at !== '') {
        const at = new Date(values.due_at);
        if (Number.isNaN(at.getTime())) throw wrong('due_at', 'This is not a time.');
        // Unchanged on the form is unchanged to the millisecond.
        if (values.due_at !== local(job.due_ms ?? 0)) changes.due_at = at.toISOString();
        text = `Job ${job.id} is due at ${time(at.getTime())}.`;
      }
      if (!/^\d+$/.test(values.priority.trim())) throw wrong('priority', 'This is not a number.');
      if (Number(values.priority) !== job.priority) changes.priority = Number(values.priority);
      if (Object.keys(changes).length === 0) throw wrong('delay_ms', 'Nothing is changed.');
      if (changes.delay_ms === undefined && changes.due_at === undefined) {
        text = `Job ${job.id} has priority ${changes.priority}.`;
      }
      await api.change(job.id, changes);
    },
  });
  if (changed) await after(text);
}
