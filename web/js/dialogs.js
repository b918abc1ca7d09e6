// SPDX-License-Identifier: Apache-2.0
// Questions: a modal <dialog>, which keeps the focus inside, closes with Escape and gives the focus
// back where it came from.

import {ApiError} from './api.js';
import {fill, h} from './dom.js';

let next_id = 1;

/**
 * Asks with a form. `fields` are [{name, label, type, value, hint, options, required}]; `submit`
 * gets their values by name, and may throw: the dialog stays open and shows why, at the field that
 * the server names. Resolves to whether it was submitted.
 */
export function ask({title, text, fields = [], action, danger = false, submit}) {
  return new Promise((resolve) => {
    const id = `dialog-${next_id++}`;
    const inputs = new Map();
    const hints = new Map();
    const problem = h('p', {class: 'problem', role: 'alert'});
    const go = h('button', {class: danger ? 'danger' : 'primary', type: 'submit'}, action);
    let submitted = false;

    const rows = fields.map((field) => {
      const hint = h('small', {id: `${id}-${field.name}-hint`}, field.hint);
      const attributes = {
        id: `${id}-${field.name}`, name: field.name, value: field.value ?? '',
        required: field.required, 'aria-describedby': hint.id, placeholder: field.placeholder,
        autocomplete: 'off', spellcheck: 'false', min: field.min, step: field.step,
      };
      let input;
      if (field.type === 'select') {
        input = h('select', {...attributes, value: undefined}, field.options.map(([value, label]) =>
          h('option', {value, selected: value === field.value}, label)));
      } else if (field.type === 'textarea') {
        input = h('textarea', {...attributes, rows: field.rows ?? 6});
      } else if (field.type === 'checkbox') {
        input = h('input', {...attributes, value: 'on', type: 'checkbox', checked: field.value});
        inputs.set(field.name, input);
        hints.set(field.name, hint);
        return h('div', {class: 'field check'}, h('label', {}, input, field.label), hint);
      } else {
        input = h('input', {...attributes, type: field.type ?? 'text'});
      }
      inputs.set(field.name, input);
      hints.set(field.name, hint);
      return h('div', {class: 'field'}, h('label', {for: input.id}, field.label), input, hint);
    });

    const dialog = h('dialog', {class: 'question', 'aria-labelledby': `${id}-title`},
      h('form', {method: 'dialog', onsubmit: on_submit},
        h('h2', {id: `${id}-title`}, title), text ? h('p', {}, text) : null, rows, problem,
        h('div', {class: 'buttons'},
          h('button', {type: 'button', onclick: () => dialog.close()}, 'Cancel'), go)));

    async function on_submit(event) {
      event.preventDefault();
      const values = {};
      for (const [name, input] of inputs) {
        values[name] = input.type === 'checkbox' ? input.checked : input.value;
        input.removeAttribute('aria-invalid');
      }
      fill(problem);
      go.disabled = true;
      try {
        await submit(values);
        submitted = true;
        dialog.close();
      } catch (error) {
        show(error);
      } finally {
        go.disabled = false;
      }
    }

    function show(error) {
      fill(problem, error instanceof ApiError ? error.sentence : error.message);
      const name = error.dialog_field ?? error.field?.split(/[./]/).filter(Boolean)[0];
      const input = inputs.get(name);
      if (!input) return;
      input.setAttribute('aria-invalid', 'true');
      input.focus();
    }

    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(submitted);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A value that a field of ask() does not take. */
export function wrong(field, message) {
  const error = new Error(message);
  error.dialog_field = field;
  return error;
}
