// SPDX-License-Identifier: Apache-2.0
// The HTTP API as the pages call it: docs/reference/http-api.md says what each path does.

const kTokenKey = 'carillon.token';
const kBase = 'api/v1';

/** An answer that is not a success: an RFC 9457 problem document, or no answer at all. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.title = problem.title ?? '';
    this.field = problem.field ?? null;
    this.limit = problem.limit ?? null;
  }

  /** In one line, with the field and the limit, if it names them. */
  get sentence() {
    const parts = [];
    if (this.field && !this.message.includes(this.field)) parts.push(`field: ${this.field}`);
    if (this.limit !== null && !this.message.includes(String(this.limit))) {
      parts.push(`limit: ${this.limit}`);
    }
    return parts.length > 0 ? `${this.message} (${parts.join(', ')})` : this.message;
  }
}

let token = '';
try {
  token = sessionStorage.getItem(kTokenKey) ?? '';
} catch {
  // Storage is forbidden: a token lasts until the page is left.
}

export const has_token = () => token !== '';

/** Kept for this tab, until it is closed. */
export function set_token(text) {
  token = text;
  try {
    if (text) sessionStorage.setItem(kTokenKey, text);
    else sessionStorage.removeItem(kTokenKey);
  } catch {
    // As above.
  }
}

export function headers(more) {
  return {...(token ? {Authorization: `Bearer ${token}`} : {}), ...more};
}

export const url_of = (path) => `${kBase}/${path}`;

/** What happens when the server wants (another) token; set by main.js. */
export const on_unauthorized = {ask: () => {}};

async function problem_of(response) {
  try {
    return await response.json();
  } catch {
    return {title: response.statusText};
  }
}

async function send(method, path, body, options = {}) {
  const init = {method, headers: headers(options.headers), cache: 'no-store', ...options.init};
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers['Content-Type'] = 'application/json';
  } else if (method !== 'GET') {
    // Not a request that a form of another site could make.
    init.headers['Content-Type'] = 'application/json';
  }
  let response;
  try {
    response = await fetch(url_of(path), init);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, {title: 'No connection', detail: 'The server cannot be reached.'});
  }
  if (!response.ok) {
    if (response.status === 401) on_unauthorized.ask();
    throw new ApiError(response.status, await problem_of(response));
  }
  return response;
}

async function json(method, path, body, options) {
  const response = await send(method, path, body, options);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

function query(fields) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== null && value !== undefined && value !== '') parameters.set(name, value);
  }
  const text = parameters.toString();
  return text ? `?${text}` : '';
}

const tube_path = (tube) => `tubes/${encodeURIComponent(tube)}`;
const job_path = (id) => `jobs/${encodeURIComponent(id)}`;

export const stats = () => json('GET', 'stats');
export const tubes = () => json('GET', 'tubes');
export const tube = (name) => json('GET', tube_path(name));
export const pause = (name, for_ms) => json('PUT', `${tube_path(name)}/pause`, {for_ms});
export const resume = (name) => json('DELETE', `${tube_path(name)}/pause`);
export const kick = (name, n) => json('POST', `${tube_path(name)}/kick`, {count: n});
export const clear = (name, states) => json('POST', `${tube_path(name)}/clear`, {states});
export const set_settings = (name, settings) =>
  json('PUT', `${tube_path(name)}/settings`, settings);

/** A page of jobs, of all tubes if `name` is null. */
export const list = (name, filter, init) =>
  json('GET', (name === null ? 'jobs' : `${tube_path(name)}/jobs`) + query(filter), undefined,
    {init});
export const job = (id) => json('GET', `${job_path(id)}?body=false`);
export const kick_job = (id) => json('POST', `${job_path(id)}/kick`);
export const cancel = (id) => json('DELETE', job_path(id));
export const change = (id, changes) => json('PATCH', job_path(id), changes);

/** The bytes of a job's body. */
export async function body(id) {
  const response = await send('GET', `${job_path(id)}/body`);
  return {
    type: response.headers.get('Content-Type') ?? '',
    bytes: new Uint8Array(await response.arrayBuffer()),
  };
}

export const put = (name, put_body) => json('POST', `${tube_path(name)}/jobs`, put_body);

export const schedules = () => json('GET', 'schedules');
export const run_schedule = (name) => json('POST', `schedules/${encodeURIComponent(name)}/run`);
export const delete_schedule = (name) => json('DELETE', `schedules/${encodeURIComponent(name)}`);
