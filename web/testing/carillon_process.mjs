// SPDX-License-Identifier: Apache-2.0
// A server for a test: on ports of its own, with a folder of its own.

import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {createServer} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const kStartMs = 20_000;

async function free_port() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const {port} = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

export class CarillonProcess {
  #program;
  #options;
  #process = null;
  #folder = mkdtempSync(join(tmpdir(), 'carillon-web-'));
  #log = '';

  constructor(program, options = []) {
    this.#program = program;
    this.#options = options;
  }

  get log() {
    return this.#log;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Once more on the same ports, with the same folder, after stop(). */
  async start() {
    this.port ??= await free_port();
    this.beanstalk_port ??= await free_port();
    this.#process = spawn(this.#program, ['serve', '--data', join(this.#folder, 'data'),
      '--listen', `127.0.0.1:${this.beanstalk_port}`, '--http-listen', `127.0.0.1:${this.port}`,
      ...this.#options], {stdio: ['ignore', 'pipe', 'pipe']});
    let ended = false;
    this.#process.once('exit', () => (ended = true));
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      stream.on('data', (bytes) => (this.#log += bytes));
    }
    const until = Date.now() + kStartMs;
    for (;;) {
      if (ended || Date.now() > until) throw new Error(`the server did not start\n${this.#log}`);
      try {
        if ((await fetch(`${this.url}/healthz`)).ok) return;
      } catch {
        // Not yet.
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async stop() {
    const stopping = this.#process;
    this.#process = null;
    if (!stopping || stopping.exitCode !== null) return;
    await new Promise((resolve) => {
      stopping.once('exit', resolve);
      stopping.kill('SIGTERM');
      setTimeout(() => stopping.kill('SIGKILL'), 10_000).unref();
    });
  }

  async close() {
    await this.stop();
    rmSync(this.#folder, {recursive: true, force: true});
  }

  /** An API call; throws what the server says if it is not a success. */
  async call(method, path, body, headers = {}) {
    const response = await fetch(`${this.url}/api/v1/${path}`, {
      method, headers: {'Content-Type': 'application/json', ...headers},
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  async put(tube, job) {
    return (await this.call('POST', `tubes/${encodeURIComponent(tube)}/jobs`, job)).id;
  }

  /** Many, in batches. */
  async put_all(tube, jobs) {
    for (let at = 0; at < jobs.length; at += 5000) {
      await this.call('POST', `tubes/${encodeURIComponent(tube)}/jobs:batch`,
        jobs.slice(at, at + 5000));
    }
  }
}
