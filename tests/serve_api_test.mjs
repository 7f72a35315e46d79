// SPDX-License-Identifier: Apache-2.0
// serve_api_test.mjs: the server's API as a client in another language sees it: leases, keys, locks,
// tokens, and servers that end.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PROGRAM, acquire, call, checkRecorded, folder, fresh, ok, raw, refused, release, sleep,
  start, stop, storeUrl } from './serve_kit.mjs';

const main = await start(storeUrl('main'));

// ---- Leases
// ---------------------------------------------------------------------------------------

test('a lease is acquired, renewed and released, and the next one has a higher token', async () => {
  const key = fresh();
  const first = await acquire(main, key);
  assert.equal(first.namespace, 'default');
  assert.equal(first.key, key);
  assert.equal(first.owner, 'test');
  assert.match(first.lease_id, /^[0-9a-f]{32}$/);
  assert.equal(first.version, 0);
  assert.equal(first.ttl_ms, 30000);
  assert.ok(first.remaining_ms > 20000 && first.remaining_ms <= 30000, `${first.remaining_ms}`);
  assert.ok(Math.abs(first.expires_at_unix - Date.now() / 1000 - 30) < 12);
  const renewed = await ok(main, '/v1/keepalive', { key, lease_id: first.lease_id });
  assert.ok(renewed.remaining_ms > 20000 && renewed.remaining_ms <= 30000);
  assert.deepEqual(await release(main, key, first), { released: true });
  const second = await acquire(main, key);
  assert.ok(second.fencing_token > first.fencing_token);
  assert.notEqual(second.lease_id, first.lease_id);
  await release(main, key, second);
});

test('who does not want to wait is told that it is held, and when to try again', async () => {
  const key = fresh();
  const lease = await acquire(main, key);
  const reply = await refused(main, 409, 'waiting', '/v1/acquire', { key, block_seconds: -1 });
  assert.ok(Number(reply.headers.get('retry-after')) > 0);
  assert.ok(reply.json.retry_after_seconds > 0);
  await release(main, key, lease);
});

test('a wait ends when it is over, and nothing stays in line', async () => {
  const key = fresh();
  const lease = await acquire(main, key);
  const began = Date.now();
  await refused(main, 409, 'waiting', '/v1/acquire', { key, block_seconds: 1 });
  assert.ok(Date.now() - began >= 900);
  await release(main, key, lease);
  await release(main, key, await acquire(main, key));
});

test('waiters get the lease in the order in which they came', async () => {
  const key = fresh();
  let holder = await acquire(main, key);
  const order = [];
  const waits = [];
  for (let i = 0; i < 5; i++) {
    waits.push(acquire(main, key, { block_seconds: 60, owner: `w${i}` }).then(async (lease) => {
      order.push(i);
      await release(main, key, lease);
      return lease;
    }));
    await sleep(50);
  }
  await release(main, key, holder);
  const leases = await Promise.all(waits);
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
  assert.ok(leases.every((lease) => lease.waited_ms > 0));
  for (let i = 1; i < 5; i++) assert.ok(leases[i].fencing_token > leases[i - 1].fencing_token);
});

test('a waiter that hangs up leaves the line at once, and never keeps a grant', async () => {
  const key = fresh();
  const holder = await acquire(main, key);
  const leaves = new AbortController();
  const left = acquire(main, key, { block_seconds: 60 }).catch(() => 'left');
  const gone = call(main, '/v1/acquire', { key, block_seconds: 60 },
      { signal: leaves.signal }).catch(() => 'left');
  await sleep(100);
  leaves.abort();
  assert.equal(await gone, 'left');
  await release(main, key, holder);
  const next = await left;
  await release(main, key, next);
  // Nobody is left: it is free at once, again and again.
  for (let i = 0; i < 3; i++) await release(main, key, await acquire(main, key));
});

test('many clients that hang up at random leave nothing behind', async () => {
  const key = fresh();
  const clients = Array.from({ length: 40 }, async (_, i) => {
    const hangs = new AbortController();
    if (i % 2) setTimeout(() => hangs.abort(), 20 + (i * 7) % 150);
    try {
      const reply = await call(main, '/v1/acquire', { key, block_seconds: 60, ttl_seconds: 5 },
          { signal: hangs.signal });
      assert.equal(reply.status, 200, reply.text);
      await release(main, key, reply.json);
      return 1;
    } catch (error) {
      assert.equal(error.name, 'AbortError', String(error));
      return 0;
    }
  });
  const done = (await Promise.all(clients)).reduce((sum, one) => sum + one, 0);
  assert.ok(done >= 20, `${done} of 40 were served`);
  // A grant that nobody took is given back well before its ttl.
  await release(main, key, await acquire(main, key, { block_seconds: 3 }));
});

test('a lease that has ended is refused for everything', async () => {
  const key = fresh();
  const lease = await acquire(main, key);
  await release(main, key, lease);
  const headers = { 'x-lease-id': lease.lease_id };
  await refused(main, 403, 'lease_expired', '/v1/keepalive', { key, lease_id: lease.lease_id });
  await refused(main, 403, 'lease_expired', '/v1/release', { key, lease_id: lease.lease_id });
  await refused(main, 403, 'lease_expired', `/v1/update?key=${key}`, 'x', { headers });
  await refused(main, 403, 'lease_expired', `/v1/get?key=${key}`, undefined, { headers });
  await refused(main, 403, 'lease_expired', '/v1/keepalive', { key, lease_id: 'f'.repeat(32) });
});

test('a lease is known under its own key only', async () => {
  const [key, other] = [fresh(), fresh()];
  const [lease, held] = [await acquire(main, key), await acquire(main, other)];
  await refused(main, 403, 'lease_expired', '/v1/release', { key: other,
      lease_id: lease.lease_id });
  await refused(main, 403, 'lease_expired', '/v1/keepalive', { key: other,
      lease_id: lease.lease_id });
  await refused(main, 403, 'lease_expired', `/v1/update?key=${other}`, 'x',
      { headers: { 'x-lease-id': lease.lease_id } });
  await refused(main, 403, 'lease_expired', `/v1/get?key=${other}`, undefined,
      { headers: { 'x-lease-id': lease.lease_id } });
  await release(main, key, lease);
  await release(main, other, held);
});

test('a lease that expires is granted to the next', async () => {
  const key = fresh();
  const first = await acquire(main, key, { ttl_seconds: undefined, ttl_ms: 1000 });
  assert.equal(first.ttl_ms, 1000);
  const second = await acquire(main, key, { block_seconds: 30 });
  assert.ok(second.fencing_token > first.fencing_token);
  await refused(main, 403, 'lease_expired', '/v1/keepalive', { key, lease_id: first.lease_id });
  await release(main, key, second);
});

// ---- Retries
// --------------------------------------------------------------------------------------

test('a retry with the same request id gets the same lease, and no second one', async () => {
  const key = fresh();
  const body = { key, ttl_seconds: 30, block_seconds: -1, request_id: fresh('request') };
  const first = await ok(main, '/v1/acquire', body);
  const again = await ok(main, '/v1/acquire', body);
  assert.equal(again.lease_id, first.lease_id);
  assert.equal(again.fencing_token, first.fencing_token);
  await refused(main, 400, 'invalid', '/v1/acquire', { ...body, ttl_seconds: 31 });
  const done = { key, lease_id: first.lease_id, request_id: fresh('request') };
  assert.deepEqual(await ok(main, '/v1/release', done), { released: true });
  assert.deepEqual(await ok(main, '/v1/release', done), { released: true });
});

test('a request id belongs to one lock whatever the lengths of their names', async () => {
  const ask = (more) => ({ ttl_seconds: 30, block_seconds: -1, ...more });
  const long = (end) => `path:/${'x'.repeat(1000)}${end}`;
  const id = fresh('request').padEnd(1000, 'i');
  const leases = [];
  for (const scope of [long('a'), long('b')]) {
    const lease = await ok(main, '/v1/acquire', ask({ scope, request_id: id }));
    assert.equal((await ok(main, '/v1/acquire', ask({ scope, request_id: id }))).lease_id, lease.lease_id);
    await refused(main, 409, 'waiting', '/v1/acquire', ask({ scope, request_id: `${id}j` }));
    leases.push(lease.lease_id);
    await ok(main, '/v1/release', { scope, lease_id: lease.lease_id });
  }
  assert.notEqual(leases[0], leases[1]);
});

test('a request id belongs to one key: other keys never get its result', async () => {
  const [key, id] = [fresh(), fresh('request')];
  const ask = (more) => ({ ttl_seconds: 30, block_seconds: -1, ...more });
  const one = await ok(main, '/v1/acquire', ask({ key, request_id: `b/${id}` }));
  const other = await ok(main, '/v1/acquire', ask({ key: `${key}/b`, request_id: id }));
  assert.notEqual(one.lease_id, other.lease_id);
  await refused(main, 400, 'invalid', '/v1/acquire', ask({ scope: key, request_id: `b/${id}` }));
  await release(main, key, one);
  await release(main, `${key}/b`, other);
});

test('an update with a request id happens once', async () => {
  const key = fresh();
  const lease = await acquire(main, key);
  const headers = { 'x-lease-id': lease.lease_id, 'x-request-id': fresh('request') };
  const first = await ok(main, `/v1/update?key=${key}`, 'once', { headers });
  const again = await ok(main, `/v1/update?key=${key}`, 'once', { headers });
  assert.deepEqual(again, first);
  assert.equal(first.new_version, 1);
  await release(main, key, lease);
});

// ---- States
// ---------------------------------------------------------------------------------------

test('a state is read, changed and removed under a lease', async () => {
  const key = fresh('orders/42');
  const lease = await acquire(main, key);
  const headers = { 'x-lease-id': lease.lease_id, 'x-fencing-token': String(lease.fencing_token) };
  const at = `key=${encodeURIComponent(key)}`;
  const none = await call(main, `/v1/get?${at}`, undefined, { headers });
  assert.equal(none.status, 204);
  assert.equal(none.headers.get('x-key-version'), '0');
  const one = await ok(main, `/v1/update?${at}`, 'first', { headers });
  assert.deepEqual([one.new_version, one.bytes], [1, 5]);
  const read = await call(main, `/v1/get?${at}`, undefined, { headers });
  assert.equal(read.text, 'first');
  assert.equal(read.headers.get('x-key-version'), '1');
  assert.equal(read.headers.get('etag'), `"${one.new_state_etag}"`);
  const conflict = await refused(main, 409, 'version_conflict', `/v1/update?${at}`, 'x',
    { headers: { ...headers, 'x-if-version': '7' } });
  assert.equal(conflict.json.current_version, 1);
  assert.equal(conflict.json.current_etag, one.new_state_etag);
  await refused(main, 409, 'etag_mismatch', `/v1/update?${at}`, 'x', { headers: { ...headers,
      'x-if-state-etag': 'nope' } });
  const two = await ok(main, `/v1/update?${at}`, 'second',
    { headers: { ...headers, 'x-if-version': '1', 'x-if-state-etag': one.new_state_etag } });
  assert.equal(two.new_version, 2);
  const gone = await ok(main, `/v1/remove?${at}`, '', { headers });
  assert.deepEqual(gone, { removed: true, new_version: 3 });
  assert.equal((await call(main, `/v1/get?${at}`, undefined, { headers })).status, 204);
  await refused(main, 403, 'fencing_mismatch', `/v1/update?${at}`, 'x',
    { headers: { ...headers, 'x-fencing-token': String(lease.fencing_token + 1) } });
  await release(main, key, lease);
});

test('without a lease, a state is read with public=1 only', async () => {
  const key = fresh();
  const lease = await acquire(main, key);
  await ok(main, `/v1/update?key=${key}`, Buffer.alloc(100000, 'a').toString(),
      { headers: { 'x-lease-id': lease.lease_id } });
  await refused(main, 403, 'lease_required', `/v1/get?key=${key}`);
  await refused(main, 403, 'lease_required', `/v1/update?key=${key}`, 'x');
  const read = await call(main, `/v1/get?key=${key}&public=1`);
  assert.equal(read.text.length, 100000);
  const described = await ok(main, `/v1/describe?key=${key}`);
  assert.deepEqual([described.version, described.bytes, described.held], [1, 100000, true]);
  assert.ok(!JSON.stringify(described).includes(lease.lease_id), 'the lease id is not told');
  await release(main, key, lease);
  await refused(main, 404, 'not_found', `/v1/describe?key=${fresh('nothing')}`);
});

test('if_not_exists refuses a key that has a state, and leaves it free', async () => {
  const key = fresh();
  const lease = await acquire(main, key, { if_not_exists: true });
  await ok(main, `/v1/update?key=${key}`, 'x', { headers: { 'x-lease-id': lease.lease_id } });
  await release(main, key, lease);
  const reply = await refused(main, 409, 'already_exists', '/v1/acquire',
      { key, block_seconds: -1, if_not_exists: true });
  assert.equal(reply.json.current_version, 1);
  await release(main, key, await acquire(main, key));
});

// ---- Scopes
// ---------------------------------------------------------------------------------------

test('trees, paths and slots are locked by their scopes', async () => {
  const tree = await ok(main, '/v1/acquire', { scope: 'tree:/a/b', block_seconds: -1 });
  await refused(main, 409, 'waiting', '/v1/acquire', { scope: 'path:/a/b/c', block_seconds: -1 });
  const other = await ok(main, '/v1/acquire', { scope: 'path:/a/c', block_seconds: -1 });
  assert.equal(other.scope, 'path:/a/c');
  await ok(main, '/v1/release', { scope: 'tree:/a/b', lease_id: tree.lease_id });
  await ok(main, '/v1/release', { scope: 'path:/a/c', lease_id: other.lease_id });
  const slots = { scope: fresh('slots'), mode: 'slots', slots: 2, block_seconds: -1 };
  const two = [await ok(main, '/v1/acquire', slots), await ok(main, '/v1/acquire', slots)];
  assert.notEqual(two[0].lease_id, two[1].lease_id);
  await refused(main, 409, 'waiting', '/v1/acquire', slots);
  for (const lease of two) await ok(main, '/v1/release', { scope: slots.scope,
      lease_id: lease.lease_id });
});

test('several scopes are held together, and a refusal says which of them are held', async () => {
  const ask = { scopes: ['path:/many/a', 'path:/many/b'], block_seconds: -1 };
  const lease = await ok(main, '/v1/acquire', ask);
  assert.equal(lease.scope, 'path:/many/a');
  const no = await refused(main, 409, 'waiting', '/v1/acquire',
    { scopes: ['path:/many/c', 'path:/many/b'], block_seconds: -1 });
  assert.deepEqual(no.json.blocked, [1]);
  const { locks } = await ok(main, '/v1/locks?prefix=path:/many');
  assert.deepEqual(locks.map((lock) => lock.scopes), [ask.scopes]);
  const held = { scope: lease.scope, lease_id: lease.lease_id };
  await ok(main, '/v1/keepalive', held);
  await ok(main, '/v1/release', held);
  for (const wrong of [[], 'path:/a', [1], [''], ['a', 'b'], Array(65).fill('path:/a')])
    await refused(main, 400, 'invalid', '/v1/acquire', { scopes: wrong, block_seconds: -1 });
  await refused(main, 400, 'invalid', '/v1/acquire', { scope: 'path:/a', scopes: ['path:/b'] });
});

test('work is done once per period, with a note that others see', async () => {
  const key = fresh();
  const ask = { key, owner: 'cron', once_per_ms: 3600000, note: { step: [1] }, block_seconds: -1 };
  const end = async (more) => {
    const lease = await ok(main, '/v1/acquire', ask);
    return ok(main, '/v1/release', { key, lease_id: lease.lease_id, ...more });
  };
  const lease = await ok(main, '/v1/acquire', ask);
  const { locks } = await ok(main, `/v1/locks?prefix=${key}`);
  assert.deepEqual([locks[0].owner, JSON.parse(locks[0].note)],
    ['cron', { owner: 'cron', note: ask.note }]);
  const held = { key, lease_id: lease.lease_id };
  await refused(main, 400, 'invalid', '/v1/release', { ...held, result: 'maybe' });
  await refused(main, 400, 'invalid', '/v1/release', { ...held, note: 1 });
  await ok(main, '/v1/release', held);
  await end({ result: 'failed' });
  await end({ result: 'completed', owner: 'cron', note: 'all "17" rows' });
  const no = await refused(main, 409, 'already_done', '/v1/acquire', ask);
  assert.match(no.json.detail, /cron/);
  const ended = (await ok(main, `/v1/locks?prefix=${key}&ended=1`)).locks;
  assert.deepEqual(ended.map((row) => row.state).sort(), ['completed', 'failed']);
  assert.equal(JSON.parse(ended.find((row) => row.state === 'completed').note).note,
    'all "17" rows');
  assert.deepEqual((await ok(main, `/v1/locks?prefix=${key}`)).locks, []);
  await refused(main, 400, 'invalid', '/v1/acquire', { ...ask, if_not_exists: true });
  await release(main, key, await acquire(main, key)); // which asks for no period
});

test('namespaces are apart', async () => {
  const key = fresh();
  const here = await acquire(main, key);
  const there = await acquire(main, key, { namespace: 'other' });
  await refused(main, 403, 'lease_expired', '/v1/keepalive', { key, namespace: 'other',
      lease_id: here.lease_id });
  await ok(main, '/v1/release', { key, namespace: 'other', lease_id: there.lease_id });
  await release(main, key, here);
  await refused(main, 400, 'invalid', '/v1/acquire', { key, namespace: 'Not A Name',
      block_seconds: -1 });
});

test('locks are listed in pages, without their ids, and one can be broken', async () => {
  const prefix = fresh('listed');
  const leases = [];
  for (let i = 0; i < 5; i++) leases.push([`${prefix}-${i}`, await acquire(main,
      `${prefix}-${i}`)]);
  const seen = [];
  for (let after = ''; ;) {
    const page = await ok(main,
        `/v1/locks?prefix=${prefix}&limit=2&after=${encodeURIComponent(after)}`);
    assert.ok(page.locks.length <= 2);
    seen.push(...page.locks);
    if (!page.next) break;
    after = page.next;
  }
  assert.deepEqual(seen.map((lock) => lock.scope), leases.map(([key]) => `named:${key}`));
  for (const [, lease] of leases) assert.ok(!JSON.stringify(seen).includes(lease.lease_id));
  const [key, lease] = leases.pop();
  await refused(main, 400, 'invalid', '/v1/locks/break', { key,
      fencing_token: lease.fencing_token });
  await ok(main, '/v1/locks/break', { key, fencing_token: lease.fencing_token, reason: 'test' });
  await refused(main, 403, 'lease_expired', '/v1/keepalive', { key, lease_id: lease.lease_id });
  await refused(main, 404, 'not_found', '/v1/locks/break', { key,
      fencing_token: lease.fencing_token, reason: 'again' });
  for (const [name, held] of leases) await release(main, name, held);
});

test('keys that have a state or are held are listed in pages', async () => {
  const prefix = fresh('keys');
  const names = [0, 1, 2, 3, 4].map((i) => `${prefix}-${i}`);
  const held = await acquire(main, names[0], { owner: 'ann' });
  const taken = await acquire(main, names[1]);
  await release(main, names[1], taken); // a lock that is free, and no key
  for (const name of names.slice(2)) {
    const lease = await acquire(main, name);
    await ok(main, `/v1/update?key=${name}`, 'state',
        { headers: { 'x-lease-id': lease.lease_id } });
    await release(main, name, lease);
  }
  const seen = [];
  for (let after = ''; ;) {
    const page = await ok(main, `/v1/keys?prefix=${prefix}&limit=2&after=${after}`);
    assert.ok(page.keys.length <= 2);
    seen.push(...page.keys);
    if (!page.next) break;
    after = page.next;
  }
  assert.deepEqual(seen.map((row) => [row.key, row.version, row.held]),
      [[names[0], 0, true], ...names.slice(2).map((name) => [name, 1, false])]);
  assert.deepEqual([seen[0].owner, seen[1].bytes], ['ann', 5]);
  assert.ok(!JSON.stringify(seen).includes(held.lease_id));
  await release(main, names[0], held);
});

test('a release and a break of a tree reach those who wait for a path in it', async () => {
  for (const how of ['release', 'break']) {
    const tree = `tree:/${fresh('tree')}`;
    const path = `${tree.replace('tree:', 'path:')}/a`;
    const held = await ok(main, '/v1/acquire', { scope: tree, ttl_seconds: 60, block_seconds: -1 });
    const waits = ok(main, '/v1/acquire', { scope: path, ttl_seconds: 60, block_seconds: 30 });
    await sleep(300);
    if (how === 'break') {
      await ok(main, '/v1/locks/break', { scope: tree, fencing_token: held.fencing_token,
          reason: 'test' });
    } else {
      await ok(main, '/v1/release', { scope: tree, lease_id: held.lease_id });
    }
    const lease = await waits;
    assert.deepEqual(await ok(main, '/v1/release', { scope: path, lease_id: lease.lease_id }),
        { released: true });
  }
});

// ---- Bad requests
// ---------------------------------------------------------------------------------

test('a request that is wrong gets a sentence, and the server goes on', async () => {
  const wrong = [
    ['{', 'not JSON'], ['[]', 'not an object'], ['', 'empty'], ['{}', 'no key'],
    ['{"key":1}', 'a number'], ['{"key":"a","key":"b"}', 'twice'],
        ['{"key":"a","ttl_seconds":"5"}', 'text'],
    ['{"key":"a","ttl_seconds":1.5}', 'a fraction'], ['{"key":"a","ttl_seconds":-1}', 'negative'],
    ['{"key":"a","ttl_ms":1}', 'too short'], ['{"key":"a","mode":"odd"}', 'a mode'],
    ['{"key":"a","scope":"named:b"}', 'both'], ['{"key":"a\\u0000b"}', 'a NUL'],
        ['{"key":"\\ud800"}', 'a surrogate'],
    [`{"key":"${'a'.repeat(2000)}"}`, 'too long'], ['{"key":"../x"}', 'a path'],
    ['{"key":"a","block_seconds":1e9}', 'a float'], ['{"key":"a"} x', 'more after it'],
  ];
  for (const [body, what] of wrong) {
    const reply = await call(main, '/v1/acquire', body);
    assert.equal(`${reply.status} ${reply.json?.error}`, '400 invalid',
        `${what}: ${reply.status} ${reply.text}`);
    assert.ok(reply.json.detail.length > 5, what);
  }
  await refused(main, 404, 'not_found', '/v2/acquire', {});
  await refused(main, 405, 'wrong_method', '/v1/acquire');
  await refused(main, 400, 'invalid', '/v1/describe');
  await refused(main, 400, 'invalid', '/v1/describe?key=a&key=b');
  await refused(main, 400, 'invalid', '/v1/acquire', '{"key":"a"}',
      { headers: { 'content-type': 'text/plain' } });
  assert.equal((await call(main, '/healthz')).text, 'ok\n');
  assert.equal((await call(main, '/readyz')).text, 'ready\n');
});

test('a member that is not known is ignored, and null means not sent', async () => {
  const key = fresh();
  const lease = await ok(main, '/v1/acquire', { key, ttl_seconds: null, colour: 'red',
      block_seconds: -1 });
  await release(main, key, lease);
});

test('names and origins of others are refused', async () => {
  const host = new URL(main.url).host;
  assert.equal(await raw(main, { host }), 200);
  assert.equal(await raw(main, { host: 'localhost:1' }), 200);
  assert.equal(await raw(main, { host: 'evil.example' }), 403);
  assert.equal(await raw(main, { host, origin: 'http://evil.example' }), 403);
  assert.equal(await raw(main, { host, origin: `http://${host}` }), 200);
  const named = await start(storeUrl('named'), '--host', 'locks.example');
  assert.equal(await raw(named, { host: 'locks.example:80' }), 200);
  await stop(named);
});

// ---- Tokens
// ---------------------------------------------------------------------------------------

const hash = (text) => createHash('sha256').update(text).digest('hex');

test('a token has rights in its namespaces, and no others', async () => {
  const file = path.join(folder, 'tokens');
  const secret = { reader: 'r'.repeat(32), worker: 'w'.repeat(32), chief: 'c'.repeat(32) };
  fs.writeFileSync(file, `# name hash rights namespaces
reader ${hash(secret.reader)} read default
worker ${hash(secret.worker)} lock,write jobs,ci-*
chief ${hash(secret.chief)} admin *
`, { mode: 0o600 });
  const server = await start(storeUrl('tokens'), '--tokens', file);
  const as = (name) => ({ headers: { authorization: `Bearer ${secret[name]}` } });
  const key = fresh();
  const body = (namespace) => ({ key, namespace, block_seconds: -1 });
  const none = await refused(server, 401, 'unauthorized', '/v1/acquire', body('jobs'));
  assert.ok(none);
  await refused(server, 401, 'unauthorized', '/v1/acquire', body('jobs'),
      { headers: { authorization: 'Bearer ' + 'x'.repeat(32) } });
  await refused(server, 403, 'forbidden', '/v1/acquire', body('default'), as('reader'));
  await refused(server, 403, 'forbidden', '/v1/acquire', body('default'), as('worker'));
  for (const ns of ['jobs', 'ci-1'])
    await ok(server, '/v1/acquire', body(ns), as('worker'));
  await ok(server, '/v1/locks?namespace=default', undefined, as('reader'));
  await refused(server, 403, 'forbidden', '/v1/locks?namespace=jobs', undefined, as('reader'));
  await refused(server, 403, 'forbidden', '/v1/locks/break', { ...body('jobs'), fencing_token: 1,
      reason: 'r' }, as('worker'));
  await ok(server, '/v1/locks/break', { ...body('jobs'), fencing_token: 1, reason: 'r' },
      as('chief'));
  assert.equal((await call(server, '/healthz')).status, 200);
  // Read again on SIGHUP; a file that is wrong changes nothing.
  fs.writeFileSync(file, 'reader nonsense read default\n');
  server.process.kill('SIGHUP');
  await sleep(300);
  await ok(server, '/v1/locks', undefined, as('reader'));
  assert.match(server.log, /line 1: /);
  fs.writeFileSync(file, `worker ${hash(secret.worker)} read jobs\n`);
  server.process.kill('SIGHUP');
  await sleep(300);
  await refused(server, 401, 'unauthorized', '/v1/locks', undefined, as('reader'));
  assert.ok(!server.log.includes(secret.worker) && !server.log.includes(hash(secret.worker)));
  await stop(server);
});

test('locks of the whole store need a token for all namespaces, whatever the request names', async () => {
  const file = path.join(folder, 'store-tokens');
  const secret = { jobs: 'j'.repeat(32), all: 'l'.repeat(32), chief: 'c'.repeat(32) };
  fs.writeFileSync(file, `jobs ${hash(secret.jobs)} admin jobs
all ${hash(secret.all)} lock *
chief ${hash(secret.chief)} admin *
`, { mode: 0o600 });
  const server = await start(storeUrl('store-tokens'), '--tokens', file);
  const as = (name) => ({ headers: { authorization: `Bearer ${secret[name]}` } });
  const namespace = 'jobs';
  for (const scope of ['chunk:data/x', 'pin:data/x', 'shard:domains/a3', 'snapshot:default:0']) {
    const wish = { namespace, ttl_seconds: 30, block_seconds: -1 };
    const lease = await ok(server, '/v1/acquire', { ...wish, scope, owner: 'a worker' }, as('all'));
    const { lease_id, fencing_token } = lease;
    const denied = (route, body) => refused(server, 403, 'forbidden', route, body, as('jobs'));
    for (const named of [{ scope }, { key: scope }]) {
      await denied('/v1/acquire', { ...wish, ...named });
      await denied('/v1/acquire', { ...wish, ...named, once_per_ms: 1000 });
      await denied('/v1/keepalive', { namespace, ...named, lease_id });
      await denied('/v1/release', { namespace, ...named, lease_id });
      await denied('/v1/locks/break', { namespace, ...named, fencing_token, reason: 'r' });
      const query = `namespace=jobs&${Object.keys(named)[0]}=${encodeURIComponent(scope)}`;
      for (const route of ['timeline', 'waits', 'describe', 'get'])
        await denied(`/v1/${route}?${query}`);
    }
    await denied('/v1/acquire', { ...wish, scopes: [scope] });
    await denied('/v1/acquire', { ...wish, scopes: ['path:/a', scope] });
    await denied(`/v1/locks?namespace=jobs&prefix=${encodeURIComponent(scope)}`);
    const listed = async (name) => (await ok(server, '/v1/locks?namespace=jobs', undefined,
        as(name))).locks.map((lock) => lock.scope);
    assert.deepEqual([await listed('all'), await listed('jobs')], [[scope], []]);
    await ok(server, `/v1/timeline?namespace=jobs&scope=${scope}`, undefined, as('all'));
    await ok(server, '/v1/keepalive', { namespace, scope, lease_id }, as('all'));
    await refused(server, 403, 'forbidden', '/v1/locks/break', { namespace, scope, fencing_token,
        reason: 'r' }, as('all'));
    if (scope.startsWith('chunk:')) {
      const waiting = call(server, '/v1/acquire', { ...wish, scope, block_seconds: 30 }, as('all'));
      const waits = async (name) => (await ok(server, '/v1/waits?namespace=jobs', undefined,
          as(name))).count;
      while (await waits('all') < 1) await sleep(10);
      assert.equal(await waits('jobs'), 0);
      await ok(server, '/v1/release', { namespace, scope, lease_id }, as('all'));
      const granted = (await waiting).json;
      await ok(server, '/v1/release', { namespace, scope, lease_id: granted.lease_id }, as('all'));
    } else {
      await ok(server, '/v1/release', { namespace, scope, lease_id }, as('all'));
    }
    const broken = await ok(server, '/v1/acquire', { ...wish, scope }, as('all'));
    await ok(server, '/v1/locks/break', { namespace, scope, reason: 'r',
        fencing_token: broken.fencing_token }, as('chief'));
  }
  for (const scope of ['named:n', 'path:/p', 'tree:/t', 'inode:1', 'range:2:0-4'])
    await ok(server, '/v1/acquire', { namespace, scope, block_seconds: -1 }, as('jobs'));
  await stop(server);
});

test('a request id belongs to a client: others get nothing by it, and end no wait', async () => {
  const file = path.join(folder, 'tokens-of-ids');
  const letters = { ann: 'a', bob: 'b' };
  const as = (name) => ({ headers: { authorization: `Bearer ${letters[name].repeat(32)}` } });
  const write = (names) => fs.writeFileSync(file, names.map((name) =>
    `${name} ${hash(letters[name].repeat(32))} lock *\n`).join(''), { mode: 0o600 });
  write(['ann', 'bob']);
  const server = await start(storeUrl('ids'), '--tokens', file);
  const key = fresh();
  const ask = { key, owner: 'o', ttl_seconds: 30, block_seconds: -1, request_id: 'guessed' };
  const first = await ok(server, '/v1/acquire', ask, as('ann'));
  await refused(server, 409, 'waiting', '/v1/acquire', ask, as('bob'));
  const waits = call(server, '/v1/acquire', { ...ask, request_id: 'w', block_seconds: 60 }, as('ann'));
  while ((await ok(server, '/v1/waits', undefined, as('ann'))).count < 1) await sleep(10);
  await refused(server, 409, 'waiting', '/v1/acquire', { ...ask, request_id: 'w' }, as('bob'));
  assert.equal((await ok(server, '/v1/waits', undefined, as('ann'))).count, 1);
  // A client whose token was replaced, under the same name, is still the same.
  letters.ann = 'c';
  write(['ann', 'bob']);
  server.process.kill('SIGHUP');
  while ((await call(server, '/v1/waits', undefined, as('ann'))).status !== 200) await sleep(10);
  assert.equal((await ok(server, '/v1/acquire', ask, as('ann'))).lease_id, first.lease_id);
  await stop(server);
  await waits;
});

test('new tokens end the waits of clients that may no longer wait', async () => {
  const file = path.join(folder, 'tokens-of-waits');
  const secret = (name) => name.padEnd(32, name);
  const as = (name) => ({ headers: { authorization: `Bearer ${secret(name)}` } });
  const write = (rows) => fs.writeFileSync(file, rows.map(([name, right, space]) =>
    `${name} ${hash(secret(name))} ${right} ${space}\n`).join(''), { mode: 0o600 });
  const names = ['ann', 'bob', 'cid', 'dan'];
  write(names.map((name) => [name, 'lock', '*']));
  const server = await start(storeUrl('waits'), '--tokens', file);
  const key = fresh();
  const held = await ok(server, '/v1/acquire', { key, ttl_seconds: 60, block_seconds: -1 }, as('ann'));
  const replies = {};
  for (const name of names)
    replies[name] = call(server, '/v1/acquire', { key, owner: name, ttl_seconds: 60, block_seconds: 60 },
      as(name));
  const waits = async () => (await ok(server, '/v1/waits', undefined, as('ann'))).waits;
  while ((await waits()).length < names.length) await sleep(10);
  write([['ann', 'lock', '*'], ['cid', 'read', '*'], ['dan', 'lock', 'elsewhere']]);
  server.process.kill('SIGHUP');
  for (const [name, status] of [['bob', 401], ['cid', 403], ['dan', 403]])
    assert.equal((await replies[name]).status, status, name);
  assert.deepEqual((await waits()).map((wait) => wait.owner), ['ann']);
  await ok(server, '/v1/release', { key, lease_id: held.lease_id }, as('ann'));
  const next = await replies.ann;
  assert.deepEqual([next.status, next.json.fencing_token], [200, held.fencing_token + 1]);
  await ok(server, '/v1/release', { key, lease_id: next.json.lease_id }, as('ann'));
  await ok(server, '/v1/acquire', { key, block_seconds: -1 }, as('ann'));
  await stop(server);
});

test('an address that others can reach needs TLS, or an explicit option', async () => {
  for (const options of [['--listen', '0.0.0.0:0'], ['--tls-cert', 'x'], ['--tls-client-ca',
      'x']]) {
    const child = spawn(PROGRAM, ['--store', storeUrl('tls'), ...options], { stdio: ['ignore',
        'ignore', 'pipe'] });
    let text = '';
    child.stderr.on('data', (bytes) => { text += bytes; });
    const code = await new Promise((resolve) => child.on('exit', resolve));
    assert.equal(code, 86, text);
    assert.match(text, /--tls-/);
  }
});

// ---- Several servers, and ends
// ---------------------------------------------------------------------

test('a server that is killed has forgotten nothing when it starts again', async () => {
  const store = storeUrl('killed');
  let server = await start(store);
  const key = fresh();
  let last = 0;
  const held = await acquire(server, fresh('held'), { ttl_seconds: 60 });
  for (let round = 0; round < 5; round++) {
    const lease = await acquire(server, key, { ttl_seconds: 60 });
    assert.ok(lease.fencing_token > last, 'a token never repeats');
    last = lease.fencing_token;
    await stop(server, 'SIGKILL');
    server = await start(store);
    await refused(server, 409, 'waiting', '/v1/acquire', { key, block_seconds: -1 });
    await ok(server, '/v1/keepalive', { key, lease_id: lease.lease_id });
    await release(server, key, lease);
  }
  await ok(server, '/v1/keepalive', { key: held.key, lease_id: held.lease_id });
  await stop(server);
});

test('two servers of one store know each other\'s leases', async () => {
  const store = storeUrl('two');
  const [one, two] = [await start(store), await start(store)];
  const key = fresh();
  const lease = await acquire(one, key);
  await refused(two, 409, 'waiting', '/v1/acquire', { key, block_seconds: -1 });
  await ok(two, '/v1/keepalive', { key, lease_id: lease.lease_id });
  const waits = acquire(two, key, { block_seconds: 30 });
  await sleep(100);
  await release(one, key, lease);
  const next = await waits;
  assert.ok(next.fencing_token > lease.fencing_token);
  await release(one, key, next);
  await stop(one);
  await stop(two);
});

test('a server that stops ends the waits, and leaves leases alone', async () => {
  const store = storeUrl('stops');
  const server = await start(store);
  const key = fresh();
  const lease = await acquire(server, key);
  const waits = call(server, '/v1/acquire', { key, block_seconds: 60 });
  await sleep(200);
  const ended = stop(server);
  const reply = await waits;
  assert.equal(`${reply.status} ${reply.json.error}`, '503 stopping');
  assert.deepEqual(await ended, { code: 0, signal: null });
  const again = await start(store);
  await ok(again, '/v1/keepalive', { key, lease_id: lease.lease_id });
  await release(again, key, lease);
  await release(again, key, await acquire(again, key));
  await stop(again);
});

test('a thousand waiters are served one after the other', async () => {
  const key = fresh('crowd');
  const holder = await acquire(main, key);
  let served = 0;
  const waits = Array.from({ length: 1000 }, async () => {
    const lease = await acquire(main, key, { block_seconds: 120 });
    served++;
    await release(main, key, lease);
  });
  await sleep(500);
  await release(main, key, holder);
  await Promise.all(waits);
  assert.equal(served, 1000);
});

test('the server describes its API', async () => {
  const here = path.dirname(fileURLToPath(import.meta.url));
  const text = fs.readFileSync(path.join(here, '../docs/openapi.json'), 'utf8');
  assert.deepEqual(await ok(main, '/v1/openapi.json'), JSON.parse(text));
});

test('every reply of these tests is described by docs/openapi.json', checkRecorded);

test('the server stops in order', async () => {
  assert.deepEqual(await stop(main), { code: 0, signal: null });
});
