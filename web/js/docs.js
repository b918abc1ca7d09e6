// SPDX-License-Identifier: Apache-2.0
// Draws openapi.json as a page.

const kMethods = ['get', 'post', 'put', 'patch', 'delete'];

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

let description = null;

const name_of = (ref) => ref.split('/').pop();

function resolve(thing) {
  if (!thing?.$ref) return thing;
  return thing.$ref.slice(2).split('/').reduce((at, part) => at[part], description);
}

/** What a schema allows, in a few words; schemas with a name are linked to. */
function type_of(schema) {
  if (schema.$ref) {
    const name = name_of(schema.$ref);
    return [h('a', {href: `#schema-${name}`}, name)];
  }
  if (schema.allOf) return schema.allOf.flatMap(type_of);
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(' | ')];
  if (schema.type === 'array') return ['array of ', ...type_of(schema.items)];
  if (schema.oneOf && !schema.type) {
    return schema.oneOf.flatMap((one, i) => [i > 0 ? ' or ' : '', ...type_of(one)]);
  }
  return [schema.format ?? schema.contentEncoding ?? schema.type ?? 'anything'];
}

function limits_of(schema) {
  const full = {...resolve(schema), ...schema};
  const limits = [];
  if (full.minimum !== undefined || full.maximum !== undefined) {
    limits.push(`${full.minimum ?? ''} to ${full.maximum ?? ''}`);
  }
  if (full.minItems !== undefined || full.maxItems !== undefined) {
    limits.push(`${full.minItems ?? 0} to ${full.maxItems ?? ''} elements`);
  }
  if (full.maxLength !== undefined) limits.push(`at most ${full.maxLength} characters`);
  if (full.default !== undefined) limits.push(`default ${JSON.stringify(full.default)}`);
  return limits.join('; ');
}

function member_table(rows) {
  return h('table', {}, h('tbody', {}, rows.map(([name, schema, required, text]) =>
    h('tr', {}, h('th', {scope: 'row'}, h('code', {}, name), required ? ' *' : ''),
      h('td', {}, ...type_of(schema)), h('td', {}, limits_of(schema)),
      h('td', {}, text ?? resolve(schema).description ?? '')))));
}

function schema_members(schema) {
  const full = resolve(schema);
  if (full.type === 'array') return schema_members(full.items);
  if (!full.properties) return null;
  return member_table(Object.entries(full.properties).map(([name, member]) =>
    [name, member, full.required?.includes(name), member.description]));
}

function contents(content) {
  return Object.entries(content ?? {}).map(([type, {schema}]) =>
    h('p', {}, h('code', {}, type), ' ', ...(schema ? type_of(schema) : [])));
}

function responses_of(operation) {
  return h('table', {}, h('tbody', {}, Object.entries(operation.responses).map(
    ([status, response]) => {
      const full = resolve(response);
      return h('tr', {}, h('th', {scope: 'row'}, status), h('td', {}, full.description),
        h('td', {}, status < 400 ? contents(full.content) : ''));
    })));
}

function article_of(path, method, operation) {
  const roles = operation['x-carillon-roles'];
  const parameters = (operation.parameters ?? []).map(resolve);
  const body = operation.requestBody?.content;
  return h('article', {id: operation.operationId},
    h('h3', {}, h('span', {class: 'method'}, method.toUpperCase()), h('code', {}, path)),
    h('p', {}, operation.summary, '. ', operation.description ?? ''),
    h('p', {class: 'roles'}, roles.length ? `Token: ${roles.join(', ')}` : 'No token'),
    parameters.length ? h('h4', {}, 'Parameters') : null,
    parameters.length ? member_table(parameters.map((parameter) =>
      [parameter.name, parameter.schema, parameter.required,
        [parameter.in, parameter.description].filter(Boolean).join('. ')])) : null,
    body ? h('h4', {}, 'Request') : null,
    body ? contents(body) : null,
    body?.['application/json'] ? schema_members(body['application/json'].schema) : null,
    h('h4', {}, 'Responses'), responses_of(operation));
}

function draw() {
  const nav = document.querySelector('nav');
  const main = document.querySelector('main');
  main.append(h('p', {}, description.info.description));
  for (const tag of description.tags) {
    main.append(h('h2', {}, tag.name), h('p', {}, tag.description ?? ''));
    const list = h('ul', {});
    nav.append(h('strong', {}, tag.name), list);
    for (const [path, methods] of Object.entries(description.paths)) {
      for (const method of kMethods) {
        const operation = methods[method];
        if (!operation?.tags.includes(tag.name)) continue;
        main.append(article_of(path, method, operation));
        list.append(h('li', {}, h('a', {href: `#${operation.operationId}`}, operation.summary)));
      }
    }
  }
  main.append(h('h2', {}, 'Schemas'));
  for (const [name, schema] of Object.entries(description.components.schemas)) {
    const examples = schema.examples?.map((example) =>
      h('pre', {}, JSON.stringify(example, null, 2))) ?? [];
    main.append(h('article', {id: `schema-${name}`}, h('h3', {}, name),
      h('p', {}, schema.description ?? '', ' ', limits_of(schema)),
      schema_members({...schema}) ?? h('p', {}, ...type_of(schema)), ...examples));
  }
  // What the address names was not there when the browser looked for it.
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

try {
  const response = await fetch('/openapi.json');
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  description = await response.json();
  draw();
} catch (error) {
  document.querySelector('main').append(h('p', {role: 'alert'}, String(error)));
}
