// SPDX-License-Identifier: Apache-2.0
// Elements from code. Whatever comes from the server becomes a text node, never markup; the page's
// policy (trusted types) has the browser refuse anything else.

/**
 * Makes an element: h('button', {class: 'quiet', onclick: f, 'aria-label': 'x'}, 'text', child).
 * Attributes that are null, undefined or false are left out; functions become listeners.
 */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') {
      element.addEventListener(name.slice(2), value);
    } else if (name === 'value' || name === 'checked' || name === 'disabled') {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces what is in `element`. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Sets the text, if it is another: an unchanged page is not laid out again. */
export function say(element, text) {
  const wanted = text === null || text === undefined ? '' : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/** The value of a custom property as the browser computes it (light-dark() resolved). */
export function color_of(name) {
  const probe = document.createElement('i');
  probe.style.color = `var(${name})`;
  probe.hidden = true;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

/**
 * Keeps the rows of a table body as the list says: rows are made once for each key, then updated,
 * so that focus and selection survive. `make(item)` returns {row, update(item)}.
 */
export class RowList {
  #body;
  #key;
  #make;
  #rows = new Map();

  constructor(body, key, make) {
    this.#body = body;
    this.#key = key;
    this.#make = make;
  }

  show(items) {
    const kept = new Set();
    let before = this.#body.firstElementChild;
    for (const item of items) {
      const key = this.#key(item);
      kept.add(key);
      let entry = this.#rows.get(key);
      if (!entry) this.#rows.set(key, entry = this.#make(item));
      entry.update(item);
      if (entry.row === before) {
        before = before.nextElementSibling;
      } else {
        this.#body.insertBefore(entry.row, before);
      }
    }
    for (const [key, entry] of this.#rows) {
      if (kept.has(key)) continue;
      entry.row.remove();
      this.#rows.delete(key);
    }
  }
}
