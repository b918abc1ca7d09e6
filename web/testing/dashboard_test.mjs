// SPDX-License-Identifier: Apache-2.0
// The dashboard in a real browser, against the real server.
//
// Usage: node dashboard_test.mjs CARILLON. Ends with 77, which ctest takes for "skipped", where
// there is no browser, or no playwright-core (npm ci in web/).

import assert from 'node:assert/strict';
import {existsSync} from 'node:fs';
import {after, before, describe, test} from 'node:test';

import {CarillonProcess} from './carillon_process.mjs';

const kSkipped = 77;
const kBrowsers = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const kPatienceMs = 10_000;

const program = process.argv[2];
const browser_path = process.env.CARILLON_TEST_BROWSER ?? kBrowsers.find(existsSync);
let chromium = null;
try {
  ({chromium} = await import('playwright-core'));
} catch {
  console.log('skipped: no playwright-core; run npm ci in web/');
  process.exit(kSkipped);
}
if (!browser_path) {
  console.log('skipped: no chromium');
  process.exit(kSkipped);
}

let browser;
let server;

/** A page that notes every error, in its console, of its scripts, and against its policy. */
async function open_page(path = '', options = {}, at = server) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900},
    reducedMotion: 'no-preference', ...options});
  context.setDefaultTimeout(kPatienceMs);
  const page = await context.newPage();
  page.problems = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.problems.push(message.text());
  });
  page.on('pageerror', (error) => page.problems.push(String(error.stack)));
  page.on('dialog', (dialog) => {
    page.problems.push(`a script has opened a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation', (event) =>
    console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)));
  await page.goto(`${at.url}/${path}`);
  return page;
}

/** The browser notes answers that are no success in its console; some tests ask for such. */
async function close_page(page, {refused = false} = {}) {
  const noted = /the server responded with a status of 4\d\d/;
  assert.deepEqual(page.problems.filter((text) => !(refused && noted.test(text))), []);
  await page.context().close();
}

const live = (page) => page.waitForSelector('#connection[data-state="live"]');
const text_of = (page, selector) => page.locator(selector).first().innerText();

/** Waits until what `get` says is as `wanted` says. */
async function eventually(get, wanted, what) {
  const until = Date.now() + kPatienceMs;
  let last;
  for (;;) {
    last = await get();
    if (wanted(last)) return last;
    if (Date.now() > until) assert.fail(`${what}: it is still ${JSON.stringify(last)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const number_of = (text) => {
  const [, digits, unit] = /([\d.,]+)\s*([kMG]?)/.exec(text) ?? [null, 'NaN', ''];
  return Number(digits.replaceAll(',', '')) * {'': 1, k: 1e3, M: 1e6, G: 1e9}[unit];
};
const tile = (page, label) =>
  page.locator('.tile', {has: page.locator('dt', {hasText: new RegExp(`^${label}$`)})});
const tile_number = async (page, label) =>
  number_of(await tile(page, label).locator('.value').innerText());
const row_of = (page, text) => page.locator('.jobs tbody tr', {hasText: text});

before(async () => {
  server = new CarillonProcess(program);
  await server.start();
  browser = await chromium.launch({executablePath: browser_path,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
});
after(async () => {
  await browser?.close();
  await server?.close();
});

describe('overview', () => {
  test('an empty server says what to do first', async () => {
    const page = await open_page();
    await live(page);
    await page.getByText('Nothing is waiting yet').waitFor();
    assert.match(await text_of(page, '.first-steps pre'), /\/api\/v1\/tubes\/greetings\/jobs/);
    await close_page(page);
  });

  test('numbers move when jobs are put, fire and are deleted', async () => {
    const page = await open_page();
    await live(page);
    const before_it = await tile_number(page, 'Delayed');
    await server.put_all('moving', Array.from({length: 500}, (_, i) =>
      ({body: `{"n":${i}}`, delay_ms: 3_600_000 + i})));
    await eventually(() => tile_number(page, 'Delayed'), (n) => n === before_it + 500, 'delayed');
    const put = await eventually(() => tile_number(page, 'Put'), (n) => n >= 0, 'put');
    assert.ok(put >= 0);
    await server.put_all('soon', Array.from({length: 200}, () => ({body: 'x', delay_ms: 1500})));
    await eventually(() => tile_number(page, 'Fired'), (n) => n > 0, 'fired');
    await eventually(() => tile_number(page, 'Ready'), (n) => n >= 200, 'ready');
    assert.match(await tile(page, 'Ready').locator('.note').innerText(), /oldest/);
    await page.locator('.tubes-panel a', {hasText: 'moving'}).waitFor();
    await server.call('POST', 'tubes/soon/clear', {states: ['ready']});
    await eventually(() => tile_number(page, 'Deleted'), (n) => n > 0, 'deleted');
    await close_page(page);
  });

  test('the wheel turns, and stands still for those who want that', async () => {
    await server.put_all('wheel', Array.from({length: 3000}, (_, i) =>
      ({body: 'x', delay_ms: 20_000 + i * 80})));
    const picture = (page) => page.locator('canvas.wheel').evaluate((canvas) => canvas.toDataURL());
    const page = await open_page();
    await live(page);
    await page.waitForFunction(() => document.querySelector('canvas.wheel')?.ariaLabel);
    const first = await picture(page);
    await page.waitForTimeout(300);
    assert.notEqual(await picture(page), first);
    assert.match(await page.locator('canvas.wheel').getAttribute('aria-label'), /timers on/);
    await close_page(page);

    const still = await open_page('', {reducedMotion: 'reduce'});
    await live(still);
    await still.waitForFunction(() => document.querySelector('canvas.wheel')?.ariaLabel);
    const pictures = new Set();
    for (let i = 0; i < 10; ++i) {
      pictures.add(await picture(still));
      await still.waitForTimeout(50);
    }
    assert.ok(pictures.size <= 3, `${pictures.size} pictures within half a second`);
    await close_page(still);
  });

  test('charts are drawn, and the falling due are in a table', async () => {
    const page = await open_page();
    await live(page);
    await page.waitForSelector('.rates-panel canvas');
    await page.waitForSelector('.lateness-panel canvas');
    assert.ok(await page.locator('.due-bars tr').count() >= 7);
    await close_page(page);
  });
});

describe('tubes', () => {
  test('are sorted and filtered', async () => {
    await server.put_all('sort.many', Array.from({length: 30}, () => ({body: 'x'})));
    await server.put_all('sort.few', Array.from({length: 3}, () => ({body: 'x'})));
    const page = await open_page('#/tubes?filter=sort.');
    const names = () => page.locator('.tubes tbody th a').allInnerTexts();
    await eventually(names, (all) => all.join() === 'sort.many,sort.few', 'by ready');
    await page.getByRole('button', {name: 'Tube'}).click();
    await eventually(names, (all) => all.join() === 'sort.few,sort.many', 'by name');
    assert.equal(await page.locator('th[aria-sort]').innerText(), 'Tube');
    await page.getByLabel('Filter tubes by name').fill('many');
    await eventually(names, (all) => all.join() === 'sort.many', 'filtered');
    await page.getByLabel('Filter tubes by name').fill('no such tube');
    await page.getByText('No tube is like that.').waitFor();
    await close_page(page);
  });

  test('are paused and resumed', async () => {
    await server.put('pausing', {body: 'x'});
    const page = await open_page('#/tubes/pausing');
    await page.getByRole('button', {name: 'Pause …'}).click();
    await page.getByLabel('For', {exact: true}).fill('nonsense');
    await page.getByRole('button', {name: 'Pause', exact: true}).click();
    await page.getByText('This is not a length of time.').waitFor();
    await page.getByLabel('For', {exact: true}).fill('2 h');
    await page.getByRole('button', {name: 'Pause', exact: true}).click();
    await page.getByText(/paused for another/).waitFor();
    assert.ok((await server.call('GET', 'tubes/pausing')).pause_left_ms > 7_000_000);
    await page.getByRole('button', {name: 'Resume'}).click();
    await page.getByRole('button', {name: 'Pause …'}).waitFor();
    assert.equal((await server.call('GET', 'tubes/pausing')).pause_left_ms, 0);
    await close_page(page);
  });

  test('are cleared only after the name was typed', async () => {
    await server.put_all('clearing', Array.from({length: 12}, () => ({body: 'x', delay_ms: 9e6})));
    const page = await open_page('#/tubes/clearing');
    await eventually(() => tile_number(page, 'Delayed'), (n) => n === 12, 'delayed');
    await page.getByRole('button', {name: 'Clear …'}).click();
    await page.getByRole('checkbox', {name: /^delayed/}).check();
    await page.getByLabel(/Type the name/).fill('another');
    await page.getByRole('button', {name: 'Delete these jobs'}).click();
    await page.getByText('This is not the name of the tube.').waitFor();
    await page.getByLabel(/Type the name/).fill('clearing');
    await page.getByRole('button', {name: 'Delete these jobs'}).click();
    await page.getByText('12 jobs deleted.').waitFor();
    await eventually(() => tile_number(page, 'Delayed'), (n) => n === 0, 'delayed');
    await close_page(page, {refused: true});  // A tube without jobs is gone.
  });

  test('take a job from the page', async () => {
    const page = await open_page('#/tubes/putting');
    await page.getByRole('button', {name: 'Put a job …'}).click();
    await page.getByLabel('Body', {exact: true}).fill('{"from":"page"}');
    await page.getByLabel('Delay', {exact: true}).fill('1 h');
    await page.getByLabel('Key', {exact: true}).fill('by-hand');
    await page.getByRole('button', {name: 'Put', exact: true}).click();
    await row_of(page, 'by-hand').waitFor();
    await close_page(page, {refused: true});  // The tube was not there.
  });

  test('have limits that can be changed, and what is refused is said with its field', async () => {
    await server.put('limits', {body: 'x'});
    const page = await open_page('#/tubes/limits');
    const change = async (text) => {
      await page.getByRole('button', {name: 'Change …'}).click();
      await page.getByLabel('Settings (JSON)').fill(text);
      await page.getByRole('button', {name: 'Save'}).click();
    };
    await change('{"max_jobs": -1}');
    await page.locator('dialog .problem', {hasText: 'max_jobs'}).waitFor();
    await page.keyboard.press('Escape');
    await change('{"max_jobs": 1000}');
    await page.locator('.facts', {hasText: '1,000'}).first().waitFor();
    assert.equal((await server.call('GET', 'tubes/limits')).settings.max_jobs, 1000);
    await close_page(page, {refused: true});
  });
});

describe('jobs', () => {
  test('open on a state that has jobs, unless the address says which', async () => {
    const id = await server.put('all-ready', {body: 'x'});
    const page = await open_page('#/tubes/all-ready');
    await page.getByRole('button', {name: id}).waitFor();
    assert.ok(await page.getByRole('radio', {name: /ready/}).isChecked());
    await page.getByRole('radio', {name: /delayed/}).check();
    await page.getByText('No job is delayed.').waitFor();
    await page.reload();
    await page.getByText('No job is delayed.').waitFor();
    await live(page);
    await page.waitForTimeout(300);
    assert.ok(await page.getByRole('radio', {name: /delayed/}).isChecked());
    await close_page(page);
  });

  test('show a webhook as it is set, and apart from that how it fares', async () => {
    await server.call('PUT', 'tubes/hooks/settings',
      {webhook: {url: 'http://localhost:8081/', backoff: {base_ms: 2000}}});
    const page = await open_page('#/tubes/hooks');
    const panel = page.getByRole('region', {name: 'Settings'});
    await panel.getByText('The webhook now').waitFor();
    assert.match(await panel.innerText(), /base 2 s/);
    assert.match(await panel.locator('dl').nth(1).innerText(), /Waits for a connection\s+no/);
    assert.doesNotMatch(await panel.innerText(), /[{}]/);
    await close_page(page);
  });

  test('are listed page by page, each once', async () => {
    await server.put_all('paging', Array.from({length: 120}, (_, i) =>
      ({body: 'x', key: `k${i}`, delay_ms: 7_200_000 + i * 1000})));
    const page = await open_page('#/tubes/paging');
    const seen = [];
    for (let i = 0; i < 3; ++i) {
      await eventually(() => row_of(page, `k${i * 50}`).count(), (n) => n > 0, `page ${i}`);
      seen.push(...await page.locator('.jobs tbody td:nth-child(2)').allInnerTexts());
      const later = page.getByRole('button', {name: 'Later'});
      assert.equal(await later.isDisabled(), i === 2);
      if (i < 2) await later.click();
    }
    assert.deepEqual(seen, Array.from({length: 120}, (_, i) => `k${i}`));
    await page.getByRole('button', {name: 'Earlier'}).click();
    await row_of(page, 'k50').first().waitFor();
    await close_page(page);
  });

  test('are found by key prefix, by id and by when they are due', async () => {
    const hour = 3_600_000;
    await server.put('finding', {body: 'x', key: 'order-1', delay_ms: hour});
    const id = await server.put('finding', {body: 'x', key: 'order-2', delay_ms: 30 * hour});
    await server.put('finding', {body: 'x', key: 'mail-1', delay_ms: 60 * hour});
    const page = await open_page('#/tubes/finding');
    const keys = () => page.locator('.jobs tbody td:nth-child(2)').allInnerTexts();
    const expect_keys = (wanted, what) =>
      eventually(keys, (all) => all.join() === wanted.join(), what);
    await expect_keys(['order-1', 'order-2', 'mail-1'], 'all');
    await page.getByLabel('Key begins with').fill('order-');
    await expect_keys(['order-1', 'order-2'], 'by key');
    const local = (ms) => {
      const at = new Date(Date.now() + ms);
      return new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
    };
    await page.getByLabel('Key begins with').fill('');
    await page.getByLabel('Due from').fill(local(20 * hour));
    await expect_keys(['order-2', 'mail-1'], 'from');
    await page.getByLabel('Due before').fill(local(40 * hour));
    await expect_keys(['order-2'], 'until');
    await page.getByLabel('Id').fill(id);
    await expect_keys(['order-2'], 'by id');
    assert.match(page.url(), new RegExp(`id=${id}`));
    await page.getByLabel('Id').fill('999999999');
    await page.getByText('There is no such job here.').waitFor();
    await close_page(page, {refused: true});
  });

  test('are looked into, rescheduled, kicked and deleted', async () => {
    const id = await server.put('doing', {body: '{"a":[1,2]}', content_type: 'application/json',
      key: 'one', delay_ms: 3_600_000});
    const page = await open_page('#/tubes/doing');
    await row_of(page, 'one').locator('a').click();
    const sheet = page.locator('dialog.sheet');
    await sheet.locator('pre.body', {hasText: '"a": ['}).waitFor();
    await sheet.getByLabel('Hex').check();
    await sheet.locator('pre.body', {hasText: '7b 22 61 22'}).waitFor();

    await sheet.getByRole('button', {name: 'Reschedule …'}).click();
    await page.getByLabel('After').fill('2 d');
    await page.getByRole('button', {name: 'Reschedule', exact: true}).click();
    await page.getByText(`Job ${id} is due in 2 d.`).waitFor();
    const due = Date.parse((await server.call('GET', `jobs/${id}`)).due_at);
    assert.ok(Math.abs(due - Date.now() - 172_800_000) < 60_000);

    await sheet.getByRole('button', {name: 'Kick'}).click();
    await sheet.locator('.state', {hasText: 'ready'}).waitFor();
    await sheet.getByRole('button', {name: 'Delete …'}).click();
    await page.getByRole('button', {name: 'Delete', exact: true}).click();
    await page.getByText(`Job ${id} was deleted.`).waitFor();
    await assert.rejects(server.call('GET', `jobs/${id}`), /404/);
    await close_page(page);
  });

  test('what is out of range is refused, with the field and the limit', async () => {
    await server.put('refusing', {body: 'x', key: 'one', delay_ms: 3_600_000});
    const page = await open_page('#/tubes/refusing');
    await row_of(page, 'one').locator('a').click();
    await page.getByRole('button', {name: 'Reschedule …'}).click();
    await page.getByLabel('Priority').fill('99999999999');
    await page.getByRole('button', {name: 'Reschedule', exact: true}).click();
    await page.locator('dialog .problem', {hasText: /priority.*4294967295/s}).waitFor();
    assert.equal(await page.getByLabel('Priority').getAttribute('aria-invalid'), 'true');
    await close_page(page, {refused: true});
  });

  test('markup in keys, bodies and content types is shown as text', async () => {
    const evil = '<img src=x onerror=alert(1)>';
    await server.put('evil', {body: `<script>alert(2)</script>${evil}`, key: evil,
      content_type: 'text/html', delay_ms: 3_600_000});
    const page = await open_page('#/tubes/evil');
    await row_of(page, evil).locator('a').click();
    await page.locator('pre.body', {hasText: '<script>alert(2)</script>'}).waitFor();
    assert.equal(await page.locator('main img, dialog img, dialog script').count(), 0);
    // A body that is opened by its address is not a page either.
    const id = await text_of(page, '.jobs tbody a');
    const response = await fetch(`${server.url}/api/v1/jobs/${id}/body`);
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    const policy = response.headers.get('content-security-policy') ?? '';
    const disposition = response.headers.get('content-disposition') ?? '';
    assert.ok(/sandbox|default-src 'none'/.test(policy) || /attachment/.test(disposition),
      'the body of a job must not run as a page of this server');
    await close_page(page);
    const strange = await open_page(`#/tubes/${encodeURIComponent(evil)}`);
    await strange.locator('h1', {hasText: evil}).waitFor();
    assert.equal(await strange.locator('main img').count(), 0);
    await close_page(strange, {refused: true});
  });
});

describe('schedules and server', () => {
  test('schedules are shown, run and deleted', async (t) => {
    if ((await fetch(`${server.url}/api/v1/schedules`)).status === 404) {
      return t.skip('this server has no recurring jobs');
    }
    await server.call('PUT', 'schedules/sweep', {tube: 'sweeping', every_ms: 3_600_000, body: 'x'});
    const page = await open_page('#/schedules');
    const row = page.locator('.schedules tbody tr', {hasText: 'sweep'});
    await row.getByText(/every 1h/).waitFor();
    await server.call('PUT', 'schedules/yearly', {tube: 'sweeping', cron: '0 2 1 1 *',
      time_zone: 'Asia/Kolkata', body: 'x'});
    // By the clocks of its zone, which is named, whatever the reader's is.
    const yearly = page.locator('.schedules tbody tr', {hasText: 'yearly'});
    await yearly.getByText('Asia/Kolkata').waitFor();
    assert.match(await yearly.innerText(), /Jan 1, .*02:00:00 (GMT\+5:30|IST)/);
    await server.call('DELETE', 'schedules/yearly');
    await row.getByRole('button', {name: 'Run sweep now'}).click();
    await page.getByText('sweep runs now.').waitFor();
    assert.equal((await server.call('GET', 'tubes/sweeping')).jobs.ready, 1);
    await row.getByRole('button', {name: 'Delete sweep'}).click();
    await page.getByRole('button', {name: 'Delete', exact: true}).click();
    await page.getByText('No job recurs yet.').waitFor();
    await close_page(page);
  });

  test('the server says what it is', async () => {
    const page = await open_page('#/server');
    await page.getByText('Version').waitFor();
    await page.getByText('Up for').waitFor();
    await page.getByText('Max job size').waitFor();
    await close_page(page);
  });
});

describe('everywhere', () => {
  test('the keyboard reaches everything, and the focus is seen', async () => {
    await server.put('keyboard', {body: 'x', key: 'one', delay_ms: 3_600_000});
    const page = await open_page('#/tubes/keyboard');
    await row_of(page, 'one').waitFor();
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement.type), 'search');
    // From there on to the job, by Tab alone; each stop is outlined.
    for (let i = 0; i < 20; ++i) {
      await page.keyboard.press('Tab');
      const stop = await page.evaluate(() => {
        const at = document.activeElement;
        const seen = [at, at.nextElementSibling].some((element) => element
          && getComputedStyle(element).outlineStyle !== 'none');
        return {seen, job: at.closest('.jobs tbody') !== null, at: at.outerHTML.slice(0, 200)};
      });
      assert.ok(stop.seen, `the focus is not seen at ${stop.at}`);
      if (stop.job) break;
      assert.ok(i < 19, 'the job was not reached');
    }
    await page.keyboard.press('Enter');
    await page.locator('dialog.sheet pre.body').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('dialog.sheet').waitFor({state: 'detached'});
    assert.ok(await page.evaluate(() => document.activeElement.closest('.jobs tbody') !== null),
      'the focus comes back to where it was');
    await close_page(page);
  });

  test('light and dark: by the system, and by choice, which is kept', async () => {
    const color = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await open_page('', {colorScheme: 'light'});
    const light_color = await color(light);
    const dark = await open_page('', {colorScheme: 'dark'});
    const dark_color = await color(dark);
    assert.notEqual(light_color, dark_color);
    await dark.getByLabel('Light').check();
    assert.equal(await color(dark), light_color);
    await dark.reload();
    assert.equal(await color(dark), light_color);
    await dark.getByLabel('As the system').check();
    assert.equal(await color(dark), dark_color);
    await close_page(light);
    await close_page(dark);
  });

  test('no page is wider than its window, and actions are in it', async () => {
    await server.put('a'.repeat(200), {body: 'x', key: 'k'.repeat(200), delay_ms: 3_600_000});
    await server.call('PUT', `schedules/${'n'.repeat(40)}`, {tube: 'sweeping', body: 'x',
      cron: '30 2 1,15 * MON-FRI', time_zone: 'America/Argentina/Buenos_Aires'});
    await server.call('PUT', 'schedules/sweep', {tube: 'sweeping', every_ms: 3_600_000, body: 'x'});
    for (const width of [360, 768, 915, 1100]) {
      const page = await open_page('', {viewport: {width, height: 740}});
      for (const path of ['#/', '#/tubes', `#/tubes/${'a'.repeat(200)}`, '#/jobs', '#/schedules',
        '#/server']) {
        await page.goto(`${server.url}/${path}`);
        await live(page);
        if (path === '#/schedules') {
          await page.getByRole('button', {name: 'Run sweep now'}).waitFor();
          for (const button of await page.locator('.schedules button').all()) {
            const box = await button.boundingBox();
            assert.ok(box.x >= 0 && box.x + box.width <= width,
              `${await button.innerText()} at ${width}: ${JSON.stringify(box)}`);
          }
        }
        await page.waitForTimeout(200);
        await eventually(() => page.evaluate((limit) =>
          document.documentElement.scrollWidth <= limit ? ''
            : [...document.querySelectorAll('body *')]
              .filter((element) => element.getBoundingClientRect().right > limit)
              .map((element) => `${element.tagName}.${element.className}`).join(' '), width),
        (beyond) => beyond === '', `what is beyond ${width} on ${path}`);
        const cut = await page.evaluate(() => [...document.querySelectorAll('.tile .note')]
          .filter((note) => note.scrollWidth > note.clientWidth).map((note) => note.innerText));
        assert.deepEqual(cut, [], `${path} at ${width}`);
      }
      await page.goto(`${server.url}/docs`);
      await page.locator('article').first().waitFor();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `/docs is ${wide} wide at ${width}`);
      // Names are of one line.
      const broken = await page.evaluate(() => [...document.querySelectorAll('th code')]
        .filter((name) => name.getClientRects().length > 1).map((name) => name.innerText));
      assert.deepEqual(broken, [], `/docs at ${width}`);
      await close_page(page, {refused: true});
    }
    for (const name of ['sweep', 'n'.repeat(40)]) await server.call('DELETE', `schedules/${name}`);
  });

  test('every page has one heading, landmarks, and names for its controls', async () => {
    const page = await open_page();
    for (const path of ['#/', '#/tubes', '#/tubes/default', '#/jobs', '#/schedules', '#/server']) {
      await page.goto(`${server.url}/${path}`);
      await page.waitForSelector('main h1');
      assert.equal(await page.locator('h1').count(), 1, path);
      const nameless = await page.evaluate(() => [...document.querySelectorAll(
        'button, a[href], input, select, textarea')].filter((element) =>
        !(element.innerText?.trim() || element.getAttribute('aria-label') || element.title
          || [...(element.labels ?? [])].some((label) => label.innerText.trim())))
        .map((element) => element.outerHTML));
      assert.deepEqual(nameless, [], path);
    }
    await close_page(page, {refused: true});
  });

  test('an address that leads nowhere says so', async () => {
    const page = await open_page('#/nowhere');
    await page.getByText('There is no such page.').waitFor();
    await close_page(page);
  });

  test('a server that is held says so', async () => {
    const held = new CarillonProcess(program, ['--hold']);
    await held.start();
    try {
      const page = await open_page('#/server', {}, held);
      await page.locator('#banner').getByText('Held by the option hold').waitFor();
      await page.getByText('held: no webhooks, no schedules').waitFor();
      await close_page(page);
    } finally {
      await held.stop();
    }
  });

  test('a server that goes away is noticed, and one that comes back is found', async () => {
    const other = new CarillonProcess(program);
    await other.start();
    try {
      await other.put('durable', {body: 'x', delay_ms: 3_600_000});
      const page = await open_page('', {}, other);
      await eventually(() => tile_number(page, 'Delayed'), (n) => n === 1, 'delayed');
      await other.stop();
      await page.waitForSelector('#connection[data-state="lost"]');
      await page.getByText(/connection to the server is lost/).waitFor();
      await other.start();
      await live(page);
      await eventually(() => tile_number(page, 'Delayed'), (n) => n === 1, 'delayed again');
      assert.equal(await page.locator('#banner p').count(), 0);
      // The browser notes each attempt that failed.
      page.problems = page.problems.filter((text) =>
        !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_CONNECTION_RESET|status of 503/.test(text));
      await close_page(page);
    } finally {
      await other.close();
    }
  });
});
