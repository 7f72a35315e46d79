// SPDX-License-Identifier: Apache-2.0
// serve_kit.mjs: starts servers and calls their API, as a client in another language would: with
// Node's own fetch and test runner, and none of our code. HOLDFAST_SERVE is the program under test.
// Every reply is recorded, and checked against docs/openapi.json at the end.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';

export const PROGRAM = process.env.HOLDFAST_SERVE;
export const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-serve-'));
const servers = new Set();
const recorded = [];
let names = 0;

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const fresh = (what = 'key') => `${what}-${++names}`;
export const storeUrl = (name) => `sqlite:${path.join(folder, name)}.db`;

after(() => {
  for (const server of servers) server.process.kill('SIGKILL');
  fs.rmSync(folder, { recursive: true, force: true });
});

/** Starts a server and waits until it says where it listens. */
export async function start(store, ...options) {
  const child = spawn(PROGRAM, ['--store', store, '--listen', '127.0.0.1:0', ...options],
    { stdio: ['ignore', 'inherit', 'pipe'] });
  const server = { process: child, log: '' };
  servers.add(server);
  server.ended = new Promise((resolve) => child.on('exit', (code, signal) => {
    servers.delete(server);
    resolve({ code, signal });
  }));
  await new Promise((resolve, reject) => {
    child.stderr.on('data', (bytes) => {
      server.log += bytes;
      const found = /listening on (https?:\/\/[\d.:]+)/.exec(server.log);
      if (found) resolve(server.url = found[1]);
    });
    server.ended.then(() => reject(new Error(`did not start: ${server.log}`)));
  });
  return server;
}

export async function stop(server, signal = 'SIGTERM') {
  server.process.kill(signal);
  return server.ended;
}

/** One call of the API: the reply, and its JSON. */
export async function call(server, route, body, options = {}) {
  const reply = await fetch(server.url + route, {
    method: body === undefined ? 'GET' : 'POST',
    body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers },
    signal: options.signal,
  });
  const text = await reply.text();
  let json = null;
  try { json = JSON.parse(text); } catch { /* not JSON */ }
  record(body === undefined ? 'GET' : 'POST', route, body, reply, text);
  return { status: reply.status, headers: reply.headers, text, json };
}

function record(method, route, sent, reply, text) {
  const type = reply.headers.get('content-type');
  const isJson = type?.startsWith('application/json');
  recorded.push(JSON.stringify({ method, route, status: reply.status, type,
    text: isJson ? text : text.slice(0, 1), sent: typeof sent === 'object' ? sent : null }));
}

/** Every reply so far is described by docs/openapi.json. */
export function checkRecorded() {
  const here = path.dirname(fileURLToPath(import.meta.url));
  const checked = spawnSync('python3', [path.join(here, 'serve_openapi.py')],
    { input: recorded.join('\n'), encoding: 'utf8' });
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
}

export async function ok(server, route, body, options) {
  const reply = await call(server, route, body, options);
  assert.equal(reply.status, 200, `${route}: ${reply.status} ${reply.text}`);
  return reply.json;
}

export async function refused(server, status, word, route, body, options) {
  const reply = await call(server, route, body, options);
  assert.equal(`${reply.status} ${reply.json?.error}`, `${status} ${word}`,
      `${route}: ${reply.text}`);
  assert.ok(reply.json.detail.length > 0, 'the detail is a sentence');
  return reply;
}

export const acquire = (server, key, more = {}) =>
  ok(server, '/v1/acquire', { key, owner: 'test', ttl_seconds: 30, block_seconds: -1, ...more });
export const release = (server, key, lease) => ok(server, '/v1/release', { key,
    lease_id: lease.lease_id });

/** A server without a browser's rules: any header, raw bytes. */
export function raw(server, headers, route = '/healthz') {
  return new Promise((resolve, reject) => {
    const request = http.request(server.url + route, { headers }, (reply) => {
      reply.resume();
      reply.on('end', () => resolve(reply.statusCode));
    });
    request.on('error', reject);
    request.end();
  });
}
