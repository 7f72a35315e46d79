// SPDX-License-Identifier: Apache-2.0
// serve_txn_test.mjs: transactions over the API: what is staged is seen after the commit or never,
// whichever server decides, and whichever server is killed.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { acquire, call, checkRecorded, folder, fresh, ok, refused, release, sleep, start, stop,
  storeUrl } from './serve_kit.mjs';

const main = await start(storeUrl('main'));

const begin = async (server) => (await ok(server, '/v1/txn/begin', {})).txn_id;
const headers = (lease, txn) => ({ headers: { 'x-lease-id': lease.lease_id,
  ...(txn ? { 'x-txn-id': txn } : {}) } });
const update = (server, key, lease, txn, state) =>
  ok(server, `/v1/update?key=${key}`, state, headers(lease, txn));
const visible = async (server, key) => {
  const reply = await call(server, `/v1/get?key=${key}&public=1`);
  return reply.status === 204 ? null : reply.text;
};

/** Two keys that are acquired and changed for a new transaction. */
async function stageTwo(server, state = 'staged') {
  const txn = await begin(server);
  const keys = [fresh('a'), fresh('b')];
  const leases = [];
  for (const key of keys) {
    leases.push(await acquire(server, key, { txn_id: txn }));
    await update(server, key, leases.at(-1), txn, state);
  }
  return { txn, keys, leases };
}

test('a commit publishes all changes, and none was seen before', async () => {
  const { txn, keys, leases } = await stageTwo(main);
  assert.match(txn, /^[0-9a-f]{32}$/);
  assert.equal(leases[0].txn_id, txn);
  for (const key of keys) assert.equal(await visible(main, key), null);
  assert.deepEqual(await ok(main, '/v1/txn/commit', { txn_id: txn }),
    { txn_id: txn, state: 'commit' });
  for (const key of keys) assert.equal(await visible(main, key), 'staged');
  // The keys are free, and the decision stays what it is.
  for (const key of keys) await release(main, key, await acquire(main, key));
  assert.equal((await ok(main, '/v1/txn/commit', { txn_id: txn })).state, 'commit');
  await refused(main, 409, 'mismatch', '/v1/txn/rollback', { txn_id: txn });
});

test('a rollback drops all changes', async () => {
  const { txn, keys, leases } = await stageTwo(main);
  assert.equal((await ok(main, '/v1/txn/rollback', { txn_id: txn })).state, 'rollback');
  for (const key of keys) assert.equal(await visible(main, key), null);
  await refused(main, 409, 'mismatch', '/v1/txn/commit', { txn_id: txn });
  const late = await call(main, `/v1/update?key=${keys[0]}`, 'late', headers(leases[0], txn));
  assert.ok([403, 409].includes(late.status), late.text);
  for (const key of keys) await release(main, key, await acquire(main, key));
});

test('decide takes the state as a word, and pending asks', async () => {
  const { txn, keys } = await stageTwo(main);
  assert.equal((await ok(main, '/v1/txn/decide', { txn_id: txn, state: 'pending' })).state,
    'pending');
  assert.equal((await ok(main, '/v1/txn/replay', { txn_id: txn })).state, 'pending');
  assert.equal((await ok(main, '/v1/txn/decide', { txn_id: txn, state: 'commit' })).state,
    'commit');
  await refused(main, 409, 'mismatch', '/v1/txn/decide', { txn_id: txn, state: 'pending' });
  await refused(main, 409, 'mismatch', '/v1/txn/decide', { txn_id: txn, state: 'rollback' });
  assert.equal((await ok(main, '/v1/txn/replay', { txn_id: txn })).state, 'commit');
  assert.equal(await visible(main, keys[1]), 'staged');
});

test('a transaction is shown by its id, and a key tells it to whoever holds the key', async () => {
  const { txn, keys, leases } = await stageTwo(main);
  const shown = await ok(main, '/v1/txn/show', { txn_id: txn });
  assert.deepEqual([shown.txn_id, shown.state, shown.open, shown.marked], [txn, 'pending', true, false]);
  assert.deepEqual([...shown.keys].sort(), keys.map((key) => `default/${key}`).sort());
  const at = `/v1/describe?key=${keys[0]}`;
  assert.equal((await ok(main, at, undefined, headers(leases[0]))).txn_id, txn);
  for (const others of [undefined, headers(leases[1]), headers({ lease_id: '0'.repeat(32) })]) {
    const told = await ok(main, at, undefined, others);
    assert.deepEqual([told.staged, told.txn_id], [true, undefined]);
  }
  await ok(main, '/v1/txn/commit', { txn_id: txn });
  const after = await ok(main, '/v1/txn/show', { txn_id: txn });
  assert.deepEqual([after.state, after.applied], ['commit', true]);
  await refused(main, 404, 'not_found', '/v1/txn/show', { txn_id: '0'.repeat(32) });
  await refused(main, 400, 'invalid', '/v1/txn/show', {});
});

test('a release with a transaction commits it, or rolls it back', async () => {
  const one = await stageTwo(main, 'one');
  assert.deepEqual(await ok(main, '/v1/release', { key: one.keys[0], txn_id: one.txn,
    lease_id: one.leases[0].lease_id }), { released: true });
  for (const key of one.keys) assert.equal(await visible(main, key), 'one');
  const two = await stageTwo(main, 'two');
  await ok(main, '/v1/release', { key: two.keys[1], txn_id: two.txn, rollback: true,
    lease_id: two.leases[1].lease_id });
  for (const key of two.keys) assert.equal(await visible(main, key), null);
});

test('a release decides no transaction that does not have its key', async () => {
  const { txn, keys, leases } = await stageTwo(main);
  const other = await acquire(main, fresh());
  const { key, lease_id } = other;
  for (const rollback of [false, true])
    await refused(main, 409, 'txn_mismatch', '/v1/release', { key, lease_id, txn_id: txn, rollback });
  assert.equal((await ok(main, '/v1/txn/show', { txn_id: txn })).state, 'pending');
  await release(main, key, other); // which is still there
  await refused(main, 404, 'not_found', '/v1/release',
    { key: keys[0], lease_id: leases[0].lease_id, txn_id: '0'.repeat(32) });
  await ok(main, '/v1/release', { key: keys[0], lease_id: leases[0].lease_id, txn_id: txn });
});

test('a release that names a decided transaction of other keys does not say that it released', async () => {
  for (const decision of ['commit', 'rollback']) {
    const { txn } = await stageTwo(main);
    await ok(main, `/v1/txn/${decision}`, { txn_id: txn });
    const held = await acquire(main, fresh());
    const { key, lease_id } = held;
    await refused(main, 409, 'txn_mismatch', '/v1/release',
      { key, lease_id, txn_id: txn, rollback: decision === 'rollback' });
    await ok(main, '/v1/keepalive', { key, lease_id });
    await release(main, key, held);
  }
});

test('a token that may only lock decides no transaction, by a release either', async () => {
  const file = path.join(folder, 'tokens');
  const secret = { locker: 'l'.repeat(32), writer: 'w'.repeat(32) };
  const hash = (text) => createHash('sha256').update(text).digest('hex');
  fs.writeFileSync(file, `locker ${hash(secret.locker)} lock *
writer ${hash(secret.writer)} lock,write *
`, { mode: 0o600 });
  const server = await start(storeUrl('rights'), '--tokens', file);
  const as = (name) => ({ headers: { authorization: `Bearer ${secret[name]}` } });
  const txn_id = (await ok(server, '/v1/txn/begin', {}, as('writer'))).txn_id;
  const key = fresh();
  const { lease_id } = await ok(server, '/v1/acquire', { key, txn_id }, as('writer'));
  const ends = { key, lease_id, txn_id };
  for (const rollback of [false, true])
    await refused(server, 403, 'forbidden', '/v1/release', { ...ends, rollback }, as('locker'));
  await refused(server, 403, 'forbidden', '/v1/txn/commit', { txn_id }, as('locker'));
  const { state } = await ok(server, '/v1/txn/show', { txn_id }, as('locker'));
  assert.equal(state, 'pending');
  await ok(server, '/v1/release', ends, as('writer'));
  assert.equal((await ok(server, '/v1/txn/show', { txn_id }, as('locker'))).state, 'commit');
  await stop(server);
});

test('a removal is staged, too', async () => {
  const key = fresh();
  const lease = await acquire(main, key);
  await update(main, key, lease, null, 'old');
  await release(main, key, lease);
  const txn = await begin(main);
  const held = await acquire(main, key, { txn_id: txn });
  assert.equal(held.version, 1);
  await ok(main, `/v1/remove?key=${key}`, '', headers(held, txn));
  assert.equal(await visible(main, key), 'old');
  await ok(main, '/v1/keepalive', { key, lease_id: held.lease_id, txn_id: txn });
  await ok(main, '/v1/txn/commit', { txn_id: txn });
  assert.equal(await visible(main, key), null);
});

test('a key of a transaction is changed for that transaction only', async () => {
  const { txn, keys, leases } = await stageTwo(main);
  const other = await begin(main);
  await refused(main, 409, 'txn_mismatch', `/v1/update?key=${keys[0]}`, 'x', headers(leases[0]));
  await refused(main, 409, 'txn_mismatch', `/v1/update?key=${keys[0]}`, 'x',
    headers(leases[0], other));
  const plain = await acquire(main, fresh('plain'));
  await refused(main, 409, 'txn_mismatch', `/v1/update?key=${plain.key}`, 'x',
    headers(plain, txn));
  await release(main, plain.key, plain);
  const waits = await refused(main, 409, 'waiting', '/v1/acquire', { key: keys[0],
    block_seconds: -1 });
  assert.ok(!waits.text.includes(txn), 'the id of a transaction is not told');
  const listed = await ok(main, `/v1/locks?prefix=${keys[0]}`);
  assert.ok(!JSON.stringify(listed).includes(txn));
  await ok(main, '/v1/txn/rollback', { txn_id: txn });
  await ok(main, '/v1/txn/rollback', { txn_id: other });
});

test('conditions hold for what is staged', async () => {
  const txn = await begin(main);
  const key = fresh();
  const lease = await acquire(main, key, { txn_id: txn });
  const at = `/v1/update?key=${key}`;
  const when = (version) => ({ headers: { ...headers(lease, txn).headers,
    'x-if-version': version } });
  await refused(main, 409, 'version_conflict', at, 'x', when('3'));
  await ok(main, at, 'first', when('0'));
  await ok(main, '/v1/txn/commit', { txn_id: txn });
  assert.equal(await visible(main, key), 'first');
});

test('an acquire for a transaction waits for its turn', async () => {
  const key = fresh();
  const holder = await acquire(main, key);
  const txn = await begin(main);
  const waits = acquire(main, key, { txn_id: txn, block_seconds: 30 });
  await sleep(300);
  await release(main, key, holder);
  const lease = await waits;
  assert.ok(lease.fencing_token > holder.fencing_token);
  await update(main, key, lease, txn, 'x');
  const gone = new AbortController();
  const left = call(main, '/v1/acquire', { key, txn_id: await begin(main), block_seconds: 30 },
    { signal: gone.signal }).catch(() => 'left');
  await refused(main, 409, 'waiting', '/v1/acquire', { key, txn_id: await begin(main),
    block_seconds: 1 });
  gone.abort();
  assert.equal(await left, 'left');
  await ok(main, '/v1/txn/commit', { txn_id: txn });
  await release(main, key, await acquire(main, key, { block_seconds: 5 }));
});

test('a commit reaches those who wait for its keys', async () => {
  const { txn, keys } = await stageTwo(main);
  const waits = keys.map((key) => acquire(main, key, { block_seconds: 30 }));
  await sleep(300);
  await ok(main, '/v1/txn/commit', { txn_id: txn });
  for (const lease of await Promise.all(waits)) {
    assert.equal(lease.version, 1);
    await release(main, lease.key, lease);
  }
});

test('what is wrong with a transaction is told', async () => {
  const none = '0'.repeat(32);
  const key = fresh();
  await refused(main, 404, 'not_found', '/v1/acquire', { key, txn_id: none, block_seconds: -1 });
  await refused(main, 400, 'invalid', '/v1/acquire', { key, txn_id: 'nonsense',
    block_seconds: -1 });
  await refused(main, 400, 'invalid', '/v1/acquire', { scope: 'path:/a', txn_id: none });
  await refused(main, 400, 'invalid', '/v1/acquire', { key, txn_id: none, if_not_exists: true });
  for (const verb of ['commit', 'rollback', 'replay']) {
    await refused(main, 404, 'not_found', `/v1/txn/${verb}`, { txn_id: none });
    await refused(main, 400, 'invalid', `/v1/txn/${verb}`, { txn_id: '../x' });
    await refused(main, 400, 'invalid', `/v1/txn/${verb}`, {});
  }
  await refused(main, 400, 'invalid', '/v1/txn/decide', { txn_id: none, state: 'maybe' });
  const lease = await acquire(main, key);
  await refused(main, 404, 'not_found', `/v1/update?key=${key}`, 'x', headers(lease, none));
  await release(main, key, lease);
});

test('a lease that ends rolls its transaction back', async () => {
  const txn = await begin(main);
  const key = fresh();
  const lease = await acquire(main, key, { txn_id: txn, ttl_ms: 1000 });
  await update(main, key, lease, txn, 'too late');
  // The next client ends it, and rolls the transaction back.
  const next = await acquire(main, key, { block_seconds: 60 });
  assert.ok(next.fencing_token > lease.fencing_token);
  await refused(main, 409, 'mismatch', '/v1/txn/commit', { txn_id: txn });
  await release(main, key, next);
  assert.equal(await visible(main, key), null);
});

test('any server decides a transaction, also after the first was killed', async () => {
  const store = storeUrl('killed');
  const first = await start(store);
  const staged = [await stageTwo(first, 'zero'), await stageTwo(first, 'one')];
  await stop(first, 'SIGKILL');
  const [second, third] = [await start(store), await start(store)];
  await ok(second, '/v1/txn/commit', { txn_id: staged[0].txn });
  for (const key of staged[0].keys) assert.equal(await visible(third, key), 'zero');
  // Another server stages more, and a third one rolls it all back.
  const more = fresh('more');
  const lease = await acquire(second, more, { txn_id: staged[1].txn });
  await update(third, more, lease, staged[1].txn, 'more');
  await ok(third, '/v1/txn/rollback', { txn_id: staged[1].txn });
  for (const key of [...staged[1].keys, more]) assert.equal(await visible(second, key), null);
  await stop(second);
  await stop(third);
});

test('transfers between accounts keep the sum, while servers are killed', async () => {
  const store = storeUrl('bank');
  const accounts = ['bank-a', 'bank-b', 'bank-c'];
  let server = await start(store);
  const other = await start(store);
  for (const key of accounts) {
    const lease = await acquire(other, key);
    await update(other, key, lease, null, '100');
    await release(other, key, lease);
  }
  const transfer = async (at, from, to) => {
    const txn = await begin(at);
    for (const key of [from, to].sort()) {
      const lease = await acquire(at, key, { txn_id: txn, ttl_ms: 2000, block_seconds: 20 });
      const now = Number(await visible(at, key));
      await update(at, key, lease, txn, String(key === from ? now - 1 : now + 1));
    }
    await ok(at, '/v1/txn/commit', { txn_id: txn });
  };
  let done = 0;
  for (let round = 0; round < 3; round++) {
    const work = [0, 1, 2, 3].map(async (i) => {
      for (let n = 0; n < 4; n++)
        try {
          await transfer(i % 2 ? other : server, accounts[(i + n) % 3], accounts[(i + n + 1) % 3]);
          done++;
        } catch { /* its server was killed, or its lease ended */ }
    });
    await sleep(300);
    await stop(server, 'SIGKILL');
    await Promise.all(work);
    server = await start(store);
  }
  let sum = 0;
  for (const key of accounts) {
    await release(server, key, await acquire(server, key, { block_seconds: 60 }));
    sum += Number(await visible(server, key));
  }
  assert.equal(sum, 300);
  assert.ok(done > 5, `${done} transfers`);
  await stop(server);
  await stop(other);
});

test('every reply of these tests is described by docs/openapi.json', checkRecorded);

test('the server stops in order', async () => {
  assert.deepEqual(await stop(main), { code: 0, signal: null });
});
