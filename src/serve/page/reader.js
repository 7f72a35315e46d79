// SPDX-License-Identifier: Apache-2.0
// reader.js: keeps the locks of a namespace up to date by reading them: all of them now and then,
// and those about which an event has said too little, one by one.

import { call } from './api.js';

const PAGE = 1000; // locks of one reply
const LIST_MS = 5000; // how often everything is listed again, at least ...
const LIST_SHARE = 15; // ... and so many times as long as a listing takes
const SOON_MS = 150; // changes of this time are read together
const SINGLE_READS = 24; // more scopes than this: list everything
const AT_A_TIME = 4; // requests: a browser has six connections, and events need one of them

export class LockReader {
  isComplete = false; // everything has been listed once
  listedAt = -Infinity;
  failure = ''; // why the last listing failed
  #namespace = '';
  #uncertain = new Set(); // scopes; '' stands for all of them
  #due = 0;
  #took = 0;
  #reads = false;

  /** `mayRead()`: whether now is a good time; `done(error)`: something was read, or that failed. */
  constructor(locks, { mayRead, done }) {
    Object.assign(this, { locks, mayRead, done });
    setInterval(() => this.#turn(), SOON_MS);
  }

  enter(namespace) {
    this.#namespace = namespace;
    this.#uncertain.clear();
    this.isComplete = false;
    this.failure = '';
    this.locks.clear();
    this.readAll();
  }

  /** Lists everything at the next turn. */
  readAll() {
    this.#due = 0;
  }

  /** Reads this scope soon; '': everything, but not all the time. */
  readSoon(scope) {
    this.#uncertain.add(scope);
  }

  async #turn() {
    const at = performance.now();
    if (this.#reads || !this.mayRead()) return;
    const wantsAll = this.#uncertain.has('') || this.#uncertain.size > SINGLE_READS;
    const mayListAgain = at >= this.listedAt + Math.max(300, 3 * this.#took);
    let work = null;
    if (at >= this.#due || (wantsAll && mayListAgain)) work = () => this.#listAll(this.#namespace);
    else if (!wantsAll && this.#uncertain.size > 0) {
      const scopes = [...this.#uncertain];
      work = () => this.#listEach(scopes, this.#namespace);
    }
    if (work) await this.#read(work);
  }

  async #read(work) {
    this.#reads = true;
    this.#uncertain.clear();
    try {
      await work();
      this.failure = '';
      this.done(null);
    } catch (error) {
      this.#due = performance.now() + LIST_MS;
      this.failure = error.message;
      this.done(error);
    }
    this.#reads = false;
  }

  async #listEach(scopes, namespace) {
    while (scopes.length > 0)
      await Promise.all(
        scopes.splice(0, AT_A_TIME).map((scope) => this.#listOne(scope, namespace)),
      );
  }

  /** All leases and waiters of a scope are on the same page. */
  async #listOne(scope, namespace) {
    const asked = performance.now();
    const listing = this.locks.listing(asked, scope);
    const reply = await call('/v1/locks', { query: { namespace, prefix: scope, limit: 1 } });
    if (namespace !== this.#namespace) return;
    listing.page(reply.locks, asked);
    listing.end();
  }

  async #listAll(namespace) {
    const began = performance.now();
    const listing = this.locks.listing(began);
    let after;
    do {
      const asked = performance.now();
      const reply = await call('/v1/locks', { query: { namespace, after, limit: PAGE } });
      if (namespace !== this.#namespace) return;
      listing.page(reply.locks, asked);
      after = reply.next;
    } while (after);
    listing.end();
    const { waits } = await call('/v1/waits', { query: { namespace, limit: PAGE } });
    if (namespace !== this.#namespace) return;
    this.locks.waits(waits);
    this.#took = performance.now() - began;
    this.listedAt = began;
    this.#due = began + Math.max(LIST_MS, LIST_SHARE * this.#took);
    this.isComplete = true;
  }
}
