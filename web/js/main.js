// SPDX-License-Identifier: Apache-2.0
// Which page is shown, and what is around it: navigation, connection, token, theme.

import {has_token, on_unauthorized, set_token} from './api.js';
import {ask, wrong} from './dialogs.js';
import {fill, h, say} from './dom.js';
import {connect, live, subscribe} from './live.js';
import {here, link} from './router.js';
import {mount_theme_switch} from './theme.js';
import {show_jobs} from './views/jobs.js';
import {show_overview} from './views/overview.js';
import {show_schedules} from './views/schedules.js';
import {show_server} from './views/server.js';
import {show_tube} from './views/tube.js';
import {show_tubes} from './views/tubes.js';

const kPages = [
  {path: [], label: 'Overview', show: show_overview},
  {path: ['tubes'], label: 'Tubes', show: show_tubes},
  {path: ['jobs'], label: 'Jobs', show: show_jobs},
  {path: ['schedules'], label: 'Schedules', show: show_schedules},
  {path: ['server'], label: 'Server', show: show_server},
];

const main = document.getElementById('main');
const nav = document.getElementById('nav');
const connection = document.getElementById('connection');
const banner = document.getElementById('banner');
let close_page = () => {};
let shown = null;

function show_page() {
  const {parts} = here();
  const at = parts.join('/');
  if (at === shown) return;
  const first = shown === null;
  shown = at;
  close_page();
  main.replaceChildren();
  for (const dialog of document.querySelectorAll('dialog')) dialog.close();
  close_page = open_page(parts) ?? (() => {});
  for (const item of nav.children) {
    if (item.dataset.page === (parts[0] ?? '')) item.setAttribute('aria-current', 'page');
    else item.removeAttribute('aria-current');
  }
  if (!first) {
    // As after any link: at the top, with the keyboard in the new page.
    scrollTo(0, 0);
    main.focus({preventScroll: true});
  }
}

function open_page(parts) {
  if (parts[0] === 'tubes' && parts.length === 2) return show_tube(main, parts[1]);
  const page = kPages.find((candidate) => candidate.path.join('/') === parts.join('/'));
  if (page) return page.show(main);
  main.append(h('p', {class: 'empty'}, 'There is no such page. ',
    h('a', {href: link([])}, 'Overview')));
  return null;
}

const kWords = {connecting: 'connecting', live: 'live', lost: 'no connection', denied: 'no access',
  unavailable: 'recovering'};

function show_connection() {
  connection.dataset.state = live.state;
  say(connection, kWords[live.state]);
  document.body.classList.toggle('stale', live.state === 'lost');
  if (live.state === 'lost') {
    if (banner.childElementCount > 0) return;
    fill(banner, h('p', {}, 'The connection to the server is lost. What is shown is as it was; '
      + 'it is tried again by itself. ', h('button', {class: 'small', onclick: () => connect()},
      'Try now')));
  } else if (live.state === 'denied') {
    fill(banner, h('p', {}, `${live.problem} `,
      h('button', {class: 'small', onclick: () => ask_token()}, 'Log in …')));
  } else if (live.state === 'unavailable') {
    fill(banner, h('p', {}, 'A store could not be written and is being recovered. Nothing that was '
      + 'acknowledged is lost; the server goes on by itself.'));
  } else if (live.stats?.server.draining) {
    fill(banner, h('p', {}, 'The server drains: it finishes what it has, and takes no new jobs.'));
  } else if (live.stats?.server.held) {
    fill(banner, h('p', {}, 'Held by the option hold: webhooks post nothing, and schedules put '
      + 'nothing. Jobs become ready all the same.'));
  } else {
    fill(banner);
  }
}

let asking = false;
async function ask_token() {
  if (asking) return;
  asking = true;
  const known = await ask({
    title: has_token() ? 'Another token is needed' : 'A token is needed', action: 'Log in',
    text: 'The server wants a token of its token file. It is kept in this tab only, until that is '
      + 'closed.',
    fields: [{name: 'token', label: 'Token', type: 'password', required: true}],
    submit: async (values) => {
      const response = await fetch('api/v1/stats',
        {headers: {Authorization: `Bearer ${values.token}`}, cache: 'no-store'});
      if (response.status === 401) throw wrong('token', 'The server does not know this token.');
      if (response.status === 403) throw wrong('token', 'This token may not see the dashboard.');
      set_token(values.token);
    },
  });
  asking = false;
  if (!known) return;  // The banner has a button.
  shown = null;
  show_page();
  connect();
}
on_unauthorized.ask = () => ask_token();

fill(nav, kPages.map((page) =>
  h('a', {href: link(page.path), 'data-page': page.path[0] ?? ''}, page.label)));
mount_theme_switch(document.getElementById('theme'));
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener('hashchange', show_page);
addEventListener('keydown', (event) => {
  // As on many sites: / goes to the search of the page.
  if (event.key !== '/' || event.target.closest('input, textarea, select, dialog')) return;
  const field = main.querySelector('input[type="search"]');
  if (!field) return;
  event.preventDefault();
  field.focus();
});
subscribe(show_connection);
show_connection();
show_page();
connect();
