// SPDX-License-Identifier: Apache-2.0
// The server itself.

import * as api from '../api.js';
import {fill, h} from '../dom.js';
import {bytes, count, duration, exact_time, time} from '../format.js';
import {live, subscribe} from '../live.js';
import {failed} from '../notices.js';
import {words_of} from '../tube_settings.js';

function value_of(field, value) {
  if (value === null || value === undefined || value === '') return '–';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.join(', ') || 'none';
  if (typeof value !== 'number') return String(value);
  if (field.endsWith('_ms')) return duration(value);
  if (field.endsWith('_bytes') || field.endsWith('_size')) return bytes(value);
  return count(value);
}

function facts(fields) {
  return h('dl', {class: 'facts'}, fields.map(([label, value]) =>
    h('div', {}, h('dt', {}, label), h('dd', {}, value))));
}

const of_object = (object) => facts(Object.entries(object)
  .filter(([, value]) => typeof value !== 'object' || Array.isArray(value))
  .map(([field, value]) => [words_of(field), value_of(field, value)]));

export function show_server(main) {
  document.title = 'Server · carillon';
  const panel = (title) => {
    const place = h('div', {});
    return [h('section', {class: 'panel', 'aria-label': title},
      h('header', {}, h('h2', {}, title)), place), place];
  };
  const [process_panel, process] = panel('Process');
  const [store_panel, store] = panel('Store');
  const [limits_panel, limits] = panel('Limits');
  const [totals_panel, totals] = panel('Since the start');
  main.append(h('div', {class: 'page-head'}, h('h1', {}, 'Server')),
    h('div', {class: 'cards'}, process_panel, store_panel, totals_panel, limits_panel));

  api.stats().then((all) => {
    const told = Object.fromEntries(Object.entries(all.limits ?? {})
      .map(([name, limit]) => [name, limit === 0 ? 'none' : limit]));
    if (all.limits) fill(limits, of_object(told));
    else limits_panel.hidden = true;
  }, failed);

  let shown_at = 0;
  return subscribe(() => {
    const stats = live.stats;
    if (!stats || stats.at_ms - shown_at < 900) return;
    shown_at = stats.at_ms;
    const {server} = stats;
    const began = stats.at_ms - server.uptime_ms;
    fill(process, facts([
      ['Version', server.version],
      ['Up for', h('span', {title: `since ${exact_time(began)}`}, duration(server.uptime_ms))],
      ['Started', time(began)],
      ['Process', String(server.pid)],
      ['Host', server.host],
      ['Listens on', [server.listen ?? []].flat().join(', ')],
      ['Connections', count(server.connections + (server.http_connections ?? 0))],
      ['Memory', bytes(server.memory_bytes)],
      ['State', server.draining ? 'draining: put is refused'
        : server.held ? 'held: no webhooks, no schedules' : 'serving'],
    ].filter(([, value]) => value !== undefined && value !== '' && value !== 'undefined')));
    fill(store, facts([
      ['Kind', server.store],
      ['Folder', server.data],
      ['Partitions', count(server.partitions)],
      ['Bodies in memory', bytes(stats.body_bytes)],
      ['Jobs in memory', count(stats.jobs.delayed + stats.jobs.ready + stats.jobs.reserved
        + stats.jobs.buried - stats.jobs.far)],
      ['Far jobs', count(stats.jobs.far)],
      ['Timers in the wheel', count(stats.wheel?.size)],
    ].filter(([, value]) => value)));
    fill(totals, of_object(stats.totals));
  });
}
