// SPDX-License-Identifier: Apache-2.0
// The wheel, turning: a ring for each level in use, the finest inside; each slot as bright as it is
// full (logarithmically); a hand on each level. What is far is in the store, not in the wheel, and
// drawn as the rim. A timer moves inwards, from ring to ring, until it fires in the middle.
//
// The server sends what lies where once a second. Between two of those the hands go on by the
// clock, and a slot that a hand has passed is drawn empty: its timers have cascaded, or fired.

import {color_of, h} from './dom.js';
import {brief, count, duration} from './format.js';
import {live, now_ms} from './live.js';
import {on_theme} from './theme.js';

const kTurn = 2 * Math.PI;
const kGap = 0.16;  // Of a slot, between it and the next.
/** A level that turns faster than this has no hand to see: it is drawn as it was, and shimmers. */
const kFastestTurnMs = 1000;
/** Between two pictures: smooth enough for a hand that goes round in seconds. */
const kFrameMs = 33;

const still = matchMedia('(prefers-reduced-motion: reduce)');

export class WheelDrawing {
  #canvas = h('canvas', {class: 'wheel', role: 'img'});
  #table = h('table');
  #tooltip = h('div', {class: 'tooltip', hidden: true});
  #colors = {};
  #frame = 0;
  #drawn_at = 0;
  #size = 0;
  #visible = true;
  #observers = [];
  #forget_theme;
  #described_at = 0;
  #pointer = null;

  constructor() {
    this.element = h('div', {class: 'wheel-box'}, this.#canvas, this.#tooltip,
      // A table itself would be as wide as its text, and the page with it.
      h('div', {class: 'visually-hidden'}, this.#table));
    this.#canvas.addEventListener('pointermove', (event) => this.#point(event));
    this.#canvas.addEventListener('pointerleave', () => this.#point(null));
    const resize = new ResizeObserver(() => this.#resize());
    resize.observe(this.element);
    const seen = new IntersectionObserver(([entry]) => {
      this.#visible = entry.isIntersecting;
      this.#plan();
    });
    seen.observe(this.element);
    this.#observers = [resize, seen];
    this.#forget_theme = on_theme(() => this.#take_colors());
    this.#on_hidden = () => this.#plan();
    document.addEventListener('visibilitychange', this.#on_hidden);
    requestAnimationFrame(() => this.#take_colors());
  }

  #on_hidden;

  /** After a new event. */
  update() {
    this.#describe();
    this.#plan();
    if (still.matches) this.#draw();
  }

  close() {
    cancelAnimationFrame(this.#frame);
    this.#frame = -1;
    for (const observer of this.#observers) observer.disconnect();
    document.removeEventListener('visibilitychange', this.#on_hidden);
    this.#forget_theme();
  }

  #take_colors() {
    for (const name of ['line', 'ink', 'ink-2', 'ink-3', 'surface', 'brass', 'brass-strong',
      'slot', 'far']) {
      this.#colors[name] = color_of(`--${name}`);
    }
    this.#draw();
  }

  #resize() {
    const size = Math.round(this.element.clientWidth);
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.#size = size;
    this.#canvas.width = size * scale;
    this.#canvas.height = size * scale;
    this.#canvas.getContext('2d').setTransform(scale, 0, 0, scale, 0, 0);
    this.#draw();
  }

  /** Turns only while somebody can see it, and wants to see things move. */
  #plan() {
    if (this.#frame < 0) return;
    const turns = this.#visible && !document.hidden && !still.matches && live.state === 'live';
    if (turns && this.#frame === 0) {
      const step = (at) => {
        this.#frame = requestAnimationFrame(step);
        if (at - this.#drawn_at < kFrameMs) return;
        this.#drawn_at = at;
        this.#draw();
      };
      this.#frame = requestAnimationFrame(step);
    } else if (!turns && this.#frame !== 0) {
      cancelAnimationFrame(this.#frame);
      this.#frame = 0;
      this.#draw();
    }
  }

  /** The rings from the middle outwards, of the levels up to the coarsest in use. */
  #rings() {
    const wheel = live.stats?.wheel;
    if (!wheel || this.#size === 0) return [];
    const middle = this.#size * 0.155;
    const outer = this.#size * 0.468;
    const levels = wheel.levels;
    const step = (outer - middle) / levels.length;
    return levels.map((level, index) => ({
      ...level,
      index,
      turn_ms: level.granularity_ms * level.counts.length,
      inner: middle + index * step + step * 0.13,
      outer: middle + (index + 1) * step - step * 0.13,
    }));
  }

  /** The place of the hand on a ring in turns, now. */
  #hand(ring, passed_ms) {
    const slots = ring.counts.length;
    const into = (ring.at_ms % ring.granularity_ms) / ring.granularity_ms;
    return (ring.hand + into) / slots + passed_ms / ring.turn_ms;
  }

  #draw() {
    const context = this.#canvas.getContext('2d');
    const size = this.#size;
    context.clearRect(0, 0, size, size);
    const stats = live.stats;
    const rings = this.#rings();
    if (!stats || rings.length === 0 || !this.#colors.line) return;
    const passed_ms = live.state === 'live' && !still.matches
      ? Math.min(now_ms() - stats.at_ms, 3000) : 0;
    const most = Math.max(1, ...rings.map((ring) => Math.max(...ring.counts)));
    context.save();
    context.translate(size / 2, size / 2);
    for (const ring of rings) {
      this.#draw_ring(context, {...ring, at_ms: stats.wheel.now_ms}, passed_ms, most);
    }
    this.#draw_rim(context, stats);
    this.#draw_middle(context, stats, passed_ms);
    context.restore();
  }

  #draw_ring(context, ring, passed_ms, most) {
    const slots = ring.counts.length;
    const fast = ring.turn_ms < kFastestTurnMs;
    const hand = this.#hand(ring, passed_ms);
    const first = Math.floor(hand * slots + 1e-9);
    const start = ring.hand;
    for (let slot = 0; slot < slots; ++slot) {
      const ahead = (slot - start + slots) % slots;
      const passed = !fast && ahead < first - start;
      const n = passed ? 0 : ring.counts[slot];
      const from = (slot + kGap / 2) / slots * kTurn - kTurn / 4;
      const to = (slot + 1 - kGap / 2) / slots * kTurn - kTurn / 4;
      context.beginPath();
      context.arc(0, 0, ring.outer, from, to);
      context.arc(0, 0, ring.inner, to, from, true);
      context.closePath();
      context.globalAlpha = 1;
      context.fillStyle = this.#colors.slot;
      context.fill();
      if (n > 0) {
        context.globalAlpha = 0.22 + 0.78 * Math.log1p(n) / Math.log1p(most);
        context.fillStyle = this.#colors.brass;
        context.fill();
      }
      if (this.#pointer?.ring === ring.index && this.#pointer.slot === slot) {
        context.globalAlpha = 1;
        context.strokeStyle = this.#colors.ink;
        context.lineWidth = 1.5;
        context.stroke();
      }
    }
    context.globalAlpha = 1;
    if (fast) return;
    const angle = hand * kTurn - kTurn / 4;
    const reach = (ring.outer - ring.inner) * 0.22;
    context.beginPath();
    context.moveTo(Math.cos(angle) * (ring.inner - reach), Math.sin(angle) * (ring.inner - reach));
    context.lineTo(Math.cos(angle) * (ring.outer + reach), Math.sin(angle) * (ring.outer + reach));
    context.lineCap = 'round';
    context.strokeStyle = this.#colors.surface;
    context.lineWidth = 5;
    context.stroke();
    context.strokeStyle = this.#colors.ink;
    context.lineWidth = 2;
    context.stroke();
  }

  /** What is far: a dotted rim, the fuller the more. */
  #draw_rim(context, stats) {
    const far = stats.jobs.far ?? 0;
    context.beginPath();
    context.arc(0, 0, this.#size * 0.486, 0, kTurn);
    context.strokeStyle = far > 0 ? this.#colors.far : this.#colors.line;
    context.lineWidth = far > 0 ? 1 + Math.min(5, Math.log10(far) * 0.7) : 1;
    context.globalAlpha = 0.7;
    context.setLineDash([1, 5]);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  #draw_middle(context, stats, passed_ms) {
    const fired = stats.rates.fired;
    if (fired > 0 && !still.matches && live.state === 'live') {
      // A stroke of the bell for each second in which something fired.
      const since = Math.min(1, passed_ms / 900);
      context.beginPath();
      context.arc(0, 0, this.#size * (0.1 + 0.042 * since), 0, kTurn);
      context.strokeStyle = this.#colors.brass;
      context.globalAlpha = 0.5 * (1 - since);
      context.lineWidth = 2;
      context.stroke();
      context.globalAlpha = 1;
    }
    const font = getComputedStyle(document.body).fontFamily;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    context.fillStyle = this.#colors.ink;
    context.font = `600 ${Math.round(this.#size * 0.052)}px ${font}`;
    context.fillText(brief(Math.round(fired)), 0, -this.#size * 0.012);
    context.fillStyle = this.#colors['ink-3'];
    context.font = `${Math.max(9, Math.round(this.#size * 0.024))}px ${font}`;
    context.fillText('fired a second', 0, this.#size * 0.033);
  }

  /** The slot under the pointer, in words. */
  #point(event) {
    this.#pointer = null;
    if (event) {
      const box = this.#canvas.getBoundingClientRect();
      const x = event.clientX - box.left - this.#size / 2;
      const y = event.clientY - box.top - this.#size / 2;
      const radius = Math.hypot(x, y);
      const ring = this.#rings().find((r) => radius >= r.inner && radius <= r.outer);
      if (ring) {
        const turn = (Math.atan2(y, x) / kTurn + 1.25) % 1;
        this.#pointer = {ring: ring.index, slot: Math.floor(turn * ring.counts.length)};
        this.#show_tooltip(ring, x, y);
      }
    }
    this.#tooltip.hidden = this.#pointer === null;
    if (still.matches) this.#draw();
  }

  #show_tooltip(ring, x, y) {
    const slot = this.#pointer.slot;
    const slots = ring.counts.length;
    const ahead = (slot - ring.hand + slots) % slots;
    const n = ring.counts[slot];
    const when = ahead === 0 ? 'under the hand' : `in ${duration(ahead * ring.granularity_ms)}`;
    this.#tooltip.textContent = `Level ${ring.index}, slot ${slot}: ${count(n)} `
      + `due ${when}, within ${duration(ring.granularity_ms)}`;
    this.#tooltip.style.left = `${Math.min(Math.max(x + this.#size / 2, 90), this.#size - 90)}px`;
    this.#tooltip.style.top = `${y + this.#size / 2 - 12}px`;
  }

  /** In words, for those who do not see it; not every second, or nobody could read it out. */
  #describe() {
    const stats = live.stats;
    if (!stats?.wheel || stats.at_ms - this.#described_at < 10_000) return;
    this.#described_at = stats.at_ms;
    const levels = stats.wheel.levels;
    this.#canvas.setAttribute('aria-label', `The timing wheel: ${count(stats.wheel.size)} timers `
      + `on ${levels.length} levels, ${count(stats.jobs.far)} far jobs in the store, `
      + `${count(Math.round(stats.rates.fired))} fired a second`);
    this.#table.replaceChildren(h('caption', {}, 'The wheel, level by level'),
      h('tbody', {}, levels.map((level, index) => h('tr', {}, h('th', {scope: 'row'},
        `Level ${index}: ${level.counts.length} slots of ${duration(level.granularity_ms)}`),
      h('td', {}, `${count(level.counts.reduce((sum, n) => sum + n, 0))} timers`)))));
  }
}
