// SPDX-License-Identifier: Apache-2.0
// The full round trip of node-beanstalk (npm) against the server at HOST PORT.

import nodeBeanstalk from 'node-beanstalk';
import { address, assert, BINARY, done, putRaw, sleep, step, until } from './check.mjs';

const { Client, Pool } = nodeBeanstalk;
const server = address();

/** Bodies as they are: node-beanstalk writes JSON otherwise. */
const plain = {
  serialize: (data) => Buffer.from(data),
  deserialize: (buffer) => buffer,
};

const connect = async () => {
  const connected = new Client({ ...server, serializer: plain });
  await connected.connect();
  return connected;
};
const text = (job) => ({ id: job.id, body: job.payload.toString() });

const client = await connect();
const other = await connect();
let id;

await step('use, watch, ignore', async () => {
  assert.equal(await client.listTubeUsed(), 'default');
  assert.equal(await client.use('node-beanstalk'), 'node-beanstalk');
  assert.equal(await client.listTubeUsed(), 'node-beanstalk');
  assert.equal(await client.watch('node-beanstalk'), 2);
  assert.equal(await client.ignore('default'), true);
  assert.equal(await client.ignore('node-beanstalk'), false); // NOT_IGNORED
  assert.deepEqual(await client.listTubesWatched(), ['node-beanstalk']);
  await other.use('node-beanstalk');
});

await step('put and reserve', async () => {
  const put = await client.put('hello', 60, 7, 0);
  assert.equal(put.state, 'ready');
  id = put.id;
  assert.deepEqual(text(await client.reserve()), { id, body: 'hello' });
});

await step('stats of a reserved job', async () => {
  const stats = await client.statsJob(id);
  assert.equal(stats.id, id);
  assert.equal(stats.tube, 'node-beanstalk');
  assert.equal(stats.state, 'reserved');
  assert.equal(stats.pri, 7);
  assert.equal(stats.ttr, 60);
  assert.equal(stats.reserves, 1);
  assert.ok(stats['time-left'] <= 59 && stats['time-left'] >= 50);
});

await step('touch', async () => {
  assert.equal(await client.touch(id), true);
  assert.equal(await other.touch(id), false);
});

await step('a reserved job is its holder\'s', async () => {
  assert.equal(await other.delete(id), false);
  assert.equal(await other.release(id), null);
  assert.equal(await other.bury(id), false);
  assert.equal(await other.reserveJob(id), null);
  assert.deepEqual(text(await other.peek(id)), { id, body: 'hello' });
});

await step('release with a delay, kick-job', async () => {
  assert.equal(await client.release(id, 9, 100), 'delayed');
  assert.equal((await client.statsJob(id)).state, 'delayed');
  assert.deepEqual(text(await client.peekDelayed()), { id, body: 'hello' });
  assert.equal(await client.reserveWithTimeout(0), null);
  assert.equal(await client.kickJob(id), true);
  assert.equal(await client.kickJob(id), false);
  assert.equal((await client.peekReady()).id, id);
});

await step('bury, kick', async () => {
  assert.equal((await client.reserveWithTimeout(5)).id, id);
  assert.equal(await client.bury(id, 3), true);
  assert.deepEqual(text(await client.peekBuried()), { id, body: 'hello' });
  assert.equal(await client.kick(10), 1);
  assert.equal(await client.peekBuried(), null);
  assert.equal((await client.statsJob(id)).pri, 3);
});

await step('release without a delay, reserve-job, delete', async () => {
  assert.equal((await client.reserve()).id, id);
  assert.equal(await client.release(id, 3, 0), 'ready');
  assert.deepEqual(text(await other.reserveJob(id)), { id, body: 'hello' });
  assert.equal(await other.delete(id), true);
  assert.equal(await other.delete(id), false);
  assert.equal(await client.peek(id), null);
  assert.equal(await client.statsJob(id), null);
});

await step('priorities', async () => {
  await client.put('late', 60, 4294967295);
  await client.put('soon', 60, 0);
  await client.put('middle', 60, 1024);
  for (const body of ['soon', 'middle', 'late']) {
    const job = await client.reserve();
    assert.equal(job.payload.toString(), body);
    await client.delete(job.id);
  }
});

await step('a delayed job comes in time, and never early', async () => {
  const putAt = performance.now();
  const put = await client.put('delayed', 60, 0, 1);
  assert.equal(put.state, 'delayed');
  assert.equal(await client.reserveWithTimeout(0), null);
  const job = await client.reserveWithTimeout(10);
  const tookMs = performance.now() - putAt;
  assert.equal(job.id, put.id);
  assert.ok(tookMs >= 1000 && tookMs < 3000, `it took ${tookMs} ms`);
  await client.delete(job.id);
});

await step('a waiting client is served', async () => {
  const reserved = client.reserve();
  await until(async () => (await other.statsTube('node-beanstalk'))['current-waiting'] === 1);
  const { id: waited } = await other.put('for the waiting');
  assert.deepEqual(text(await reserved), { id: waited, body: 'for the waiting' });
  await client.delete(waited);
});

await step('DEADLINE_SOON', async () => {
  const { id: short } = await client.put('short', 1);
  assert.equal((await client.reserve()).id, short);
  await assert.rejects(client.reserve(), { code: 'DEADLINE_SOON' });
  await client.delete(short);
});

await step('a ttr that ends', async () => {
  const { id: short } = await client.put('short', 1);
  assert.equal((await client.reserve()).id, short);
  await sleep(1200);
  assert.equal(await client.listTubeUsed(), 'node-beanstalk');
  await until(async () => (await client.statsJob(short)).state === 'ready');
  assert.equal(await client.touch(short), false);
  assert.equal((await client.statsJob(short)).timeouts, 1);
  await client.delete(short);
});

await step('pause-tube', async () => {
  const { id: paused } = await client.put('paused');
  assert.equal(await client.pauseTube('node-beanstalk', 1000), true);
  assert.equal(await client.reserveWithTimeout(0), null);
  assert.equal((await client.statsTube('node-beanstalk')).pause, 1000);
  const reserved = client.reserve();
  await until(async () => (await other.statsTube('node-beanstalk'))['current-waiting'] === 1);
  assert.equal(await other.pauseTube('node-beanstalk', 0), true);
  assert.equal((await reserved).id, paused);
  await client.delete(paused);
  assert.equal(await client.pauseTube('node-beanstalk-nowhere', 1), false);
});

await step('stats and stats-tube', async () => {
  const stats = await client.stats();
  for (const key of ['current-jobs-ready', 'cmd-put', 'total-jobs', 'max-job-size', 'pid',
    'rusage-utime', 'uptime', 'binlog-max-size', 'current-connections']) {
    assert.equal(typeof stats[key], 'number', key);
  }
  for (const key of ['version', 'hostname', 'platform']) {
    assert.equal(typeof stats[key], 'string', key);
  }
  assert.equal(stats.draining, false);
  assert.equal(stats['max-job-size'], 65535);
  const tube = await client.statsTube('node-beanstalk');
  assert.equal(tube.name, 'node-beanstalk');
  assert.equal(tube['current-jobs-ready'], 0);
  assert.equal(tube['current-using'], 2);
  assert.equal(tube['current-watching'], 1);
  assert.equal(await client.statsTube('node-beanstalk-nowhere'), null);
  assert.ok((await client.listTubes()).includes('node-beanstalk'));
});

await step('the largest body, and one too large', async () => {
  const body = 'x'.repeat(65535);
  const { id: large } = await client.put(body);
  assert.equal((await client.reserve()).payload.toString(), body);
  await client.delete(large);
  await assert.rejects(client.put('x'.repeat(65536)), { code: 'JOB_TOO_BIG' });
  assert.equal(await client.listTubeUsed(), 'node-beanstalk');
});

await step('a binary body', async () => {
  const { id: own } = await client.put(BINARY);
  assert.deepEqual((await client.reserve()).payload, BINARY);
  await client.delete(own);
  const raw = Number(await putRaw(server, 'node-beanstalk', BINARY));
  const job = await client.reserve();
  assert.equal(job.id, raw);
  assert.deepEqual(job.payload, BINARY);
  await client.delete(raw);
});

await step('JSON bodies, its own way', async () => {
  const standard = new Client(server);
  await standard.connect();
  await standard.use('node-beanstalk-json');
  await standard.watch('node-beanstalk-json');
  const { id: own } = await standard.put({ order: 17, items: ['ä', '\r\n'] });
  assert.deepEqual((await standard.reserve()).payload, { order: 17, items: ['ä', '\r\n'] });
  await standard.delete(own);
  await standard.disconnect();
});

await step('errors', async () => {
  await assert.rejects(client.use('-node-beanstalk'), /BAD_FORMAT/);
  await assert.rejects(client.reserveWithTimeout(99999999999999999999), /BAD_FORMAT/);
  assert.equal(await client.listTubeUsed(), 'node-beanstalk');
});

await step('closing gives jobs back, and reconnecting goes on', async () => {
  const { id: held } = await client.put('held', 60, 5);
  assert.equal((await client.reserve()).id, held);
  await client.disconnect();
  await until(async () => (await other.statsJob(held)).state === 'ready');
  await client.connect();
  assert.equal(await client.listTubeUsed(), 'default');
  await client.use('node-beanstalk');
  await client.watch('node-beanstalk');
  assert.equal((await client.reserveWithTimeout(5)).id, held);
  await client.delete(held);
});

await step('a pool of clients', async () => {
  const pool = new Pool({ capacity: 4, clientOptions: { ...server, serializer: plain } });
  const put = async (number) => {
    const pooled = await pool.connect();
    try {
      await pooled.use('node-beanstalk');
      await pooled.put(`pool ${number}`);
    } finally {
      pooled.releaseClient();
    }
  };
  await Promise.all(Array.from({ length: 50 }, (_, number) => put(number)));
  const bodies = new Set();
  for (let i = 0; i < 50; i += 1) {
    const job = await client.reserveWithTimeout(5);
    bodies.add(job.payload.toString());
    await client.delete(job.id);
  }
  assert.equal(bodies.size, 50);
  await pool.disconnect();
});

await client.disconnect();
await other.disconnect();
done('node-beanstalk');
