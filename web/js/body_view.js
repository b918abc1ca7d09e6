// SPDX-License-Identifier: Apache-2.0
// A job's body: as text, as indented JSON, or as bytes in hexadecimal. By its content type at
// first, and as the reader likes after that. Always as text nodes: a body is what a stranger wrote.

import {fill, h} from './dom.js';
import {bytes as size_of, plural} from './format.js';

/** More is not shown: a page is no place for it. */
const kMostShown = 256 * 1024;
const kHexWidth = 16;

function text_of(bytes) {
  try {
    const text = new TextDecoder('utf-8', {fatal: true}).decode(bytes);
    // eslint-disable-next-line no-control-regex
    return /[\x00-\x08\x0e-\x1f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

function json_of(text) {
  if (text === null || text.trim() === '') return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

/** "00000010  62 6f 64 79 …  body": as hexdump -C. */
export function hex_of(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += kHexWidth) {
    const part = bytes.subarray(at, at + kHexWidth);
    const hex = Array.from(part, (byte) => byte.toString(16).padStart(2, '0'));
    const signs = Array.from(part, (byte) =>
      (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.'));
    const columns = `${hex.slice(0, 8).join(' ')}  ${hex.slice(8).join(' ')}`;
    lines.push(`${at.toString(16).padStart(8, '0')}  ${columns.padEnd(49)} ${signs.join('')}`);
  }
  return lines.join('\n');
}

/** An element that shows `bytes`, which the job says are of the content type `type`. */
export function body_view({type, bytes}) {
  const shown = bytes.subarray(0, kMostShown);
  const text = text_of(bytes.length > kMostShown ? trimmed(shown) : bytes);
  const json = bytes.length > kMostShown ? null : json_of(text);
  const forms = [
    ['json', 'JSON', json], ['text', 'Text', text], ['hex', 'Hex', null],
  ].filter(([name, , content]) => name === 'hex' || content !== null);
  const wants_json = /\bjson\b/i.test(type) || /^\s*[[{]/.test(text ?? '');
  const first = forms.find(([name]) => name === 'json') && wants_json ? 'json'
    : text !== null ? 'text' : 'hex';

  const view = h('pre', {class: 'body', tabindex: '0', 'aria-label': 'Body'});
  const show = (name) => {
    view.classList.toggle('hex', name === 'hex');
    const content = {json, text}[name] ?? hex_of(shown.subarray(0, kMostShown / 4));
    fill(view, bytes.length === 0 ? h('span', {class: 'none'}, 'empty') : content);
  };
  show(first);
  const copy = h('button', {class: 'small', onclick: async () => {
    await navigator.clipboard.writeText(view.textContent);
    copy.textContent = 'Copied';
    setTimeout(() => (copy.textContent = 'Copy'), 1500);
  }}, 'Copy');
  if (!navigator.clipboard) copy.hidden = true;
  return h('div', {class: 'body-view'}, h('div', {class: 'body-head'},
    h('fieldset', {class: 'segments small', 'aria-label': 'Show the body as'},
      forms.map(([name, label]) => h('label', {}, h('input', {type: 'radio', name: 'body-form',
        value: name, checked: name === first, onchange: () => show(name)}), h('span', {}, label)))),
    h('small', {}, type || 'no content type', ', ', size_of(bytes.length)), copy), view,
  bytes.length > kMostShown ? h('small', {class: 'note'},
    `The first ${plural(kMostShown / 1024, 'KiB')} only.`.replace('KiBs', 'KiB')) : null);
}

/** Without the bytes of a character that was cut in two at the end. */
function trimmed(bytes) {
  let end = bytes.length;
  for (let back = 1; back <= 4 && back <= end; ++back) {
    if ((bytes[end - back] & 0xc0) === 0x80) continue;
    if (bytes[end - back] >= 0xc0) end -= back;
    break;
  }
  return bytes.subarray(0, end);
}
