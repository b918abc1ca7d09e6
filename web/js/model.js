// SPDX-License-Identifier: Apache-2.0
// What the API sends, as the pages draw it: the only place that knows both.

import {instant} from './format.js';

export const kStates = ['delayed', 'ready', 'reserved', 'buried'];

/** A tube of GET tubes[/{tube}], or of a `stats` event, its counts by state in one place. */
export function row_of_tube(tube) {
  return {
    name: tube.name,
    ...tube.jobs,
    waiting: tube.waiting ?? 0,
    oldest_ready_age_ms: tube.oldest_ready_age_ms ?? null,
    next_due_in_ms: tube.next_due_in_ms ?? null,
    pause_left_ms: tube.pause_left_ms ?? 0,
    puts: tube.total_jobs,
    deleted: tube.deletes,
    settings: tube.settings ?? {},
    webhook: tube.webhook ?? null,
  };
}

/** A tube that is not there: nothing has been put into it yet. */
export const empty_tube = (name) =>
  row_of_tube({name, total_jobs: 0, deletes: 0,
    jobs: {delayed: 0, ready: 0, reserved: 0, buried: 0, far: 0}});

/** A job with its times as milliseconds of the calendar. */
export function row_of_job(job) {
  return {
    ...job,
    due_ms: instant(job.due_at),
    reserved_until_ms: instant(job.reserved_until),
    history: job.history ?? {},
  };
}
