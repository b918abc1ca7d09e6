// SPDX-License-Identifier: Apache-2.0
// A line chart over the last five minutes: uPlot, in the colours of the page.

import uPlot from '../vendor/uPlot.esm.js';
import {color_of, fill, h, say} from './dom.js';
import {kHistory, live} from './live.js';
import {on_theme} from './theme.js';

const kLeastHeight = 168;

/**
 * `lines` are [{label, color, column, dash, fill}], where `column` is that of live.points; `format`
 * makes a value a text, for the axis and for the legend, which shows the moment under the cursor or
 * else the last.
 */
export class LineChart {
  #lines;
  #format;
  #plot = null;
  #place = h('div', {class: 'plot', 'aria-hidden': 'true'});
  #legend;
  #values;
  #resize;
  #forget_theme;
  #frozen_at = null;

  constructor({label, lines, format}) {
    this.#lines = lines;
    this.#format = format;
    this.#values = lines.map(() => h('b', {}));
    this.#legend = h('dl', {class: 'legend', 'aria-label': label}, lines.map((line, i) =>
      h('div', {}, h('dt', {class: line.class}, line.label), h('dd', {}, this.#values[i]))));
    this.element = h('div', {class: 'chart'}, this.#legend, this.#place);
    this.#resize = new ResizeObserver(() => this.#fit());
    this.#resize.observe(this.#place);
    this.#forget_theme = on_theme(() => this.#make());
  }

  close() {
    this.#resize.disconnect();
    this.#forget_theme();
    this.#plot?.destroy();
  }

  update() {
    if (this.#plot === null) this.#make();
    else if (!document.hidden) this.#plot.setData(this.#data());
    this.#show(this.#frozen_at);
  }

  #fit() {
    const size = this.#size();
    if (this.#plot && size.width > 0) this.#plot.setSize(size);
  }

  #size() {
    return {
      width: Math.floor(this.#place.clientWidth),
      height: Math.max(kLeastHeight, Math.floor(this.#place.clientHeight)),
    };
  }

  #data() {
    const points = live.points;
    return [points.map((point) => point[0] / 1000),
      ...this.#lines.map((line) => points.map((point) => point[line.column]))];
  }

  #show(index) {
    const point = live.points[index ?? live.points.length - 1];
    this.#lines.forEach((line, i) =>
      say(this.#values[i], point ? this.#format(point[line.column]) : '–'));
  }

  #make() {
    const size = this.#size();
    if (size.width === 0 || live.points.length === 0) return;
    this.#plot?.destroy();
    fill(this.#place);
    const grid = color_of('--line');
    const ink = color_of('--ink-3');
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const axis = {stroke: ink, font, ticks: {show: false}};
    this.#plot = new uPlot({
      ...size, legend: {show: false}, padding: [8, 14, 0, 0],
      cursor: {y: false, drag: {x: false, y: false}, points: {size: 6}},
      hooks: {setCursor: [(plot) => {
        this.#frozen_at = plot.cursor.left >= 0 ? plot.cursor.idx : null;
        this.#show(this.#frozen_at);
      }]},
      scales: {
        x: {range: () => {
          const last = live.points[live.points.length - 1][0] / 1000;
          return [last - kHistory + 1, last];
        }},
        y: {range: (_plot, _low, high) => [0, Math.max(high * 1.12, 1)]},
      },
      axes: [
        {...axis, grid: {show: false}, size: 26, space: 70,
          values: (_plot, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString([],
            {hour: '2-digit', minute: '2-digit', hourCycle: 'h23'})), incrs: [60, 120, 300]},
        {...axis, grid: {stroke: grid, width: 1}, size: 52, space: 36,
          values: (_plot, splits) => splits.map((value) => this.#format(value))},
      ],
      series: [{}, ...this.#lines.map((line) => ({
        stroke: color_of(line.color), width: line.width ?? 1.75, dash: line.dash,
        fill: line.fill ? color_of(line.fill) : undefined, points: {show: false}, spanGaps: false,
      }))],
    }, this.#data(), this.#place);
  }
}
