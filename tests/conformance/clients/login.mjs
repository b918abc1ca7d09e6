// SPDX-License-Identifier: Apache-2.0
// jackd and node-beanstalk log in to the server at HOST PORT with TOKEN, as any client can.

import assert from 'node:assert/strict';
import Jackd from 'jackd';
import nodeBeanstalk from 'node-beanstalk';

const [host, port, token] = process.argv.slice(2);
const server = { host, port: Number(port) };

const jackd = await new Jackd().connect(server);
await assert.rejects(jackd.put('too early'), /UNKNOWN_COMMAND/);
await assert.rejects(jackd.use('login;wrong'), /BAD_FORMAT/);
await jackd.use(`login;${token}`);
await jackd.use('jackd');
await jackd.watch('jackd');
const id = await jackd.put('hello');
assert.equal((await jackd.reserveWithTimeout(5)).id, id);
await jackd.delete(id);
await jackd.quit();

const node = new nodeBeanstalk.Client(server);
await node.connect();
await assert.rejects(node.put('too early'));
await node.use(`login;${token}`);
await node.use('node');
assert.equal((await node.put('hello')).state, 'ready');
process.exit(0); // Its socket is open.
