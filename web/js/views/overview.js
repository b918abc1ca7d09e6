// SPDX-License-Identifier: Apache-2.0
// What a person wants to see at a glance.

import * as api from '../api.js';
import {LineChart} from '../charts.js';
import {h, say} from '../dom.js';
import {DueBars} from '../due_bars.js';
import {brief, count, duration, plural, rate} from '../format.js';
import {live, subscribe} from '../live.js';
import {row_of_tube} from '../model.js';
import {link} from '../router.js';
import {TubeTable} from '../tube_table.js';
import {WheelDrawing} from '../wheel_drawing.js';

const kTubesShown = 8;

/** A number with a name, and a line below it. */
function tile(label, state) {
  const value = h('dd', {class: 'value'}, '–');
  const note = h('dd', {class: 'note'});
  const element = h('div', {class: `tile ${state ?? ''}`}, h('dt', {}, label), value, note);
  return {element, set(text, below, title) {
    say(value, text);
    say(note, below);
    if (title) value.title = title;
  }};
}

export function show_overview(main) {
  document.title = 'carillon';
  const tiles = {
    puts: tile('Put'), fired: tile('Fired'), deleted: tile('Deleted'), lateness: tile('Lateness'),
    delayed: tile('Delayed', 'delayed'), ready: tile('Ready', 'ready'),
    reserved: tile('Reserved', 'reserved'), buried: tile('Buried', 'buried'),
  };
  const wheel = new WheelDrawing();
  const rates = new LineChart({label: 'Jobs a second', format: rate, lines: [
    {label: 'put', class: 'key puts', color: '--puts', column: 1},
    {label: 'fired', class: 'key fired', color: '--brass', column: 2, fill: '--brass-wash'},
    {label: 'deleted', class: 'key deleted', color: '--ink-3', column: 3, dash: [4, 3]},
  ]});
  const lateness = new LineChart({label: 'Lateness', format: duration, lines: [
    {label: 'p99', class: 'key p99', color: '--brass', column: 5},
    {label: 'p50', class: 'key p50', color: '--puts', column: 4, dash: [4, 3]},
  ]});
  const due = new DueBars();
  const table = new TubeTable({most: kTubesShown});
  const all = h('a', {class: 'more', href: link(['tubes'])}, 'All tubes');
  const legend = h('p', {class: 'wheel-legend'});

  const hint = first_steps();

  const panel = (name, title, note, ...content) => h('section',
    {class: `panel ${name}`, 'aria-label': title},
    h('header', {}, h('h2', {}, title), note ? h('small', {}, note) : null), content);
  main.append(
    h('h1', {class: 'visually-hidden'}, 'Overview'),
    hint, h('dl', {class: 'tiles'}, Object.values(tiles).map((t) => t.element)),
    h('div', {class: 'overview'},
      panel('wheel-panel', 'The wheel', null, wheel.element, legend),
      h('div', {class: 'column'},
        panel('rates-panel', 'Jobs a second', 'the last 5 minutes', rates.element),
        panel('lateness-panel', 'Lateness', 'from due to ready', lateness.element)),
      panel('due-panel', 'Falling due', 'delayed jobs; the bars are logarithmic', due.element),
      panel('tubes-panel', 'Tubes', null, table.element, all)));

  const close = subscribe(() => {
    const stats = live.stats;
    if (!stats) return;
    const {jobs, rates: now} = stats;
    hint.hidden = stats.totals.puts > 0
      || jobs.delayed + jobs.ready + jobs.reserved + jobs.buried > 0;
    tiles.puts.set(rate(now.puts), 'a second');
    tiles.fired.set(rate(now.fired), 'a second');
    tiles.deleted.set(rate(now.deleted), 'a second');
    const late = stats.lateness_ms;
    tiles.lateness.set(duration(late?.p99), late ? `p99; p50 ${duration(late.p50)}`
      : 'nothing fired');
    tiles.delayed.set(brief(jobs.delayed), `${brief(jobs.far)} of them far`, count(jobs.delayed));
    tiles.ready.set(brief(jobs.ready), jobs.ready > 0
      ? `oldest ${duration(stats.oldest_ready_age_ms)}` : 'none waits', count(jobs.ready));
    tiles.reserved.set(brief(jobs.reserved), plural(stats.waiting, 'worker') + ' waiting',
      count(jobs.reserved));
    tiles.buried.set(brief(jobs.buried), jobs.buried > 0 ? 'need a look' : 'none',
      count(jobs.buried));
    tiles.buried.element.classList.toggle('alarm', jobs.buried > 0);
    wheel.update();
    rates.update();
    lateness.update();
    due.update(stats.due_in, jobs.far);
    table.update(stats.tubes.shown.map(row_of_tube));
    const tubes = stats.tubes.count;
    say(all, tubes > kTubesShown ? `All ${count(tubes)} tubes` : 'All tubes');
    say(legend, legend_of(stats.wheel));
  });
  return () => {
    close();
    wheel.close();
    rates.close();
    lateness.close();
  };
}

/** What to do with a server that has never had a job. */
function first_steps() {
  // Never the token itself: somebody may be looking.
  const login = api.has_token() ? `  -H "Authorization: Bearer $TOKEN" \\\n` : '';
  const command = `curl -d 'hello' -H 'Content-Type: text/plain' \\\n${login}`
    + `  '${location.origin}/api/v1/tubes/greetings/jobs?delay_ms=10000'`;
  return h('section', {class: 'panel first-steps', hidden: true, 'aria-label': 'First steps'},
    h('h2', {}, 'Nothing is waiting yet'),
    h('p', {}, 'Put a job that is due in ten seconds, and watch it go through the wheel:'),
    h('pre', {}, command));
}

function legend_of(wheel) {
  if (!wheel) return '';
  const finest = wheel.levels[0];
  const coarsest = wheel.levels[wheel.levels.length - 1];
  return `${count(wheel.size)} timers on ${plural(wheel.levels.length, 'level')}, from slots of `
    + `${duration(finest.granularity_ms)} inside to ${duration(coarsest.granularity_ms)} outside. `
    + 'The dotted rim is what is far: in the store only.';
}
