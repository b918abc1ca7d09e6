// SPDX-License-Identifier: Apache-2.0
// All tubes, to sort and to filter.

import * as api from '../api.js';
import {h, say} from '../dom.js';
import {count} from '../format.js';
import {failed} from '../notices.js';
import {here, link, note} from '../router.js';
import {TubeTable} from '../tube_table.js';
import {row_of_tube} from '../model.js';

const kRefreshMs = 2000;

export function show_tubes(main) {
  document.title = 'Tubes · carillon';
  const asked = here().query;
  const state = {
    filter: asked.get('filter') ?? '',
    sort: asked.get('sort') ?? 'ready',
    reverse: asked.get('reverse') === '1',
  };
  const remember = () => note(['tubes'], {
    filter: state.filter, sort: state.sort === 'ready' ? null : state.sort,
    reverse: state.reverse ? '1' : null,
  });
  const table = new TubeTable({sort: {key: state.sort, reverse: state.reverse}, on_sort: (sort) => {
    state.sort = sort.key;
    state.reverse = sort.reverse;
    remember();
  }});
  const filter = h('input', {type: 'search', value: state.filter, placeholder: 'Filter by name',
    'aria-label': 'Filter tubes by name', spellcheck: 'false', oninput: () => {
      state.filter = filter.value;
      remember();
      show();
    }});
  const states = h('select', {'aria-label': 'Which tubes', onchange: () => show()},
    [['', 'all'], ['ready', 'with ready jobs'], ['buried', 'with buried jobs'],
      ['delayed', 'with delayed jobs'], ['paused', 'paused']].map(([value, label]) =>
      h('option', {value}, label)));
  const found = h('p', {class: 'count', role: 'status'});
  const empty = h('p', {class: 'empty', hidden: true});
  let tubes = null;

  function show() {
    if (tubes === null) return;
    const wanted = state.filter.toLowerCase();
    const shown = tubes.filter((tube) => tube.name.toLowerCase().includes(wanted)
      && (states.value === '' || (states.value === 'paused' ? tube.pause_left_ms > 0
        : tube[states.value] > 0)));
    table.update(shown);
    say(found, shown.length === tubes.length ? count(tubes.length)
      : `${count(shown.length)} of ${count(tubes.length)}`);
    table.element.hidden = shown.length === 0;
    empty.hidden = shown.length > 0;
    say(empty, tubes.length === 0
      ? 'There is no tube yet. A tube is there as soon as a job is put into it.'
      : 'No tube is like that.');
  }

  main.append(h('div', {class: 'page-head'}, h('h1', {}, 'Tubes'), found),
    h('div', {class: 'toolbar'}, filter, states,
      h('a', {class: 'button', href: link(['jobs'])}, 'Find jobs in all tubes')),
    h('section', {class: 'panel flush'}, table.element, empty));

  let timer = 0;
  let closed = false;
  let told = false;
  async function refresh() {
    if (!document.hidden) {
      try {
        tubes = (await api.tubes()).tubes.map(row_of_tube);
        told = false;
        if (!closed) show();
      } catch (error) {
        if (!told && error.status !== 0) failed(error);
        told = true;
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
