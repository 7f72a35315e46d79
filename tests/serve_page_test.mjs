// SPDX-License-Identifier: Apache-2.0
// serve_page_test.mjs: the dashboard, in Debian's Chromium: what a person sees and does there, and
// what nobody can do to them. axe-core looks for faults that keep people with other abilities out.
//
// The last test measures frames. It needs a machine that can give a browser half a processor. A
// page that does nothing is measured at the same time, and shows whether it could. On an idle
// machine, HOLDFAST_FRAME_SECONDS=60 measures one round of so many seconds, in which every frame
// counts and nothing is taken off.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, test } from 'node:test';
import { acquire, call, folder, ok, release, sleep, start, stop, storeUrl } from './serve_kit.mjs';
import { Locks, Ranking, sorts } from '../src/serve/page/model.js';

const packages = createRequire(new URL('servers/package.json', import.meta.url));
const { chromium } = packages('playwright-core');
const AXE = fs.readFileSync(packages.resolve('axe-core/axe.min.js'), 'utf8');

const LOCKS = 10_000;
const FRAME_MS = 100;
const STRICT_SECONDS = Number(process.env.HOLDFAST_FRAME_SECONDS ?? 0);
const MEASURED_MS = 1000 * (STRICT_SECONDS || 1);
const ROUNDS = STRICT_SECONDS ? 1 : 6;

// ---- A store with many locks is filled while the other tests run

const crowd = await start(storeUrl('crowd'));
const agent = new http.Agent({ keepAlive: true, maxSockets: 128 });

function send(server, route, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(
      server.url + route,
      { method: 'POST', agent, headers: { 'content-type': 'application/json' } },
      (reply) => {
        let text = '';
        reply.on('data', (part) => {
          text += part;
        });
        reply.on('end', () => resolve(JSON.parse(text)));
      },
    );
    request.on('error', reject);
    request.end(JSON.stringify(body));
  });
}

async function fill() {
  const leases = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: 128 }, async () => {
      while (next < LOCKS) {
        const key = `job-${String(next++).padStart(5, '0')}`;
        leases.push(
          await send(crowd, '/v1/acquire', {
            key,
            owner: `worker-${next % 40}`,
            ttl_seconds: 3600,
            block_seconds: -1,
          }),
        );
      }
    }),
  );
  return leases;
}
const filled = fill();

// ---- The browser

const main = await start(storeUrl('main'));
const browser = await chromium.launch({
  executablePath: process.env.HOLDFAST_CHROMIUM ?? '/usr/bin/chromium',
  chromiumSandbox: process.getuid() !== 0,
});
after(async () => {
  agent.destroy();
  await browser.close();
});

const complaints = [];

/** A page at this address. What its console complains about is collected. */
async function visit(server, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  if (!options.mayComplain) {
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning')
        complaints.push(message.text());
    });
  }
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('dialog', (dialog) => {
    complaints.push('a script opened a window');
    dialog.dismiss();
  });
  await page.goto(server.url + address);
  return page;
}

const rowOf = (page, name) =>
  page.locator('.rows-space .row:not([hidden])', {
    has: page.getByRole('link', { name, exact: true }),
  });

const page = await visit(main, '/');

// ---- What the page knows, without a browser

const listedLock = (scope, token, more = {}) => ({
  scope,
  fencing_token: token,
  owner: `owner-${token}`,
  holder: 'host-1',
  mode: 'exclusive',
  state: 'active',
  ttl_ms: 30_000,
  remaining_ms: 20_000,
  held_ms: 10_000,
  renewals: 0,
  waiters: 0,
  ...more,
});

test('what an event said is not overwritten by a listing that was asked for before it', () => {
  const locks = new Locks(() => {});
  const asked = performance.now() - 1000;
  const listing = locks.listing(asked);
  locks.event('granted', {
    scope: 'named:new',
    fencing_token: 7,
    owner: 'ada',
    ttl_ms: 30_000,
    mode: 'exclusive',
  });
  assert.equal(locks.event('released', { scope: 'named:old', fencing_token: 3 }), null);
  listing.page([listedLock('named:old', 3), listedLock('named:both', 1)], asked);
  listing.end();
  const scopes = [...locks.all()].map((lease) => lease.scope).sort();
  assert.deepEqual(scopes, ['named:both', 'named:new']);
  const later = locks.listing(performance.now());
  later.page([listedLock('named:old', 3)], performance.now());
  later.end();
  assert.deepEqual(
    [...locks.all()].map((lease) => lease.scope),
    ['named:old'],
  );
});

test('an event that says too little names the scope to read', () => {
  const locks = new Locks(() => {});
  assert.equal(locks.event('granted', { scope: 'named:a', fencing_token: 1 }), 'named:a');
  assert.equal(locks.event('renewed', { scope: 'named:a', fencing_token: 1 }), 'named:a');
  assert.equal(locks.event('taken_over', { table: 'x' }), '');
  assert.equal(locks.event('stopping', {}), null);
});

test('a queue is in the order of the server, with those of other servers behind', () => {
  const locks = new Locks(() => {});
  const at = performance.now();
  const listing = locks.listing(at);
  listing.page(
    [
      listedLock('named:a', 1),
      { scope: 'named:a', owner: 'first', place: 1 },
      { scope: 'named:a', owner: 'elsewhere', place: 2 },
    ],
    at,
  );
  listing.end();
  locks.waits([
    { scope: 'named:a', owner: 'first' },
    { scope: 'named:a', owner: 'second' },
  ]);
  assert.deepEqual(locks.queue('named:a'), ['first', 'second', 'elsewhere']);
  locks.event('wait_ended', { scope: 'named:a', owner: 'second', result: 'hung_up' });
  assert.deepEqual([...locks.of('named:a')][0].queue, ['first', 'elsewhere']);
});

test('a ranking that follows changes is the same as one that is sorted anew', () => {
  for (const sort of Object.keys(sorts)) {
    const ranking = new Ranking();
    const locks = new Locks((before, after) => ranking.change(before, after));
    ranking.choose([], { sort, find: 'owner-1' });
    for (let round = 0; round < 400; round++) {
      const scope = `named:${(round * 7919) % 60}`;
      const kind = ['granted', 'granted', 'renewed', 'released', 'wait_began'][(round * 31) % 5];
      const fencing_token = 1 + ((round * 13) % 15);
      const owner = `owner-${fencing_token}`;
      locks.event(kind, { scope, fencing_token, owner, ttl_ms: 1000 * round, mode: 'shared' });
    }
    const anew = new Ranking();
    anew.choose(locks.all(), { sort, find: 'owner-1' });
    assert.ok(anew.rows.length > 10 && anew.rows.length < locks.size);
    assert.deepEqual(
      ranking.rows.map((lease) => lease.id),
      anew.rows.map((lease) => lease.id),
      sort,
    );
  }
});

// ---- How it is served

test('the page is part of the server, with a strict policy, and is kept by browsers', async () => {
  for (const route of ['/', '/page/app.js', '/page/style.css']) {
    const first = await fetch(main.url + route);
    const policy = first.headers.get('content-security-policy');
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'none'",
    ])
      assert.ok(policy.includes(rule), rule);
    assert.ok(!policy.includes('unsafe'));
    assert.equal(first.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(first.headers.get('referrer-policy'), 'no-referrer');
    const again = await fetch(main.url + route, {
      headers: { 'if-none-match': first.headers.get('etag') },
    });
    assert.deepEqual([first.status, again.status], [200, 304]);
    assert.equal((await again.text()).length, 0);
  }
  assert.equal((await call(main, '/page/none.js')).status, 404);
});

test('nothing is asked of another host, and no script can be added', async () => {
  const html = await (await fetch(`${main.url}/`)).text();
  assert.doesNotMatch(html, /(src|href)="(https?:)?\/\//);
  const ran = await page.evaluate(() => {
    try {
      const script = document.createElement('script');
      script.textContent = 'window.ran = true';
      document.body.append(script);
    } catch {
      /* refused by the policy */
    }
    return window.ran === true;
  });
  assert.equal(ran, false);
  complaints.length = 0; // the policy has just complained
});

// ---- Locks

test('a lock appears, is waited for, is taken over, and vanishes, without a reload', async () => {
  const first = await acquire(main, 'deploy', { owner: 'anna', ttl_seconds: 60 });
  const row = rowOf(page, 'deploy');
  await row.getByText('anna').waitFor();
  assert.equal(await row.locator('.token').textContent(), `#${first.fencing_token}`);
  const waits = acquire(main, 'deploy', { owner: 'bert', ttl_seconds: 60, block_seconds: 30 });
  await row.locator('.queue', { hasText: 'bert' }).waitFor();
  await release(main, 'deploy', first);
  const second = await waits;
  await row.locator('.owner', { hasText: 'bert' }).waitFor();
  assert.equal(await row.locator('.token').textContent(), `#${second.fencing_token}`);
  await release(main, 'deploy', second);
  await row.waitFor({ state: 'detached' });
});

test('an expired lease is taken over live', async () => {
  const row = rowOf(page, 'expiring');
  await acquire(main, 'expiring', { owner: 'dead', ttl_ms: 1000 });
  await row.getByText('dead').waitFor();
  const heir = await acquire(main, 'expiring', {
    owner: 'heir',
    ttl_seconds: 60,
    block_seconds: 30,
  });
  await row.locator('.owner', { hasText: 'heir' }).waitFor();
  await release(main, 'expiring', heir);
});

test('the name of an owner is never read as HTML', async () => {
  const owner = '<script>alert(1)</script><img src=x onerror=alert(2)>';
  const scope = 'path:/srv/<b>bold</b>';
  const lease = await ok(main, '/v1/acquire', { scope, owner, block_seconds: -1 });
  await page.getByText(owner).waitFor();
  await rowOf(page, scope).waitFor();
  assert.equal(await page.locator('main script, main img, main b').count(), 0);
  await ok(main, '/v1/release', { scope, lease_id: lease.lease_id });
});

test('breaking a lock asks for a reason, and does it', async () => {
  await acquire(main, 'stuck', { owner: 'cron' });
  await page.getByRole('button', { name: 'Break stuck, held by cron' }).click();
  const dialog = page.getByRole('dialog', { name: 'Break this lock?' });
  await dialog.getByRole('button', { name: 'Break the lock' }).click();
  assert.ok(await dialog.isVisible(), 'not without a reason');
  await dialog.getByLabel('Reason').fill('it hangs');
  await dialog.getByRole('button', { name: 'Break the lock' }).click();
  await rowOf(page, 'stuck').waitFor({ state: 'detached' });
  await dialog.waitFor({ state: 'hidden' });
  await page.goto(`${main.url}/#/events?find=broken`);
  await page.getByText('broken: it hangs').waitFor();
});

test('locks are found by keyboard and by address', async () => {
  for (const key of ['red-1', 'red-2', 'blue-1']) await acquire(main, key);
  await page.goto(`${main.url}/#/locks?find=red`);
  await rowOf(page, 'red-1').waitFor();
  assert.equal(await rowOf(page, 'blue-1').count(), 0);
  await page.keyboard.press('/');
  await page.keyboard.type('blue');
  await rowOf(page, 'blue-1').waitFor();
  assert.match(page.url(), /find=blue/);
  assert.equal(await rowOf(page, 'red-1').count(), 0);
  await page.keyboard.press('Escape');
  await rowOf(page, 'red-2').waitFor();
});

// ---- The other views

test('the timeline answers who had the lock', async () => {
  const first = await acquire(main, 'shared-thing', { owner: 'early' });
  await release(main, 'shared-thing', first);
  await acquire(main, 'shared-thing', { owner: 'late' });
  await page.goto(`${main.url}/#/timeline/named:shared-thing`);
  await page.locator('svg.gantt .hold').nth(1).waitFor();
  await page.getByText(/late has held it for/).waitFor();
  const rows = await page.getByRole('table').getByRole('row').allTextContents();
  assert.ok(
    rows.some((row) => row.includes('early') && row.includes('released')),
    rows.join('\n'),
  );
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export CSV' }).click();
  assert.match(fs.readFileSync(await (await saved).path(), 'utf8'), /early/);
});

function holdfast(...words) {
  const run = spawnSync(
    process.env.HOLDFAST_PROGRAM,
    ['--store', storeUrl('main'), '-q', ...words.join(' ').split(' ')],
    { encoding: 'utf8' },
  );
  assert.equal(run.status, 0, `${words}: ${run.stderr}`);
}

test('a compaction moves, and is paused', async () => {
  await page.goto(`${main.url}/#/compaction`);
  await page.getByText('There is no partition').waitFor();
  holdfast('compact create --format csv --key id --time at --partition logs');
  const files = Array.from({ length: 4 }, (_, i) => path.join(folder, `page-${i}.csv`));
  files.forEach((file, i) => fs.writeFileSync(file, `id,at\nk${i},2026-01-01T00:00:0${i}Z\n`));
  holdfast('compact ingest --partition logs', ...files);
  const backlog = page.locator('.tile', { hasText: 'Backlog' });
  await backlog.getByText('4 chunks').waitFor();
  assert.equal(await page.locator('svg.gantt .hold').count(), 4);
  await ok(main, '/v1/compact/run', { partition: 'logs', force: true });
  await backlog.getByText('0 chunks').waitFor();
  await page.getByRole('cell', { name: 'committed' }).waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  const dialog = page.getByRole('dialog', { name: 'Pause compaction?' });
  await dialog.getByLabel('Reason').fill('a test');
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await page.getByText(/^Paused.*a test/).waitFor();
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByText('Merging is allowed.').waitFor();
});

test('an index and an election are shown', async () => {
  holdfast('index create --fields host,seen --key host --time seen hosts');
  const record = { host: 'h1', seen: '2026-01-01T00:00:00Z' };
  await ok(main, '/v1/index/put', { index: 'hosts', record });
  await page.goto(`${main.url}/#/index`);
  await page.locator('.tile', { hasText: 'Inbox' }).getByText('1 entry').waitFor();
  await ok(main, '/v1/elect/campaign', { group: 'builders', name: 'anna' });
  await page.goto(`${main.url}/#/elections`);
  await page.locator('.tile', { hasText: 'Leads' }).getByText('anna').waitFor();
});

test('every view shows something, or says that it has nothing', async () => {
  for (const [view, text] of [
    ['transactions', 'There is no transaction'],
    ['store', 'Requests to the store'],
    ['sweeper', 'This server has not swept yet'],
  ]) {
    await page.goto(`${main.url}/#/${view}`);
    await page.locator('main').getByText(text).first().waitFor();
  }
});

test('axe finds no serious fault, in light and in dark', async () => {
  await page.evaluate(AXE);
  for (const [colorScheme, ...views] of [
    ['light', 'locks', 'timeline/named:shared-thing', 'compaction/logs'],
    ['dark', 'locks', 'events', 'store'],
  ]) {
    await page.emulateMedia({ colorScheme });
    for (const view of views) {
      await page.goto(`${main.url}/#/${view}`);
      await page.locator('.row:not(.head), .parts > *').first().waitFor();
      const { violations } = await page.evaluate(() =>
        window.axe.run(document, { resultTypes: ['violations'] }),
      );
      const serious = violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => `${view} ${colorScheme}: ${id}: ${nodes[0].html}`);
      assert.deepEqual(serious, []);
    }
  }
});

test('a narrow window needs no scrolling to the side', async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  for (const view of ['locks', 'timeline/named:shared-thing', 'compaction/logs', 'store']) {
    await page.goto(`${main.url}/#/${view}`);
    await page.locator('.row:not(.head), .parts > *').first().waitFor();
    const [wide, room] = await page.evaluate(() => {
      const box = document.querySelector('main');
      return [Math.max(box.scrollWidth, document.documentElement.scrollWidth), innerWidth];
    });
    assert.ok(wide <= room, `${view}: ${wide} of ${room} pixels`);
  }
});

test('the console has nothing to complain about', () => assert.deepEqual(complaints, []));

// ---- Rights

test('a token is asked for; a viewer sees no button and may not break', async () => {
  const tokens = { viewer: 'v'.repeat(32), ops: 'o'.repeat(32) };
  const file = path.join(folder, 'page-tokens');
  const line = (name, rights) =>
    `${name} ${createHash('sha256').update(tokens[name]).digest('hex')} ${rights} *\n`;
  fs.writeFileSync(file, line('viewer', 'read') + line('ops', 'admin'), { mode: 0o600 });
  const guarded = await start(storeUrl('main'), '--tokens', file);
  const guest = await visit(guarded, '/', { mayComplain: true });
  const dialog = guest.getByRole('dialog', { name: 'A token is needed' });
  const use = async (token) => {
    await dialog.getByLabel('Token').fill(token);
    await dialog.getByRole('button', { name: 'Use this token' }).click();
  };
  await use('wrong');
  await dialog.getByText('does not know this token').waitFor();
  await use(tokens.viewer);
  await rowOf(guest, 'red-1').waitFor();
  await guest.getByRole('button', { name: 'viewer' }).waitFor();
  assert.equal(await guest.getByRole('button', { name: /^Break/ }).count(), 0);
  const refusal = await call(
    guarded,
    '/v1/locks/break',
    { key: 'red-1', fencing_token: 1, reason: 'no' },
    { headers: { authorization: `Bearer ${tokens.viewer}` } },
  );
  assert.equal(refusal.status, 403);
  assert.equal(await guest.evaluate(() => JSON.stringify(localStorage).includes('vvvv')), false);
  await guest.getByRole('button', { name: 'viewer' }).click();
  await use(tokens.ops);
  await guest.getByRole('button', { name: 'Break red-1, held by test' }).waitFor();
  await stop(guarded);
  await guest.context().close();
});

// ---- A server that stops

test('a stopped server is shown as disconnected, with the age of the data', async () => {
  const address = new URL(main.url).host;
  const lost = await visit(main, '/', { mayComplain: true });
  await rowOf(lost, 'red-1').waitFor();
  await page.context().close();
  assert.deepEqual(await stop(main), { code: 0, signal: null });
  await lost.getByText(/^What you see is .* old\./).waitFor();
  assert.match(await lost.locator('#link').textContent(), /^Disconnected, data .* old$/);
  await rowOf(lost, 'red-1').waitFor();
  const again = await start(storeUrl('main'), '--listen', address);
  await lost
    .getByRole('button', { name: 'Try now' })
    .click({ timeout: 2000 })
    .catch(() => null);
  await lost.locator('#link', { hasText: /^Live$/ }).waitFor();
  assert.ok(await lost.locator('#banner').isHidden());
  await stop(again);
  await lost.context().close();
});

// ---- Speed

/** Frames and long tasks of a page for a while. */
const watchFrames = (target, forMs) =>
  target.evaluate(
    (duration) =>
      new Promise((resolve) => {
        const frames = [];
        const tasks = [];
        const observer = new PerformanceObserver((list) => {
          for (const task of list.getEntries()) tasks.push(Math.round(task.duration));
        });
        observer.observe({ type: 'longtask' });
        const began = performance.now();
        let last = began;
        const turn = (at) => {
          frames.push(at - last);
          last = at;
          if (at - began < duration) requestAnimationFrame(turn);
          else {
            observer.disconnect();
            resolve({ count: frames.length, worst: Math.round(Math.max(...frames)), tasks });
          }
        };
        requestAnimationFrame(turn);
      }),
    forMs,
  );

/** A hundred events per second: renewals, and locks that come and go. */
async function makeEvents(leases, tells) {
  let sent = 0;
  const began = performance.now();
  const under = new Set();
  while (!tells.stop) {
    const due = (performance.now() - began) / 10;
    for (; sent < due; sent++) {
      const work =
        sent % 10 === 0
          ? send(crowd, '/v1/acquire', {
              key: `extra-${sent}`,
              owner: 'extra',
              block_seconds: -1,
            }).then((lease) =>
              send(crowd, '/v1/release', { key: lease.key, lease_id: lease.lease_id }),
            )
          : send(crowd, '/v1/keepalive', {
              key: leases[sent % 40].key,
              lease_id: leases[sent % 40].lease_id,
            });
      under.add(work);
      work.finally(() => under.delete(work));
    }
    await sleep(10);
  }
  await Promise.all(under);
  return sent;
}

/** Scrolls the locks, as fast as a person reads. */
const scroll = (target, forMs) =>
  target.evaluate((duration) => {
    const rows = document.querySelector('.rows');
    const began = performance.now();
    const turn = (at) => {
      rows.scrollTop = (at - began) % 100_000;
      if (at - began < duration) requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  }, forMs);

test('10,000 locks and 100 events per second leave no frame above 100 ms', async (t) => {
  const leases = await filled;
  const crowded = await visit(crowd, '/');
  await crowded.locator('.count', { hasText: /^10,000 locks$/ }).waitFor();
  const rows = await crowded.locator('.rows-space .row').count();
  assert.ok(rows < 60, `only rows in sight are elements: ${rows}`);
  const control = await visit(crowd, '/healthz', { mayComplain: true });
  const metrics = await crowded.context().newCDPSession(crowded);
  await metrics.send('Performance.enable', { timeDomain: 'threadTicks' });
  const spent = async () =>
    (await metrics.send('Performance.getMetrics')).metrics.find(
      (one) => one.name === 'TaskDuration',
    ).value * 1000;
  const tells = { stop: false };
  const events = makeEvents(leases, tells);
  let good = false;
  // A machine with other work may stop a browser at any time, so the best of six rounds counts.
  // What it takes from a page that does nothing is not the page's doing.
  for (let round = 0; round < ROUNDS && !good; round++) {
    const before = await spent();
    const [frames, idle] = await Promise.all([
      watchFrames(crowded, MEASURED_MS),
      watchFrames(control, MEASURED_MS),
      scroll(crowded, MEASURED_MS),
    ]);
    const share = ((await spent()) - before) / MEASURED_MS;
    const taken = !STRICT_SECONDS && idle.worst > 34 ? idle.worst : 0;
    good = frames.count > 10 && frames.worst <= FRAME_MS + taken && share < 0.5;
    t.diagnostic(
      `page: ${JSON.stringify(frames)}, ${Math.round(share * 100)} % of a processor; ` +
        `a page that does nothing: ${JSON.stringify(idle)}`,
    );
  }
  tells.stop = true;
  assert.ok((await events) > 60, 'the events were made');
  assert.ok(good, 'a frame was too slow in every round');
  assert.deepEqual(complaints, []);
});

test('the other server stops in order', async () => {
  assert.deepEqual(await stop(crowd), { code: 0, signal: null });
});
