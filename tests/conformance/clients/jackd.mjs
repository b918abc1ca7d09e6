// SPDX-License-Identifier: Apache-2.0
// The full round trip of jackd (npm) against the server at HOST PORT.

import Jackd from 'jackd';
import { address, assert, BINARY, done, putRaw, sleep, step, until } from './check.mjs';

const server = address();
const connect = () => new Jackd().connect(server);

let client = await connect();
const other = await connect();
let id;

/** jackd leaves YAML to its user; so this reads it as simply as most do, quoted strings or not. */
const yaml = (text) => {
  assert.ok(text.startsWith('---\n'), text);
  return Object.fromEntries(text.slice(4).trimEnd().split('\n').map((line) => {
    const at = line.indexOf(': ');
    assert.ok(at > 0, line);
    return [line.slice(0, at), line.slice(at + 2).replace(/^"(.*)"$/, '$1')];
  }));
};
const list = (text) => {
  assert.ok(text.startsWith('---\n'), text);
  return text.slice(4).trimEnd().split('\n').map((line) => line.replace(/^- /, ''));
};
const text = (job) => ({ id: job.id, body: job.payload.toString() });
/** jackd 2.2.2 forgets the CRLF of pause-tube. */
const pauseTube = (connection, tube, delay) => {
  const answer = connection.pauseTube(tube, { delay });
  connection.write(Buffer.from('\r\n'));
  return answer;
};

await step('use, watch, ignore', async () => {
  assert.equal(await client.listTubeUsed(), 'default');
  assert.equal(await client.use('jackd'), 'jackd');
  assert.equal(await client.listTubeUsed(), 'jackd');
  assert.equal(await client.watch('jackd'), 2);
  assert.equal(await client.ignore('default'), 1);
  await assert.rejects(client.ignore('jackd'), /NOT_IGNORED/);
  assert.deepEqual(list(await client.listTubesWatched()), ['jackd']);
  await other.use('jackd');
});

await step('put and reserve', async () => {
  id = await client.put('hello', { priority: 7, ttr: 60 });
  assert.match(id, /^\d+$/);
  assert.deepEqual(text(await client.reserve()), { id, body: 'hello' });
});

await step('stats of a reserved job', async () => {
  const stats = yaml(await client.statsJob(id));
  assert.equal(stats.id, id);
  assert.equal(stats.tube, 'jackd');
  assert.equal(stats.state, 'reserved');
  assert.equal(stats.pri, '7');
  assert.equal(stats.ttr, '60');
  assert.equal(stats.reserves, '1');
});

await step('touch', async () => {
  await client.touch(id);
  await assert.rejects(other.touch(id), /NOT_FOUND/);
});

await step('a reserved job is its holder\'s', async () => {
  await assert.rejects(other.delete(id), /NOT_FOUND/);
  await assert.rejects(other.release(id), /NOT_FOUND/);
  await assert.rejects(other.bury(id), /NOT_FOUND/);
  await assert.rejects(other.reserveJob(id), /NOT_FOUND/);
  assert.deepEqual(text(await other.peek(id)), { id, body: 'hello' });
});

await step('release with a delay, kick-job', async () => {
  await client.release(id, { priority: 9, delay: 100 });
  assert.equal(yaml(await client.statsJob(id)).state, 'delayed');
  assert.deepEqual(text(await client.peekDelayed()), { id, body: 'hello' });
  await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/);
  await client.kickJob(id);
  await assert.rejects(client.kickJob(id), /NOT_FOUND/);
  assert.equal((await client.peekReady()).id, id);
});

await step('bury, kick', async () => {
  assert.equal((await client.reserveWithTimeout(5)).id, id);
  await client.bury(id, 3);
  assert.deepEqual(text(await client.peekBuried()), { id, body: 'hello' });
  assert.equal(await client.kick(10), 1);
  await assert.rejects(client.peekBuried(), /NOT_FOUND/);
  assert.equal(yaml(await client.statsJob(id)).pri, '3');
});

await step('release without a delay, reserve-job, delete', async () => {
  assert.equal((await client.reserve()).id, id);
  await client.release(id, { priority: 3 });
  assert.deepEqual(text(await other.reserveJob(id)), { id, body: 'hello' });
  await other.delete(id);
  await assert.rejects(other.delete(id), /NOT_FOUND/);
  await assert.rejects(client.peek(id), /NOT_FOUND/);
  await assert.rejects(client.statsJob(id), /NOT_FOUND/);
});

await step('priorities', async () => {
  await client.put('late', { priority: 4294967295 });
  await client.put('soon', { priority: 0 });
  await client.put('middle', { priority: 1024 });
  for (const body of ['soon', 'middle', 'late']) {
    const job = await client.reserve();
    assert.equal(job.payload.toString(), body);
    await client.delete(job.id);
  }
});

await step('a delayed job comes in time, and never early', async () => {
  const putAt = performance.now();
  const delayed = await client.put('delayed', { delay: 1 });
  await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/);
  const job = await client.reserveWithTimeout(10);
  const tookMs = performance.now() - putAt;
  assert.equal(job.id, delayed);
  assert.ok(tookMs >= 1000 && tookMs < 3000, `it took ${tookMs} ms`);
  await client.delete(job.id);
});

await step('a waiting client is served', async () => {
  const reserved = client.reserve();
  await until(async () => yaml(await other.statsTube('jackd'))['current-waiting'] === '1');
  const waited = await other.put('for the waiting');
  assert.deepEqual(text(await reserved), { id: waited, body: 'for the waiting' });
  await client.delete(waited);
});

await step('DEADLINE_SOON', async () => {
  const short = await client.put('short', { ttr: 1 });
  assert.equal((await client.reserve()).id, short);
  await assert.rejects(client.reserve(), /DEADLINE_SOON/);
  await client.delete(short);
});

await step('a ttr that ends', async () => {
  const short = await client.put('short', { ttr: 1 });
  assert.equal((await client.reserve()).id, short);
  await sleep(1200);
  await client.listTubeUsed();
  await until(async () => yaml(await client.statsJob(short)).state === 'ready');
  await assert.rejects(client.touch(short), /NOT_FOUND/);
  assert.equal(yaml(await client.statsJob(short)).timeouts, '1');
  await client.delete(short);
});

await step('pause-tube', async () => {
  const paused = await client.put('paused');
  await pauseTube(client, 'jackd', 1000);
  await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/);
  assert.equal(yaml(await client.statsTube('jackd')).pause, '1000');
  const reserved = client.reserve();
  await until(async () => yaml(await other.statsTube('jackd'))['current-waiting'] === '1');
  await pauseTube(other, 'jackd', 0);
  assert.equal((await reserved).id, paused);
  await client.delete(paused);
  await assert.rejects(pauseTube(client, 'jackd-nowhere', 1), /NOT_FOUND/);
});

await step('stats and stats-tube', async () => {
  const stats = yaml(await client.stats());
  assert.equal(stats['max-job-size'], '65535');
  assert.equal(stats.draining, 'false');
  assert.equal(stats['current-jobs-ready'], '0');
  const tube = yaml(await client.statsTube('jackd'));
  assert.equal(tube.name, 'jackd');
  assert.equal(tube['current-using'], '2');
  assert.equal(tube['current-watching'], '1');
  await assert.rejects(client.statsTube('jackd-nowhere'), /NOT_FOUND/);
  assert.ok(list(await client.listTubes()).includes('jackd'));
});

await step('the largest body, and one too large', async () => {
  const body = 'x'.repeat(65535);
  const large = await client.put(body);
  assert.equal((await client.reserve()).payload.toString(), body);
  await client.delete(large);
  await assert.rejects(client.put('x'.repeat(65536)), /JOB_TOO_BIG/);
  assert.equal(await client.listTubeUsed(), 'jackd');
});

await step('a binary body', async () => {
  // jackd's put turns a Buffer into JSON, so another socket puts this one.
  const raw = await putRaw(server, 'jackd', BINARY);
  const job = await client.reserve();
  assert.equal(job.id, raw);
  assert.deepEqual(job.payload, BINARY);
  assert.deepEqual((await client.peek(raw)).payload, BINARY);
  await client.delete(raw);
  const own = await client.put('\r\n\0 ä \r\n');
  assert.equal((await client.reserve()).payload.toString(), '\r\n\0 ä \r\n');
  await client.delete(own);
});

await step('an object as a body', async () => {
  const own = await client.put({ order: 17 });
  assert.deepEqual(JSON.parse((await client.reserve()).payload.toString()), { order: 17 });
  await client.delete(own);
});

await step('errors', async () => {
  await assert.rejects(client.use('-jackd'), /BAD_FORMAT/);
  await assert.rejects(client.watch('jackd jackd'), /BAD_FORMAT/);
  // The body of a malformed put is taken for a command, whose answer this client would mistake for
  // the next one's: so a client of its own.
  const malformed = await connect();
  await assert.rejects(malformed.put('x', { priority: -1 }), /BAD_FORMAT/);
  await malformed.disconnect();
  assert.equal(await client.listTubeUsed(), 'jackd');
});

await step('commands without waiting for answers', async () => {
  const puts = Array.from({ length: 200 }, (_, number) => client.put(`job ${number}`));
  const ids = await Promise.all(puts);
  assert.equal(new Set(ids).size, 200);
  for (let number = 0; number < 200; number += 1) {
    assert.deepEqual(text(await client.reserve()), { id: ids[number], body: `job ${number}` });
    await client.delete(ids[number]);
  }
});

await step('closing gives jobs back, and reconnecting goes on', async () => {
  const held = await client.put('held', { priority: 5 });
  assert.equal((await client.reserve()).id, held);
  await client.disconnect();
  await until(async () => yaml(await other.statsJob(held)).state === 'ready');
  client = await connect();
  assert.equal(await client.listTubeUsed(), 'default');
  await client.use('jackd');
  await client.watch('jackd');
  assert.equal((await client.reserveWithTimeout(5)).id, held);
  await client.delete(held);
});

await client.disconnect();
await other.disconnect();
done('jackd');
