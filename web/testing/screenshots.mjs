// SPDX-License-Identifier: Apache-2.0
// Pictures of every page with a busy server behind it, to be looked at, and for docs/pictures.
//
// Usage: node screenshots.mjs CARILLON FOLDER [SECONDS [NAME...]]. SECONDS (60) of traffic come
// before the pictures, so that the charts have something to show; NAMEs choose pictures.

import {mkdirSync} from 'node:fs';
import {join} from 'node:path';

import {chromium} from 'playwright-core';

import {CarillonProcess} from './carillon_process.mjs';

const [program, folder, seconds = '60', ...chosen] = process.argv.slice(2);
const browser_path = process.env.CARILLON_TEST_BROWSER ?? '/usr/bin/chromium';

const kDelayed = 300_000;
const kDay = 86_400_000;
/** Jobs that stay while their picture is taken. */
const kTomorrow = new Date(Date.now() + kDay).toISOString().slice(0, 19);
const kLater = `#/tubes/orders.unpaid?from=${kTomorrow}`;
/** A tube, its share of the jobs, and what a body of it is like. */
const kTubes = [
  ['orders.unpaid', 0.4, (n) => ({order: n, customer: `c-${n % 977}`,
    total: {amount: 1990 + n % 7000, currency: 'EUR'}})],
  ['mail.reminder', 0.25, (n) => ({to: `user${n % 5000}@example.com`, template: 'reminder-2'})],
  ['webhooks.retry', 0.12, (n) => ({url: 'https://example.com/hooks', event: n})],
  ['sessions.expire', 0.1, (n) => ({session: n.toString(16).padStart(12, '0')})],
  ['invoices.dunning', 0.08, (n) => ({invoice: `2026-${n}`, level: n % 3})],
  ['search.reindex', 0.04, (n) => ({document: n})],
  ['reports.nightly', 0.01, (n) => ({report: n})],
];

/** Each name, address, width, height, colour scheme, and what to do first. */
const kPictures = [
  ['overview', '#/', 1440, 1000, 'light'],
  ['overview-dark', '#/', 1440, 1000, 'dark'],
  ['overview-phone', '#/', 360, 780, 'light', {whole: true}],
  ['tubes', '#/tubes', 1280, 720, 'light'],
  ['tube', '#/tubes/orders.unpaid', 1280, 860, 'light'],
  ['tube-phone', '#/tubes/webhooks.retry?state=buried', 360, 780, 'dark', {whole: true}],
  ['tube-settings', '#/tubes/webhooks.retry?state=buried', 1280, 900, 'dark', {whole: true}],
  ['job', kLater, 1280, 800, 'light',
    {first: async (page) => {
      await page.locator('.jobs tbody a').nth(30).click();
      await page.waitForSelector('dialog pre.body');
    }}],
  ['reschedule', kLater, 1280, 800, 'dark',
    {first: async (page) => {
      await page.locator('.jobs tbody a').nth(30).click();
      await page.getByRole('button', {name: 'Reschedule …'}).click();
    }}],
  ['job-phone', kLater, 360, 780, 'light',
    {first: async (page) => {
      await page.locator('.jobs tbody a').nth(30).click();
      await page.waitForSelector('dialog pre.body');
    }}],
  ['jobs', '#/jobs?state=buried', 1280, 720, 'light'],
  ['schedules', '#/schedules', 1280, 560, 'light'],
  ['schedules-phone', '#/schedules', 360, 780, 'light'],
  ['server', '#/server', 1280, 820, 'dark'],
];

const server = new CarillonProcess(program);
let count = 0;
let running = true;

/** Between a second and ten days from now; as many within a minute as within the last days. */
const some_delay = () => Math.round(Math.exp(Math.random() * Math.log(10 * kDay / 1000)) * 1000);

function job_of([, , body], delay_ms) {
  const n = ++count;
  return {body: JSON.stringify(body(n)), content_type: 'application/json', key: `k-${n}`, delay_ms};
}

async function fill_server() {
  for (const tube of kTubes) {
    await server.put_all(tube[0], Array.from({length: Math.round(kDelayed * tube[1])},
      () => job_of(tube, some_delay())));
  }
}

async function schedule(name, what) {
  await server.call('PUT', `schedules/${name}`, what).catch((error) => console.log(error.message));
}

async function produce() {
  while (running) {
    const began = Date.now();
    for (const tube of kTubes) {
      const jobs = Array.from({length: Math.ceil(120 * tube[1] * (0.7 + 0.6 * Math.random()))},
        () => job_of(tube, Math.min(some_delay(), 400_000)));
      await server.call('POST', `tubes/${tube[0]}/jobs:batch`, jobs);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, 500 - (Date.now() - began))));
  }
}

async function consume() {
  const tubes = kTubes.map(([name]) => name);
  while (running) {
    const {jobs} = await server.call('POST', 'reserve', {tubes, max: 100, wait_ms: 1000});
    await new Promise((resolve) => setTimeout(resolve, 60 + 120 * Math.random()));
    const bad = jobs.filter((job) => job.tube === 'webhooks.retry' && Number(job.id) % 97 === 0);
    const good = jobs.filter((job) => !bad.includes(job));
    if (good.length > 0) {
      await server.call('POST', 'ack', {jobs: good.map(({id, receipt}) => ({id, receipt}))});
    }
    for (const {id, receipt} of bad) await server.call('POST', `jobs/${id}/bury`, {receipt});
  }
}

async function picture(browser, [name, path, width, height, colorScheme, {whole, first} = {}]) {
  const context = await browser.newContext({viewport: {width, height}, colorScheme});
  const page = await context.newPage();
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) console.log(`${name}: ${message.text()}`);
  });
  await page.goto(`${server.url}/${path}`);
  await page.waitForSelector('#connection[data-state="live"]');
  await page.waitForTimeout(2500);
  if (first) await first(page);
  await page.waitForTimeout(300);
  await page.screenshot({path: join(folder, `${name}.png`), fullPage: whole});
  await context.close();
}

mkdirSync(folder, {recursive: true});
let browser;
try {
  await server.start();
  await fill_server();
  await schedule('nightly-report', {tube: 'reports.nightly',
    cron: '0 2 * * *', time_zone: 'Europe/Berlin', body: '{}'});
  await schedule('reindex', {tube: 'search.reindex', every_ms: 30_000,
    body: '{}', overlap: 'skip'});
  await schedule('month-end', {tube: 'invoices.dunning',
    cron: '30 6 1 * *', time_zone: 'Europe/London', body: '{}', missed: 'once'});
  await server.call('PUT', 'tubes/search.reindex/pause', {for_ms: 600_000});
  await server.call('PUT', 'tubes/webhooks.retry/settings', {max_jobs: 500_000});
  const traffic = Promise.all([produce(), consume(), consume()]);
  browser = await chromium.launch({executablePath: browser_path,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
  const watching = await browser.newPage();  // Without a watcher nothing is sampled.
  await watching.goto(server.url);
  await Promise.race([traffic, new Promise((resolve) => setTimeout(resolve, seconds * 1000))]);
  for (const one of kPictures) {
    if (chosen.length === 0 || chosen.includes(one[0])) await picture(browser, one);
  }
  running = false;
  await traffic;
} finally {
  running = false;
  await browser?.close();
  await server.close();
}
