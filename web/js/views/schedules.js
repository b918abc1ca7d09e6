// SPDX-License-Identifier: Apache-2.0
// Recurring jobs: when each runs next, when it ran last, and what can be done with it.

import * as api from '../api.js';
import {ask} from '../dialogs.js';
import {RowList, fill, h, say} from '../dom.js';
import {count, exact_time, instant, relative, time_in} from '../format.js';
import {now_ms} from '../live.js';
import {attempt, done, failed} from '../notices.js';
import {link} from '../router.js';

const kRefreshMs = 5000;

/**
 * "CRON_TZ=Europe/Berlin 0 2 * * *" as its zone and the rest; cron without one goes by UTC, and
 * `every` by no clock.
 */
function parts_of(spec) {
  const [, zone, text] = /^CRON_TZ=(\S+) (.*)$/.exec(spec) ?? [];
  if (zone) return {zone, text};
  return {zone: spec.startsWith('every ') ? null : 'UTC', text: spec};
}

export function show_schedules(main) {
  document.title = 'Schedules · carillon';
  const found = h('p', {class: 'count', role: 'status'});
  const body = h('tbody');
  const columns = [['Name'], ['Tube'], ['When'], ['Next run'], ['Last run'], ['So far', 'number'],
    ['Policy', 'spare'], [h('span', {class: 'visually-hidden'}, 'Actions')]];
  const table = h('div', {class: 'table-box'}, h('table', {class: 'list schedules'},
    h('caption', {class: 'visually-hidden'}, 'Schedules'),
    h('thead', {}, h('tr', {}, columns.map(([label, of]) =>
      h('th', {scope: 'col', class: of}, label)))), body));
  const empty = h('p', {class: 'empty', hidden: true}, 'No job recurs yet. ',
    h('code', {}, 'PUT /api/v1/schedules/{name}'), ' makes one do so.');
  main.append(h('div', {class: 'page-head'}, h('h1', {}, 'Schedules'), found),
    h('section', {class: 'panel flush'}, table, empty));

  const rows = new RowList(body, (schedule) => schedule.name, make);

  function make(schedule) {
    const name = schedule.name;
    const cells = columns.map(([label, of]) => h('td', {class: of,
      'data-label': typeof label === 'string' ? label : null}, h('div')));
    const inner = cells.map((cell) => cell.firstElementChild);
    const [title, tube, spec, next, last, runs, policy, buttons] = inner;
    const run = h('button', {class: 'small', 'aria-label': `Run ${name} now`,
      onclick: () => attempt(run, async () => {
        await api.run_schedule(name);
        done(`${name} runs now.`);
        await refresh();
      })}, 'Run now');
    const remove = h('button', {class: 'small danger', 'aria-label': `Delete ${name}`,
      onclick: async () => {
        if (await ask({title: `Delete the schedule ${name}?`, danger: true, action: 'Delete',
          text: 'Jobs that it has already put stay.', submit: () => api.delete_schedule(name)})) {
          done(`The schedule ${name} was deleted.`);
          await refresh();
        }
      }}, 'Delete …');
    title.append(h('b', {}, name));
    tube.append(h('a', {href: link(['tubes', schedule.tube])}, schedule.tube));
    buttons.classList.add('buttons');
    buttons.append(run, remove);
    const when = (cell, at, zone) => {
      const ms = instant(at);
      if (ms === null) return say(cell, '–');
      return cell.replaceChildren(h('span', {title: exact_time(ms)}, time_in(ms, zone)),
        h('small', {}, relative(ms, now_ms())));
    };
    return {row: h('tr', {}, cells), update: (now) => {
      const {zone, text} = parts_of(now.spec);
      spec.replaceChildren(text, zone ? h('small', {}, zone) : '');
      when(next, now.next_at ?? now.due_at, zone);
      when(last, now.last_due_at, zone);
      say(runs, count(now.runs));
      policy.replaceChildren(...['missed', 'overlap'].filter((field) => now[field])
        .map((field) => h('small', {}, `${field}: ${now[field]}`)));
    }};
  }

  let timer = 0;
  let closed = false;
  async function refresh() {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const {schedules} = await api.schedules();
        if (closed) return;
        rows.show([...schedules].sort((a, b) => a.name.localeCompare(b.name)));
        table.hidden = schedules.length === 0;
        empty.hidden = schedules.length > 0;
        say(found, count(schedules.length));
      } catch (error) {
        if (closed) return;
        if (error.status === 404) {
          table.hidden = true;
          empty.hidden = false;
          fill(empty, 'This server does not know recurring jobs.');
          return;
        }
        if (error.status !== 0) {
          failed(error);
          closed = true;  // Saying so every few seconds helps nobody.
        }
      }
    }
    if (!closed) timer = setTimeout(refresh, kRefreshMs);
  }
  refresh();
  return () => {
    closed = true;
    clearTimeout(timer);
  };
}
