// SPDX-License-Identifier: Apache-2.0
// api.js: calls of API v1, and its stream of events. The token is in sessionStorage and nowhere
// else.

const TOKEN = 'holdfast-token';
const QUIET_MS = 40_000; // the server sends something every 15 s
const RETRY_MAX_MS = 10_000;

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? '',
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

const credentials = (sent) => (sent ? { Authorization: `Bearer ${sent}` } : {});

/** What the server refused: its status, its word for programs, its sentence for people, and the
 * token that was sent. */
export class Refusal extends Error {
  constructor(status, said, sent) {
    super(said?.detail ?? `the server answered with status ${status}`);
    this.status = status;
    this.word = said?.error ?? '';
    this.token = sent;
  }
}

const refusal = async (reply, sent) =>
  new Refusal(reply.status, await reply.json().catch(() => null), sent);

function address(route, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  return given.length === 0 ? route : `${route}?${new URLSearchParams(given)}`;
}

async function send(route, { query, body, signal } = {}) {
  const sent = token.get();
  const options = {
    headers: credentials(sent),
    signal,
    cache: 'no-store',
    credentials: 'same-origin',
  };
  if (body !== undefined) {
    options.method = 'POST';
    options.headers['Content-Type'] = 'application/json';
    options.body = JSON.stringify(body);
  }
  const reply = await fetch(address(route, query), options);
  if (!reply.ok) throw await refusal(reply, sent);
  return reply;
}

/** GET, or POST if there is a body. Throws a Refusal, or what fetch throws without a server. */
export const call = async (route, options) => (await send(route, options)).json();

/** The reply as a file that the reader keeps. A plain link could not send the token. */
export async function download(route, query, name) {
  const url = URL.createObjectURL(await (await send(route, { query })).blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Reads the lines of a stream of events: calls `each(kind, data, id)` for every event. */
async function readEvents(body, each, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = {};
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const colon = line.indexOf(':');
      if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
      else if (line === '' && event.event) {
        each(event.event, JSON.parse(event.data || '{}'), event.id);
        event = {};
      }
    }
  }
}

/** The events of a namespace, for as long as the page is open. It connects again by itself, and
 * continues where it was. `state` is told { name, why, retryAt }: connecting, live, lost, or
 * refused, which lasts until `restart`. */
export class EventStream {
  #abort = null;
  #wake = null;
  #namespace = '';
  #last = '';
  #failures = 0;
  #restarts = false;
  lastHeard = 0;

  constructor({ event, state }) {
    this.event = event;
    this.state = state;
    setInterval(() => {
      if (this.#abort && performance.now() - this.lastHeard > QUIET_MS) this.#abort.abort();
    }, 5000);
  }

  restart(namespace) {
    if (namespace !== this.#namespace) this.#last = '';
    this.#namespace = namespace;
    this.#failures = 0;
    if (this.#wake) this.#wake();
    else if (this.#abort) {
      this.#restarts = true;
      this.#abort.abort();
    } else this.#run();
  }

  async #run() {
    for (;;) {
      this.#abort = new AbortController();
      this.#restarts = false;
      const why = await this.#connect().catch((error) => error);
      if (this.#restarts) continue;
      if (why instanceof Refusal && (why.status === 401 || why.status === 403)) {
        this.#abort = null;
        this.state({ name: 'refused', why });
        return;
      }
      const wait = Math.min(RETRY_MAX_MS, 500 * 2 ** this.#failures++);
      this.state({ name: 'lost', why, retryAt: performance.now() + wait });
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, wait);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = null;
      this.state({ name: 'connecting' });
    }
  }

  async #connect() {
    const sent = token.get();
    this.lastHeard = performance.now();
    const reply = await fetch(address('/v1/events', { namespace: this.#namespace }), {
      headers: { ...credentials(sent), ...(this.#last ? { 'Last-Event-ID': this.#last } : {}) },
      signal: this.#abort.signal,
      cache: 'no-store',
    });
    if (!reply.ok) throw await refusal(reply, sent);
    this.#failures = 0;
    this.state({ name: 'live' });
    await readEvents(
      reply.body,
      (kind, data, id) => {
        if (id) this.#last = id;
        this.event(kind, data);
      },
      () => {
        this.lastHeard = performance.now();
      },
    );
    return new Error('the server ended the stream');
  }
}
