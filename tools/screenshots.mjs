// SPDX-License-Identifier: Apache-2.0
// screenshots.mjs BUILD: makes the pictures of docs/: the dashboard in light, in dark and on a phone, and
// `holdfast top` in a terminal. It needs chromium, tmux and pngquant, and takes about a minute, because the
// locks that are shown are real.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '..');
const build = path.resolve(process.argv[2] ?? path.join(root, 'build'));
const { chromium } = createRequire(path.join(root, 'tests/servers/package.json'))(
  'playwright-core',
);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-pictures-'));
const store = `sqlite:${path.join(folder, 'store.db')}`;
const program = path.join(build, 'src/cli/holdfast');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const holdfast = (...words) =>
  execFileSync(program, ['--store', store, '-q', ...words], { encoding: 'utf8' });

// ---- A server with something to show

function startServer() {
  const server = spawn(
    path.join(build, 'src/serve/holdfast-serve'),
    ['--store', store, '--listen', '127.0.0.1:0'],
    { stdio: ['ignore', 'inherit', 'pipe'] },
  );
  return new Promise((resolve) => {
    let log = '';
    server.stderr.on('data', (bytes) => {
      log += bytes;
      const found = /listening on (http:\/\/[\d.:]+)/.exec(log);
      if (found) resolve({ server, url: found[1] });
    });
  });
}

const { server, url } = await startServer();

async function send(route, body) {
  const reply = await fetch(url + route, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return reply.json();
}

const acquire = (key, owner, ttl, block = -1) =>
  send('/v1/acquire', { key, owner, ttl_ms: ttl * 1000, block_seconds: block });

/** Several clients hold one lock in turn: one releases it, one dies, one is broken. */
async function makeHistory() {
  const key = 'deploy/production';
  for (const [owner, seconds] of [
    ['ci-7', 5],
    ['ci-9', 4],
    ['release-bot', 6],
    ['ci-7', 3],
  ]) {
    const lease = await acquire(key, owner, 60);
    await sleep(seconds * 1000);
    await send('/v1/release', { key, lease_id: lease.lease_id });
    await sleep(seconds * 150);
  }
  await acquire(key, 'ci-12', 3);
  const stuck = await acquire(key, 'ci-9', 60, 30);
  await sleep(5000);
  await send('/v1/locks/break', {
    key,
    fencing_token: stuck.fencing_token,
    reason: 'the runner was shut down',
    owner: 'ada',
  });
  await sleep(1500);
  await acquire(key, 'release-bot', 45);
}

const KEYS = [
  ['migrate/schema-48', 'ada@laptop', 900],
  ['billing/close-month', 'billing-worker-3', 600],
  ['backup/users-db', 'backup@node-1', 120],
  ['backup/orders-db', 'backup@node-2', 120],
  ['report/weekly', 'reports', 180],
  ['mail/digest', 'mailer-2', 300],
  ['index/products', 'indexer-1', 90],
  ['images/resize/2291', 'resizer-11', 50],
  ['images/resize/2292', 'resizer-4', 40],
  ['cron/rotate-logs', 'cron@node-3', 28],
  ['cache/warm', 'edge-4', 14],
];

/** They do not all begin at the same time. */
async function makeLocks() {
  for (const [key, owner, ttl] of KEYS) {
    await acquire(key, owner, ttl);
    await sleep(2800);
  }
  const photos = { scope: 'tree:/srv/photos/2026', owner: 'sync', ttl_ms: 70_000 };
  await send('/v1/acquire', { ...photos, block_seconds: -1, mode: 'shared' });
}

async function makeWaiters() {
  for (const owner of ['ci-7', 'ci-14', 'ci-15']) {
    acquire('deploy/production', owner, 60, 120);
    await sleep(100);
  }
  acquire('migrate/schema-48', 'api-deployer', 60, 120);
}

// ---- A terminal

const COLOURS = [
  '#3b4252',
  '#e06c75',
  '#98c379',
  '#e5c07b',
  '#61afef',
  '#c678dd',
  '#56b6c2',
  '#e6eeee',
];
const escapeHtml = (text) =>
  text.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]);

/** What tmux captured, with its colours, as HTML. */
function terminalHtml(text) {
  const style = { fg: '', bg: '', bold: false, dim: false, reverse: false };
  const apply = (code) => {
    if (code === 0)
      Object.assign(style, { fg: '', bg: '', bold: false, dim: false, reverse: false });
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 7) style.reverse = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 27) style.reverse = false;
    else if (code === 39) style.fg = '';
    else if (code === 49) style.bg = '';
    else if (code >= 30 && code <= 37) style.fg = COLOURS[code - 30];
    else if (code >= 40 && code <= 47) style.bg = COLOURS[code - 40];
    else if (code >= 90 && code <= 97) style.fg = COLOURS[code - 90];
  };
  const span = (part) => {
    const [fg, bg] = style.reverse
      ? [style.bg || '#101617', style.fg || '#dfe8e8']
      : [style.fg || '#dfe8e8', style.bg || 'transparent'];
    return `<span style="color:${fg};background:${bg};font-weight:${style.bold ? 700 : 400};opacity:${
      style.dim ? 0.65 : 1
    }">${escapeHtml(part)}</span>`;
  };
  const body = text.split(/(\x1b\[[\d;]*m)/).map((part) => {
    const codes = /^\x1b\[([\d;]*)m$/.exec(part);
    if (!codes) return part === '' ? '' : span(part);
    (codes[1] || '0').split(';').map(Number).forEach(apply);
    return '';
  });
  return `<meta charset="utf-8"><style>body{margin:0;background:#101617;width:max-content}
    pre{margin:0;padding:18px 22px;font:15px/1.32 "DejaVu Sans Mono",monospace}</style><pre>${body.join('')}</pre>`;
}

async function captureTop() {
  const socket = `holdfast-pictures-${process.pid}`;
  const tmux = (...words) =>
    execFileSync('tmux', ['-L', socket, '-f', '/dev/null', ...words], { encoding: 'utf8' });
  tmux(
    'new-session',
    '-d',
    '-x',
    '112',
    '-y',
    '30',
    `HOLDFAST_TOP=${build}/src/top/holdfast-top ${program} --store ${store} top`,
  );
  await sleep(4000);
  const text = tmux('capture-pane', '-e', '-p').trimEnd();
  tmux('kill-server');
  return terminalHtml(text);
}

// ---- Pictures

const browser = await chromium.launch({
  executablePath: process.env.HOLDFAST_CHROMIUM ?? '/usr/bin/chromium',
  chromiumSandbox: process.getuid() !== 0,
});

async function picture(name, { address, html, scale = 1, before = async () => {}, ...options }) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 760 },
    deviceScaleFactor: scale,
    ...options,
  });
  const page = await context.newPage();
  if (html) await page.setContent(html);
  else await page.goto(url + address);
  await sleep(html ? 200 : 2500);
  await before(page);
  const file = path.join(root, 'docs', name);
  if (html) await page.locator('pre').screenshot({ path: file });
  else await page.screenshot({ path: file });
  await context.close();
  execFileSync('pngquant', [
    '--force',
    '--skip-if-larger',
    '--strip',
    '--quality',
    '70-95',
    '--output',
    file,
    '64',
    file,
  ]);
  console.log(`${path.relative(root, file)}: ${Math.round(fs.statSync(file).size / 1024)} KiB`);
}

try {
  const watcher = await browser.newPage(); // the timeline is kept from the first look on
  await watcher.goto(`${url}/#/timeline/named:deploy%2Fproduction`);
  await sleep(1000);
  await Promise.all([makeHistory(), makeLocks()]);
  await makeWaiters();
  await picture('dashboard-light.png', { address: '/#/locks', colorScheme: 'light' });
  await picture('dashboard-dark.png', {
    address: '/#/timeline/named:deploy%2Fproduction',
    colorScheme: 'dark',
    before: (page) => page.getByRole('button', { name: 'All kept' }).click(),
  });
  await picture('dashboard-phone.png', {
    address: '/#/locks',
    colorScheme: 'light',
    scale: 2,
    viewport: { width: 390, height: 844 },
  });
  await picture('top.png', { html: await captureTop() });
} finally {
  await browser.close();
  server.kill('SIGTERM');
  fs.rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
