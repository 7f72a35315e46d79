// SPDX-License-Identifier: Apache-2.0
// serve_views_test.mjs: what the dashboard asks a server for, and who may ask.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { acquire, call, checkRecorded, folder, fresh, ok, refused, release, sleep, start, stop,
  storeUrl } from './serve_kit.mjs';

const store = storeUrl('main');
const secret = { admin: 'a'.repeat(32), viewer: 'v'.repeat(32), jobs: 'j'.repeat(32) };
const hash = (text) => createHash('sha256').update(text).digest('hex');
const tokens = path.join(folder, 'tokens');
fs.writeFileSync(tokens, `admin ${hash(secret.admin)} admin *
viewer ${hash(secret.viewer)} read *
jobs ${hash(secret.jobs)} lock,write jobs
`, { mode: 0o600 });
const main = await start(store);
const guarded = await start(store, '--tokens', tokens);
const as = (name) => ({ headers: { authorization: `Bearer ${secret[name]}` } });

function holdfast(...words) {
  const run = spawnSync(process.env.HOLDFAST_PROGRAM, ['--store', store, '-q', ...words],
    { encoding: 'utf8' });
  assert.equal(run.status, 0, `${words}: ${run.stderr}`);
  return run.stdout;
}

/** Asks again until the reply is as wanted. */
async function until(ask, wanted) {
  for (;;) {
    const found = await ask();
    if (wanted(found)) return found;
    await sleep(20);
  }
}

// ---- Who am I

test('a client learns what it may do', async () => {
  const all = ['read', 'lock', 'write', 'admin'];
  const open = await ok(main, '/v1/whoami');
  assert.deepEqual([open.tokens, open.name, open.rights, open.store_rights],
    [false, undefined, all, all]);
  assert.ok(open.started_ms <= open.now_ms && open.version.length > 0);
  const admin = await ok(guarded, '/v1/whoami', undefined, as('admin'));
  assert.deepEqual([admin.tokens, admin.name, admin.rights, admin.store_rights],
    [true, 'admin', all, all]);
  const jobs = await ok(guarded, '/v1/whoami?namespace=jobs', undefined, as('jobs'));
  assert.deepEqual([jobs.rights, jobs.store_rights], [['read', 'lock', 'write'], []]);
  const elsewhere = await ok(guarded, '/v1/whoami', undefined, as('jobs'));
  assert.deepEqual(elsewhere.rights, []);
  await refused(guarded, 401, 'unauthorized', '/v1/whoami');
  await ok(guarded, '/v1/locks?namespace=secret-team', undefined, as('viewer'));
  const seen = (await ok(guarded, '/v1/whoami', undefined, as('viewer'))).namespaces;
  assert.ok(seen.includes('secret-team'), seen.join());
  assert.ok(!(await ok(guarded, '/v1/whoami', undefined, as('jobs'))).namespaces
    .includes('secret-team'));
});

test('a viewer may look at everything, and change nothing', async () => {
  holdfast('compact', 'create', '--format', 'csv', '--key', 'id', '--time', 'at');
  for (const route of ['/v1/locks', '/v1/waits', '/v1/figures', '/v1/txns', '/v1/compact/status',
    '/v1/compact/chunks', '/v1/compact/quarantine']) {
    await ok(guarded, route, undefined, as('viewer'));
    await refused(guarded, 401, 'unauthorized', route);
  }
  for (const [route, body] of [
    ['/v1/locks/break', { key: 'k', fencing_token: 1, reason: 'r' }],
    ['/v1/compact/quarantine/release', { chunk: 'c' }],
    ['/v1/compact/pause', {}], ['/v1/compact/resume', {}]])
    await refused(guarded, 403, 'forbidden', route, body, as('viewer'));
  for (const route of ['/v1/txns', '/v1/compact/chunks', '/v1/waits'])
    await refused(guarded, 403, 'forbidden', route, undefined, as('jobs'));
});

// ---- Waits

test('those who wait are listed, and leave the list', async () => {
  const key = fresh();
  const lease = await acquire(main, key);
  const waiting = ['first', 'second'].map(() => null);
  for (const [i, owner] of ['first', 'second'].entries()) {
    waiting[i] = acquire(main, key, { owner, block_seconds: 30, ttl_ms: 1000 });
    await until(() => ok(main, '/v1/waits'), (found) => found.count === i + 1);
  }
  const hangs = new AbortController();
  const left = call(main, '/v1/acquire', { key, owner: 'third', block_seconds: 30 },
    { signal: hangs.signal }).catch(() => null);
  await until(() => ok(main, `/v1/waits?key=${key}`), (found) => found.count === 3);
  hangs.abort();
  await left;
  await until(() => ok(main, `/v1/waits?key=${key}`), (found) => found.count === 2);
  const { waits } = await ok(main, `/v1/waits?scope=named:${key}`);
  assert.deepEqual(waits.map((wait) => [wait.scope, wait.owner]),
    [[`named:${key}`, 'first'], [`named:${key}`, 'second']]);
  assert.ok(waits[0].waited_ms >= waits[1].waited_ms);
  const one = await ok(main, `/v1/waits?limit=1&scope=${key}`);
  assert.deepEqual([one.waits.length, one.count], [1, 2]);
  assert.equal((await ok(main, '/v1/waits?namespace=other')).count, 0);
  assert.equal((await ok(main, '/v1/waits?key=other')).count, 0);
  await release(main, key, lease);
  for (const granted of waiting)
    await release(main, key, await granted);
  assert.deepEqual(await ok(main, '/v1/waits'), { waits: [], count: 0 });
});

// ---- Transactions

test('transactions are listed without their ids, and who waits for whom', async () => {
  const [a, b] = [fresh('txn'), fresh('txn')];
  const [one, other] = [(await ok(main, '/v1/txn/begin', {})).txn_id,
    (await ok(main, '/v1/txn/begin', {})).txn_id];
  const take = (key, txn_id, more) => acquire(main, key, { txn_id, ...more });
  const lease = await take(a, one);
  await take(b, other);
  await call(main, `/v1/update?key=${a}`, 'staged', { headers: { 'x-lease-id': lease.lease_id,
    'x-txn-id': one } });
  const waits = take(b, one, { block_seconds: 30 });
  const found = await until(() => ok(main, '/v1/txns?state=pending'),
    (list) => list.waits.length === 1 && list.waits[0].for);
  const [wait] = found.waits;
  assert.equal(wait.key, `default/${b}`);
  const holds = (key) => found.txns.find((txn) => txn.keys.includes(`default/${key}`));
  assert.deepEqual([holds(a).txn, holds(b).txn], [wait.txn, wait.for]);
  assert.equal((await ok(main, '/v1/waits')).waits[0].txn, wait.txn);
  assert.ok(!JSON.stringify(found).includes(one) && !JSON.stringify(found).includes(other));
  await ok(main, '/v1/txn/rollback', { txn_id: other });
  await waits;
  await ok(main, '/v1/txn/commit', { txn_id: one });
  const { txns } = await ok(main, '/v1/txns');
  const states = Object.fromEntries(txns.map((txn) => [txn.txn, txn.state]));
  assert.equal(states[wait.txn], 'commit');
  assert.equal((await ok(main, '/v1/txns?limit=1')).txns.length, 1);
  await refused(main, 400, 'invalid', '/v1/txns?state=nonsense');
});

// ---- Figures

test('the figures are those of the metrics', async () => {
  const key = fresh();
  await release(main, key, await acquire(main, key));
  const metrics = (await call(main, '/metrics')).text;
  const figures = await until(() => ok(main, '/v1/figures'), (found) => found.clock);
  const line = (name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)[1]);
  assert.equal(figures.leases.granted, line('holdfast_leases_granted_total'));
  assert.equal(figures.leases.released, line('holdfast_leases_released_total'));
  assert.equal(figures.clock.interval_ms, 0);
  const { codes, took } = figures.requests.find((one) => one.route === 'acquire');
  assert.equal(codes['200'], line('holdfast_http_requests_total{route="acquire",code="200"}'));
  assert.equal(took.ok.count, codes['200']);
  assert.ok(took.ok.p50_ms > 0 && took.ok.p50_ms <= took.ok.p90_ms);
  assert.equal(took.ok.buckets.length, figures.bounds_ms.length + 1);
  assert.equal(took.ok.buckets.reduce((a, b) => a + b), took.ok.count);
  const puts = figures.store.calls.find((one) => one.call === 'put');
  assert.ok(puts.results.ok > 0 && puts.count >= puts.results.ok);
  assert.ok(figures.process.resident_bytes > 1e6 && figures.http.connections > 0);
});

// ---- Compaction

test('chunks are listed, the largest first, and merges with what they did', async () => {
  const partition = 'pictures';
  holdfast('compact', 'create', '--format', 'csv', '--key', 'id', '--time', 'at', '--partition',
    partition);
  for (let i = 1; i <= 3; i++) {
    const file = path.join(folder, `${i}.csv`);
    fs.writeFileSync(file, 'id,at\n' + `k${i},2026-01-01T00:00:0${i}Z\n`.repeat(i));
    holdfast('compact', 'ingest', '--partition', partition, file);
  }
  const list = await ok(main, `/v1/compact/chunks?partition=${partition}`);
  assert.deepEqual(list.chunks.map((chunk) => [chunk.level, chunk.rows]), [[0, 3], [0, 2], [0, 1]]);
  assert.ok(list.chunks.every((chunk) => chunk.min_ms === chunk.max_ms && chunk.bytes > 0));
  const few = await ok(main, `/v1/compact/chunks?partition=${partition}&limit=2`);
  assert.deepEqual([few.chunks.length, few.count, few.more], [2, 3, true]);
  assert.equal((await ok(main, `/v1/compact/status?partition=${partition}`)).write_amplification, 1);
  await ok(main, '/v1/compact/run', { partition, force: true });
  const status = await ok(main, `/v1/compact/status?partition=${partition}`);
  assert.deepEqual(status.merges.map((merge) => [merge.end, merge.level, merge.sources]),
    [['committed', 1, 3]]);
  assert.ok(status.write_amplification === 2 && status.merges[0].bytes_out > 0);
  await refused(main, 404, 'not_found', '/v1/compact/chunks?partition=none');
});

test('partitions, groups and shards are listed', async () => {
  const { partitions, more } = await ok(main, '/v1/compact/list');
  assert.deepEqual([partitions, more], [['default', 'pictures'], false]);
  assert.deepEqual((await ok(main, '/v1/elect/groups')).groups, []);
  await ok(main, '/v1/elect/campaign', { group: 'builders', name: 'anna' });
  assert.deepEqual((await ok(main, '/v1/elect/groups')).groups, ['builders']);
  const index = 'hosts';
  await refused(main, 404, 'not_found', `/v1/index/shards?index=${index}`);
  await refused(main, 400, 'invalid', '/v1/index/shards');
  await refused(main, 400, 'invalid', '/v1/index/shards?index=..%2Fx');
  holdfast('index', 'create', '--fields', 'host,at', '--key', 'host', '--time', 'at', '--digits',
    '1', index);
  for (const host of ['a', 'b', 'c'])
    await ok(main, '/v1/index/put', { index, record: { host: host.repeat(50), at: '1' } });
  assert.equal((await ok(main, `/v1/index/shards?index=${index}`)).count, 0);
  await ok(main, '/v1/index/compile', { index });
  const { shards, count, bytes } = await ok(main, `/v1/index/shards?index=${index}`);
  assert.ok(count > 0 && count <= 3 && shards.length === count);
  assert.ok(shards.every((shard, i) => /^[0-9a-f]$/.test(shard.shard) && shard.bytes > 50 &&
    (i === 0 || shard.bytes <= shards[i - 1].bytes)));
  assert.equal(shards.reduce((sum, shard) => sum + shard.bytes, 0), bytes);
  for (const route of ['/v1/compact/list', '/v1/elect/groups', `/v1/index/shards?index=${index}`]) {
    await ok(guarded, route, undefined, as('viewer'));
    await refused(guarded, 403, 'forbidden', route, undefined, as('jobs'));
  }
});

// ---- Timelines

const timeline = (server, key, more = '') => ok(server, `/v1/timeline?key=${key}${more}`);
const shape = (holds) => holds.map((hold) => [hold.owner, hold.began, hold.ended]);

test('a timeline shows who held a lock, how it began and how it ended', async () => {
  const key = fresh();
  const began = Date.now();
  const first = await acquire(main, key, { owner: '<script>alert(1)</script>' });
  await release(main, key, first);
  await acquire(main, key, { owner: 'short', ttl_ms: 1000 });
  const taken = await acquire(main, key, { owner: 'next', block_seconds: 30 });
  const held = await timeline(main, key);
  assert.deepEqual(shape(held.holds), [['<script>alert(1)</script>', 'grant', 'release'],
    ['short', 'grant', 'expiry'], ['next', 'takeover', undefined]]);
  const [one, two, three] = held.holds;
  assert.deepEqual(held.holds.map((hold) => hold.fencing_token),
    [first.fencing_token, first.fencing_token + 1, taken.fencing_token]);
  assert.ok(began - 1 <= one.began_ms && one.began_ms <= one.ended_ms &&
    one.ended_ms <= two.began_ms && two.ended_ms <= three.began_ms &&
    three.began_ms <= held.now_ms && three.expires_ms > held.now_ms);
  assert.deepEqual([one.began_precision_ms, one.ended_precision_ms], [0, 0]);
  assert.ok(three.holder.length > 0, 'the table tells the holder');
  assert.ok(held.gaps.every((gap) => gap.certain && gap.to_ms > gap.from_ms));
  assert.ok(held.complete_since_ms <= began && held.dropped === 0);
  await ok(main, '/v1/locks/break', { key, fencing_token: taken.fencing_token, reason: 'stuck',
    owner: 'ada' });
  const ended = (await timeline(main, key)).holds[2];
  assert.deepEqual([ended.ended, ended.ended_by, ended.reason], ['break', 'ada', 'stuck']);
  const last = (await until(() => timeline(main, key), (found) => found.gaps.at(-1)?.certain))
    .gaps.at(-1);
  assert.deepEqual([last.from_ms, last.to_ms], [ended.ended_ms, undefined]);
});

test('a timeline shows what other programs did', async () => {
  const key = fresh();
  assert.deepEqual((await timeline(main, key)).holds, []);
  const text = holdfast('acquire', '--holder', 'a person', key).trim();
  await until(() => timeline(main, key), (found) => found.holds.length === 1);
  const [seen] = (await timeline(main, key)).holds;
  assert.deepEqual([seen.owner, seen.began, seen.ended, seen.began_precision_ms],
    ['a person', 'seen', undefined, undefined]);
  holdfast('release', text);
  holdfast('acquire', '--holder', 'another', key);
  holdfast('locks', 'break', '--reason', 'a "test"', key);
  const { holds, gaps } = await until(() => timeline(main, key),
    (found) => found.holds[1]?.ended);
  assert.deepEqual(shape(holds), [['a person', 'seen', 'unknown'], ['another', 'seen', 'break']]);
  assert.ok(holds[0].ended_precision_ms > 0, 'it ended between two looks');
  assert.ok(holds[1].ended_by.length > 0 && holds[1].reason === 'a "test"');
  assert.ok(gaps.every((gap) => gap.certain));
});

test('a timeline is exported as CSV, and only to those who may read it', async () => {
  const key = fresh();
  await release(main, key, await acquire(main, key, { owner: 'a "b", c' }));
  await release(main, key, await acquire(main, key));
  const csv = await call(main, `/v1/timeline?scope=named:${key}&format=csv`);
  assert.equal(csv.headers.get('content-type'), 'text/csv; charset=utf-8');
  const lines = csv.text.split('\r\n');
  assert.equal(lines.length, 4);
  assert.equal(lines[0].split(',').length, 12);
  assert.match(lines[1], /^1,"a ""b"", c","","exclusive","grant",\d+,0,"release",\d+,0,"",""$/);
  assert.equal((await timeline(main, key, '&limit=1')).holds[0].fencing_token, 2);
  for (const bad of ['', '?key=a&scope=b', '?key=a&format=xml', '?scope=nonsense:x:y:z'])
    await refused(main, 400, 'invalid', `/v1/timeline${bad}`);
  await ok(guarded, `/v1/timeline?key=${key}`, undefined, as('viewer'));
  await refused(guarded, 403, 'forbidden', `/v1/timeline?key=${key}`, undefined, as('jobs'));
});

test('every reply of these tests is described by docs/openapi.json', checkRecorded);

test('the servers stop in order', async () => {
  for (const server of [main, guarded])
    assert.deepEqual(await stop(server), { code: 0, signal: null });
});
