// SPDX-License-Identifier: Apache-2.0
// serve_maintain_test.mjs: what an operator asks a server for: who holds what, compaction, indexes and
// elections. The program holdfast (HOLDFAST_PROGRAM) prepares the store.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { acquire, call, checkRecorded, folder, fresh, ok, refused, release, sleep, start, stop,
  storeUrl } from './serve_kit.mjs';

const store = storeUrl('main');
const main = await start(store);

function holdfast(...words) {
  const run = spawnSync(process.env.HOLDFAST_PROGRAM, ['--store', store, '-q', ...words],
    { encoding: 'utf8' });
  assert.equal(run.status, 0, `${words}: ${run.stderr}`);
  return run.stdout;
}

// ---- Owners

test('the owner of a lease is shown, in every language', async () => {
  const key = fresh();
  const owner = 'ci "7" \\ Grüße 🔒';
  const lease = await acquire(main, key, { owner });
  assert.equal((await ok(main, `/v1/describe?key=${key}`)).owner, owner);
  const [lock] = (await ok(main, `/v1/locks?prefix=${key}`)).locks;
  assert.equal(lock.owner, owner);
  assert.notEqual(lock.holder, owner, 'the holder is the server');
  await release(main, key, lease);
  assert.equal((await ok(main, `/v1/describe?key=${key}`)).owner, undefined);
});

test('the owner of a lease of another program is its holder', async () => {
  const key = fresh();
  const text = holdfast('acquire', '--holder', 'a person', key).trim();
  assert.equal((await ok(main, `/v1/describe?key=${key}`)).owner, 'a person');
  assert.equal((await ok(main, `/v1/locks?prefix=${key}`)).locks[0].owner, 'a person');
  holdfast('release', text);
});

// ---- Compaction

function ingest(partition, count) {
  for (let i = 0; i < count; i++) {
    const file = path.join(folder, `${partition}-${i}.csv`);
    fs.writeFileSync(file, `id,at,what\nk${i % 3},2026-01-01T00:00:0${i}Z,v${i}\n`);
    holdfast('compact', 'ingest', '--partition', partition, file);
  }
}

test('a partition is watched, merged, paused and resumed', async () => {
  const partition = 'events';
  await refused(main, 404, 'not_found', '/v1/compact/status?partition=events');
  holdfast('compact', 'create', '--format', 'csv', '--key', 'id', '--time', 'at', '--partition',
    partition);
  ingest(partition, 4);
  const before = await ok(main, `/v1/compact/status?partition=${partition}`);
  assert.equal(before.levels[0].chunks, 4);
  assert.deepEqual([before.paused, before.quarantined, before.jobs], [false, 0, []]);
  await ok(main, '/v1/compact/pause', { partition, reason: 'a test', owner: 'me' });
  const paused = await ok(main, `/v1/compact/status?partition=${partition}`);
  assert.equal(paused.paused, true);
  assert.match(paused.paused_why, /a test/);
  await refused(main, 503, 'unavailable', '/v1/compact/run', { partition, force: true });
  assert.deepEqual(await ok(main, '/v1/compact/resume', { partition }),
    { partition, paused: false });
  const run = await ok(main, '/v1/compact/run', { partition, force: true });
  assert.deepEqual([run.groups_committed, run.rows_in, run.rows_out], [1, 4, 3]);
  const after = await ok(main, `/v1/compact/status?partition=${partition}`);
  assert.equal(after.levels[0].chunks, 0);
  assert.equal(after.committed_last_hour, 1);
  const idle = await ok(main, '/v1/compact/run', { partition });
  assert.equal(idle.groups_committed, 0);
});

test('a chunk in quarantine is listed with its reason, and released', async () => {
  const partition = 'sick';
  holdfast('compact', 'create', '--format', 'csv', '--key', 'id', '--time', 'at', '--partition',
    partition);
  ingest(partition, 2);
  const chunk = JSON.parse(holdfast('compact', 'ls', '--json', '--partition', partition)
    .split('\n')[0]).key;
  holdfast('compact', 'quarantine', '--partition', partition, '--why', 'looks odd', chunk);
  const listed = await ok(main, `/v1/compact/quarantine?partition=${partition}`);
  assert.equal(listed.chunks.length, 1);
  assert.deepEqual([listed.chunks[0].chunk, listed.chunks[0].reason, listed.more],
    [chunk, 'looks odd', false]);
  await ok(main, '/v1/compact/quarantine/release', { partition, chunk });
  assert.deepEqual((await ok(main, `/v1/compact/quarantine?partition=${partition}`)).chunks, []);
  await refused(main, 404, 'not_found', '/v1/compact/quarantine/release', { partition,
    chunk: 'data/none' });
  await refused(main, 400, 'invalid', '/v1/compact/quarantine/release', { partition });
});

// ---- Indexes

test('records are put, read, compiled and queried', async () => {
  const index = 'hosts';
  await refused(main, 404, 'not_found', '/v1/index/status?index=hosts');
  holdfast('index', 'create', '--fields', 'host,owner,size,seen', '--key', 'host', '--time', 'seen',
    index);
  for (let i = 0; i < 5; i++)
    assert.deepEqual(await ok(main, '/v1/index/put', { index,
      record: { host: `h${i}`, owner: i % 2 ? 'Ada "A"' : 'bob', size: String(i * 10),
        seen: `2026-01-0${i + 1}T00:00:00Z` } }), { index, stored: true });
  const got = await ok(main, `/v1/index/get?index=${index}&key=h3`);
  assert.equal(got.record.owner, 'Ada "A"');
  const before = await ok(main, `/v1/index/status?index=${index}`);
  assert.deepEqual([before.entries, before.fields.length, before.key], [5, 4, 'host']);
  const compiled = await ok(main, '/v1/index/compile', { index });
  assert.deepEqual([compiled.entries, compiled.records_new, compiled.shards_failed], [5, 5, 0]);
  assert.equal((await ok(main, `/v1/index/status?index=${index}`)).entries, 0);
  const asked = new URLSearchParams([['index', index], ['filter', 'size>=10'],
    ['filter', 'owner=bob'], ['sort', 'size:number:desc']]);
  const found = await ok(main, `/v1/index/query?${asked}`);
  assert.deepEqual(found.records.map((record) => record.host), ['h4', 'h2']);
  assert.equal(found.more, false);
  const page = await ok(main, `/v1/index/query?index=${index}&limit=2&prefix=h`);
  assert.deepEqual([page.records.length, page.more], [2, true]);
  assert.deepEqual((await ok(main, '/v1/index/list')).indexes, [index]);
});

test('what is wrong with a record or a query is told', async () => {
  const index = 'hosts';
  const put = (record) => refused(main, 400, 'invalid', '/v1/index/put', { index, record });
  await put({ host: 1 });
  await put({ host: 'a\u0000b' });
  await put({ nonsense: 'x', host: 'h' });
  await put({ owner: 'no key' });
  await put('text');
  await refused(main, 400, 'invalid', '/v1/index/put', { index });
  await refused(main, 400, 'invalid', '/v1/index/put', { index,
    record: Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`f${i}`, 'x'])) });
  await refused(main, 400, 'invalid', `/v1/index/query?index=${index}&filter=nonsense`);
  await refused(main, 400, 'invalid', `/v1/index/query?index=${index}&limit=5000`);
  await refused(main, 400, 'invalid', '/v1/index/get?key=h1');
  await refused(main, 404, 'not_found', `/v1/index/get?index=${index}&key=none`);
  await refused(main, 404, 'not_found', '/v1/index/compile', { index: 'none' });
});

// ---- Elections

test('the members of a group are listed by rank', async () => {
  assert.deepEqual(await ok(main, '/v1/elect/leaders?group=builders'),
    { group: 'builders', members: [] });
  const members = ['anna', 'bert'].map((name) => spawn(process.env.HOLDFAST_PROGRAM,
    ['--store', store, 'elect', 'join', '--as', name, '--for', '60s', 'builders'],
    { stdio: 'ignore' }));
  let listed = [];
  for (let i = 0; i < 100 && listed.length < 2; i++) {
    await sleep(100);
    listed = (await ok(main, '/v1/elect/leaders?group=builders')).members;
  }
  assert.deepEqual(listed.map((member) => member.name).sort(), ['anna', 'bert']);
  assert.deepEqual(listed.map((member) => member.rank), [0, 1]);
  const first = (level) => ok(main, `/v1/elect/leaders?group=builders&level=${level}`)
    .then((reply) => reply.members[0].name);
  const leaders = new Set();
  for (let level = 0; level < 40; level++) leaders.add(await first(level));
  assert.equal(leaders.size, 2, 'different work has different leaders');
  for (const member of members) member.kill('SIGTERM');
  await refused(main, 400, 'invalid', '/v1/elect/leaders');
  await refused(main, 400, 'invalid', '/v1/elect/leaders?group=builders&beat_ms=1');
});

test('a member joins, sends heartbeats at any server, and leaves', async () => {
  const group = 'http';
  const other = await start(store);
  const anna = await ok(main, '/v1/elect/campaign', { group, name: 'anna', owner: 'me' });
  assert.deepEqual(anna, { group, name: 'anna', rank: 0, leads: true, beat_ms: 10000 });
  const drawn = await ok(other, '/v1/elect/campaign', { group });
  assert.match(drawn.name, /^[0-9a-f]{32}$/);
  const kept = await ok(other, '/v1/elect/keep', { group, name: 'anna', level: 3 });
  const ranked = (await ok(main, `/v1/elect/leaders?group=${group}&level=3`)).members;
  assert.equal(ranked[kept.rank].name, 'anna');
  assert.deepEqual(ranked.map((member) => member.present), [true, true]);
  assert.deepEqual(await ok(other, '/v1/elect/resign', { group, name: 'anna' }),
    { group, name: 'anna', resigned: true });
  const left = (await ok(main, `/v1/elect/leaders?group=${group}`)).members;
  assert.deepEqual(left.map((member) => member.name), [drawn.name]);
  await refused(main, 400, 'invalid', '/v1/elect/keep', { group });
  await refused(main, 400, 'invalid', '/v1/elect/campaign', { group: 'Not A Name' });
  await refused(main, 400, 'invalid', '/v1/elect/campaign', { group, name: '../x' });
  await stop(other);
});

test('a member that sends no heartbeats is absent', async () => {
  const group = 'quiet';
  for (const name of ['anna', 'bert'])
    await ok(main, '/v1/elect/campaign', { group, name, beat_ms: 200 });
  let members = [];
  for (let i = 0; i < 100 && members.length < 2; i++) {
    await sleep(100);
    await ok(main, '/v1/elect/keep', { group, name: 'bert', beat_ms: 200 });
    ({ members } = await ok(main, `/v1/elect/leaders?group=${group}&beat_ms=200`));
    members = members.some((member) => !member.present) ? members : [];
  }
  assert.deepEqual(members.map((member) => [member.name, member.present, member.rank]),
    [['bert', true, 0], ['anna', false, undefined]]);
});

// ---- Long work

test('merges and compiles end with their clients, and are bounded', async () => {
  const index = 'long';
  holdfast('index', 'create', '--fields', 'id,at', '--key', 'id', '--time', 'at', index);
  const file = path.join(folder, 'long.csv');
  fs.writeFileSync(file, 'id,at\n' + Array.from({ length: 400 },
    (_, i) => `k${i},2026-01-01T00:00:00Z\n`).join(''));
  holdfast('index', 'put', '--from', file, index);
  for (let i = 0; i < 5; i++) {
    const hangs = new AbortController();
    setTimeout(() => hangs.abort(), 5 + 10 * i);
    await call(main, '/v1/index/compile', { index }, { signal: hangs.signal }).catch(() => null);
  }
  // The work of a client that has left ends soon, and makes room for that of others.
  let { status } = await call(main, '/v1/index/compile', { index });
  for (let i = 0; i < 300 && status === 503; i++) {
    await sleep(100);
    ({ status } = await call(main, '/v1/index/compile', { index }));
  }
  assert.equal(status, 200);
  const replies = await Promise.all(Array.from({ length: 12 },
    () => call(main, '/v1/index/compile', { index })));
  const statuses = new Set(replies.map((reply) => reply.status));
  assert.ok(statuses.has(200) && [...statuses].every((one) => one === 200 || one === 503),
    [...statuses].join());
  for (let entries = 1; entries > 0;) {
    await ok(main, '/v1/index/compile', { index });
    ({ entries } = await ok(main, `/v1/index/status?index=${index}`));
  }
  assert.equal((await ok(main, `/v1/index/query?index=${index}&limit=1000`)).records.length, 400);
});

// ---- Rights

const hash = (text) => createHash('sha256').update(text).digest('hex');

test('what belongs to the whole store needs the right in all namespaces', async () => {
  const file = path.join(folder, 'tokens');
  const secret = { jobs: 'j'.repeat(32), reader: 'r'.repeat(32), writer: 'w'.repeat(32) };
  fs.writeFileSync(file, `jobs ${hash(secret.jobs)} admin jobs,default,ci-*
reader ${hash(secret.reader)} read *
writer ${hash(secret.writer)} lock,write *
`, { mode: 0o600 });
  const server = await start(store, '--tokens', file);
  const as = (name) => ({ headers: { authorization: `Bearer ${secret[name]}` } });
  const reads = ['/v1/compact/status?partition=events', '/v1/compact/quarantine?partition=events',
    '/v1/index/list', '/v1/index/status?index=hosts', '/v1/index/get?index=hosts&key=h1',
    '/v1/index/query?index=hosts', '/v1/elect/leaders?group=builders'];
  for (const route of reads) {
    await refused(server, 403, 'forbidden', route, undefined, as('jobs'));
    await refused(server, 401, 'unauthorized', route);
    await ok(server, route, undefined, as('reader'));
  }
  for (const [route, body] of [['/v1/compact/run', { partition: 'events' }],
    ['/v1/index/compile', { index: 'hosts' }],
    ['/v1/elect/campaign', { group: 'rights' }],
    ['/v1/index/put', { index: 'hosts', record: { host: 'h9' } }]]) {
    await refused(server, 403, 'forbidden', route, body, as('jobs'));
    await refused(server, 403, 'forbidden', route, body, as('reader'));
    await ok(server, route, body, as('writer'));
  }
  for (const route of ['pause', 'resume', 'quarantine/release'])
    await refused(server, 403, 'forbidden', `/v1/compact/${route}`, { partition: 'events' },
      as('writer'));
  await refused(server, 403, 'forbidden', '/v1/txn/begin', {}, as('reader'));
  await ok(server, '/v1/txn/begin', {}, as('writer'));
  assert.equal((await call(server, '/v1/openapi.json')).status, 200);
  await stop(server);
});

test('every reply of these tests is described by docs/openapi.json', checkRecorded);

test('the server stops in order', async () => {
  assert.deepEqual(await stop(main), { code: 0, signal: null });
});
