// SPDX-License-Identifier: Apache-2.0
// lock.mjs: a lock over HTTP, with nothing but Node: acquires a key, renews its lease while it works,
// changes the key's state, and releases it.
//
//     node lock.mjs [URL [KEY]]      for example: node lock.mjs http://127.0.0.1:9341 visits
//
// HOLDFAST_SERVER_TOKEN is the token, if the server needs one. docs/serve.md explains the requests.
import { randomUUID } from 'node:crypto';

const [url = 'http://127.0.0.1:9341', key = 'visits'] = process.argv.slice(2);
const TTL_MS = 30000;
const TRIES = 5;

/** One request. Without a reply it is sent again: the same request id makes sure that it happens once. */
async function call(route, body, headers = {}) {
  const token = process.env.HOLDFAST_SERVER_TOKEN;
  for (let tried = 1; ; tried++) {
    const reply = await fetch(url + route, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...headers, ...(token ? { authorization: `Bearer ${token}` } : {}) },
      body,
    }).catch((error) => error);
    if (reply instanceof Response && reply.ok) return reply;
    const again = reply instanceof Error || reply.status >= 500;
    if (!again || tried === TRIES) {
      const why = reply instanceof Error ? reply.cause ?? reply : await reply.text();
      throw Object.assign(new Error(`${route}: ${why}`), { status: reply.status });
    }
    await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** tried));
  }
}

async function post(route, members) {
  const reply = await call(route, JSON.stringify(members), { 'content-type': 'application/json' });
  return reply.json();
}

/** Calls work(lease, signal) while the lease is held. The signal says that it has been lost. */
async function withLock(work) {
  // The time is noted before the request is sent, so a slow reply makes the lease shorter, never longer.
  const asked = performance.now();
  const lease = await post('/v1/acquire', { key, owner: `node-${process.pid}`, ttl_ms: TTL_MS, block_seconds: 60,
    request_id: randomUUID() });
  const lost = new AbortController();
  let end = asked + lease.waited_ms + lease.remaining_ms;
  const renew = setInterval(async () => {
    const sent = performance.now();
    await post('/v1/keepalive', { key, lease_id: lease.lease_id })
      .then((reply) => { end = sent + reply.remaining_ms; }, (error) => {
        if (error.status === 403) lost.abort(); // it has ended; after any other error the next one may succeed
      });
  }, TTL_MS / 3);
  const watch = setInterval(() => { if (performance.now() >= end) lost.abort(); }, 100);
  try {
    return await work(lease, lost.signal);
  } finally {
    clearInterval(renew);
    clearInterval(watch);
    await post('/v1/release', { key, lease_id: lease.lease_id, request_id: randomUUID() });
  }
}

async function visit(lease, signal) {
  const state = await call(`/v1/get?key=${encodeURIComponent(key)}`, undefined, { 'x-lease-id': lease.lease_id });
  const visits = Number(await state.text()) + 1; // an empty reply if there is no state yet
  signal.throwIfAborted(); // before each step that must not happen twice
  await call(`/v1/update?key=${encodeURIComponent(key)}`, String(visits), {
    'x-lease-id': lease.lease_id,
    'x-fencing-token': String(lease.fencing_token), // a holder of the past is refused
    'x-request-id': randomUUID(),
  });
  console.log(`visit ${visits}, with token ${lease.fencing_token}`);
}

await withLock(visit).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
