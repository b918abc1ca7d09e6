// SPDX-License-Identifier: Apache-2.0
// What has just been done, or has failed: said at the foot of the page for some seconds, and read
// out by screen readers.

import {h} from './dom.js';

const kShownMs = 6000;

function show(kind, text) {
  const place = document.getElementById('notices');
  const close = h('button',
    {class: 'bare', 'aria-label': 'Dismiss', onclick: () => remove()}, '×');
  const notice = h('div', {class: `notice ${kind}`}, h('span', {}, text), close);
  const timer = setTimeout(() => remove(), kind === 'bad' ? 2 * kShownMs : kShownMs);
  function remove() {
    clearTimeout(timer);
    notice.remove();
  }
  place.append(notice);
  while (place.children.length > 4) place.firstElementChild.remove();
}

export const done = (text) => show('good', text);
export const failed = (error) => show('bad', error.sentence ?? error.message ?? String(error));

/** Runs what a button does: the button waits, and a failure is said. Returns whether it worked. */
export async function attempt(button, action) {
  if (button) button.disabled = true;
  try {
    await action();
    return true;
  } catch (error) {
    failed(error);
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}
