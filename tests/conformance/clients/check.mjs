// SPDX-License-Identifier: Apache-2.0
// What the Node programs of this folder share: steps with a name, and a raw socket.

import assert from 'node:assert/strict';
import net from 'node:net';

const STEP_LIMIT_MS = 15000;

let steps = 0;

/** Runs one named step; a step that throws or takes too long ends the program with exit code 1. */
export async function step(name, action) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${STEP_LIMIT_MS} ms`)), STEP_LIMIT_MS);
  });
  try {
    await Promise.race([action(), limit]);
  } catch (error) {
    console.error(`FAIL  ${name}: ${error.stack ?? error}`);
    process.exit(1);
  } finally {
    clearTimeout(timer);
  }
  steps += 1;
}

/** Prints what was done and ends the program with exit code 0. */
export function done(client) {
  console.log(`ok    ${client}: ${steps} steps`);
  process.exit(0);
}

/** Host and port of the command line. */
export function address() {
  const [host, port] = process.argv.slice(2);
  if (!host || !Number.isInteger(Number(port))) {
    console.error(`usage: ${process.argv[1]} HOST PORT`);
    process.exit(2);
  }
  return { host, port: Number(port) };
}

/** Puts a body that the client's own put would change; returns the job's id. */
export function putRaw(server, tube, body) {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = net.connect(server, () => {
      socket.write(Buffer.concat([
        Buffer.from(`use ${tube}\r\nput 0 0 60 ${body.length}\r\n`), body, Buffer.from('\r\n'),
      ]));
    });
    socket.on('data', (data) => {
      answer += data;
      const inserted = /INSERTED (\d+)\r\n/.exec(answer);
      if (inserted) {
        socket.end();
        resolve(inserted[1]);
      }
    });
    socket.on('error', reject);
  });
}

/** Every byte value, with CRLF and NUL among them. */
export const BINARY = Buffer.from([
  ...Array(256).keys(), 0x0d, 0x0a, 0x00, 0x0d, 0x0a, ...Array(256).keys(),
]);

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Calls `action` until it returns something true. */
export async function until(action) {
  for (;;) {
    if (await action()) return;
    await sleep(20);
  }
}

export { assert };
