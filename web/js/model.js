// SPDX-License-Identifier: Apache-2.0
// What the API sends, as the pages draw it: the only place that knows both.

import {instant} from './format.js';

/** A tube of GET tubes[/{tube}], or of a `stats` event. */
export function row_of_tube(tube) {
  return {
    ...tube,
    pause_left_ms: tube.pause_left_ms ?? 0,
    next_due_in_ms: tube.next_due_in_ms ?? null,
  };
}

/** A job with its times as milliseconds of the calendar. */
export function row_of_job(job) {
  return {
    ...job,
    due_ms: instant(job.due_at),
    deadline_ms: instant(job.deadline),
  };
}

export const kStates = ['delayed', 'ready', 'reserved', 'buried'];
