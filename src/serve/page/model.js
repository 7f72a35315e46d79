// SPDX-License-Identifier: Apache-2.0
// model.js: the locks of a namespace, as far as this page knows them. It knows no elements.
//
// There are two sources. A listing (/v1/locks) is complete, but it is a few seconds old when it has
// been read, and it is read in pages. Events (/v1/events) are immediate, but show only what happens
// through this server. So what an event said is not overwritten by a page that was asked for before
// that event.
//
// A lease is an object that never changes: a change replaces it. So whoever keeps leases in order
// can find the old one by its old values.

const now = () => performance.now();
const FORGET_ENDED_MS = 60_000;
const SAME_END_MS = 1500; // the same end, computed from two listings

const idOf = (scope, token) => `${token} ${scope}`;

/** A lease as the page keeps it, from a page that was asked for at `at`. */
function fromListing(listed, at) {
  return {
    id: idOf(listed.scope, listed.fencing_token),
    scope: listed.scope,
    token: listed.fencing_token,
    owner: listed.owner,
    holder: listed.holder,
    mode: listed.mode,
    slots: listed.slots,
    state: listed.state,
    ttl: listed.ttl_ms,
    renewals: listed.renewals,
    began: at - listed.held_ms,
    ends: at + listed.remaining_ms,
    queue: [],
    heard: at,
  };
}

const search = (lease) =>
  `${lease.scope}\n${lease.owner}\n${lease.holder ?? ''}\n#${lease.token}`.toLowerCase();

const sameNames = (a, b) => a.length === b.length && a.every((name, i) => name === b[i]);

const isSame = (a, b) =>
  Math.abs(a.ends - b.ends) < SAME_END_MS &&
  a.state === b.state &&
  a.owner === b.owner &&
  a.renewals === b.renewals &&
  sameNames(a.queue, b.queue);

export class Locks {
  #scopes = new Map(); // scope -> { leases: Map of id -> lease, listed: [owner], local: [owner] }
  #ended = new Map(); // id -> when an event said so
  size = 0;

  /** `changed(before, after)`: either may be null. */
  constructor(changed) {
    this.changed = changed;
  }

  *all() {
    for (const scope of this.#scopes.values()) yield* scope.leases.values();
  }

  *of(scope) {
    yield* this.#scopes.get(scope)?.leases.values() ?? [];
  }

  ownerOf(scope, token) {
    return this.#scopes.get(scope)?.leases.get(idOf(scope, token))?.owner ?? '';
  }

  get waiting() {
    let count = 0;
    for (const scope of this.#scopes.values()) count += this.#names(scope).length;
    return count;
  }

  queue(scope) {
    const known = this.#scopes.get(scope);
    return known ? this.#names(known) : [];
  }

  clear() {
    for (const lease of [...this.all()]) this.#end(lease);
    this.#scopes.clear();
    this.#ended.clear();
  }

  // ---- Listings

  /** A listing of everything, or of one scope, which begins at `at`. Give it the pages, each with
   * the time at which it was asked for, and then end it. */
  listing(at, scope = null) {
    const seen = new Set();
    const queues = new Map();
    return {
      page: (locks, asked) => {
        for (const listed of locks) {
          if (scope !== null && listed.scope !== scope) continue;
          if (!listed.place) this.#list(fromListing(listed, asked), seen);
          else if (queues.has(listed.scope)) queues.get(listed.scope).push(listed.owner);
          else queues.set(listed.scope, [listed.owner]);
        }
      },
      end: () => this.#endListing(at, scope, seen, queues),
    };
  }

  #list(lease, seen) {
    seen.add(lease.id);
    if ((this.#ended.get(lease.id) ?? -1) < lease.heard) this.#put(lease);
  }

  /** What the listing did not show is gone, unless an event has shown it since. */
  #endListing(at, scope, seen, queues) {
    for (const name of queues.keys()) this.#scope(name);
    const one = scope === null ? null : this.#scopes.get(scope);
    const scopes = scope === null ? this.#scopes : one ? [[scope, one]] : [];
    for (const [name, known] of scopes) {
      for (const lease of known.leases.values())
        if (lease.heard <= at && !seen.has(lease.id)) this.#end(lease);
      const queue = queues.get(name);
      if (!queue && known.listed.length === 0) continue;
      known.listed = queue ?? [];
      this.#scopes.set(name, known); // it may have ended with its last lease
      this.#refreshQueue(name);
    }
    for (const [id, when] of this.#ended) if (when < at - FORGET_ENDED_MS) this.#ended.delete(id);
  }

  /** Those who wait at this server, longest first (/v1/waits). */
  waits(list) {
    const local = new Map();
    for (const { scope, owner } of list) local.set(scope, [...(local.get(scope) ?? []), owner]);
    for (const [name, known] of this.#scopes)
      if (known.local.length > 0 && !local.has(name)) this.#setLocal(name, []);
    for (const [name, owners] of local) this.#setLocal(name, owners);
  }

  // ---- Events

  /** Applies an event. Returns the scope that must be read, '' for everything, or null for nothing.
   * */
  event(kind, data) {
    const { scope, fencing_token: token } = data;
    switch (kind) {
      case 'granted':
        return this.#granted(data);
      case 'renewed':
        return this.#renewed(scope, token, data.ttl_ms);
      case 'released':
      case 'broken':
      case 'lease_lost':
        if (!scope || !token) return scope ?? '';
        this.#over(scope, token);
        return null;
      case 'wait_began':
        this.#setLocal(scope, [...this.#scope(scope).local, data.owner || 'unnamed']);
        return null;
      case 'wait_ended': {
        const local = [...this.#scope(scope).local];
        const place = local.indexOf(data.owner || 'unnamed');
        if (place >= 0) local.splice(place, 1);
        this.#setLocal(scope, local);
        return data.result === 'granted' ? scope : null;
      }
      case 'taken_over':
        return scope ?? '';
      case 'swept':
      case 'committed':
      case 'rolled_back':
      case 'lost':
        return '';
      default:
        return null;
    }
  }

  #granted({ scope, fencing_token: token, owner, ttl_ms: ttl, mode }) {
    if (!owner || !ttl) return scope;
    const at = now();
    // An exclusive grant proves that all earlier leases of the scope have ended.
    if (mode === 'exclusive')
      for (const lease of [...this.of(scope)]) if (lease.token < token) this.#end(lease);
    this.#put({
      id: idOf(scope, token),
      scope,
      token,
      owner,
      mode,
      state: 'active',
      ttl,
      renewals: 0,
      began: at,
      ends: at + ttl,
      queue: [],
      heard: at,
    });
    return null;
  }

  #renewed(scope, token, ttl) {
    const lease = this.#scopes.get(scope)?.leases.get(idOf(scope, token));
    if (!lease) return scope;
    const at = now();
    this.#replace(lease, {
      ...lease,
      state: 'active',
      renewals: (lease.renewals ?? 0) + 1,
      ttl: ttl ?? lease.ttl,
      ends: at + (ttl ?? lease.ttl),
      heard: at,
    });
    return null;
  }

  #over(scope, token) {
    const id = idOf(scope, token);
    const lease = this.#scopes.get(scope)?.leases.get(id);
    this.#ended.set(id, now());
    if (lease) this.#end(lease);
  }

  // ---- One lease

  #scope(name) {
    let known = this.#scopes.get(name);
    if (!known) this.#scopes.set(name, (known = { leases: new Map(), listed: [], local: [] }));
    return known;
  }

  #put(lease) {
    const known = this.#scope(lease.scope);
    const before = known.leases.get(lease.id);
    lease.queue = this.#names(known);
    if (before && before.heard > lease.heard) return;
    if (before && isSame(before, lease)) {
      before.heard = lease.heard;
      return;
    }
    lease.text = search(lease);
    if (before) this.#replace(before, { holder: before.holder, ...lease });
    else {
      known.leases.set(lease.id, lease);
      this.size++;
      this.changed(null, lease);
    }
  }

  #replace(before, after) {
    this.#scopes.get(before.scope).leases.set(after.id, after);
    this.changed(before, after);
  }

  #end(lease) {
    const known = this.#scopes.get(lease.scope);
    known.leases.delete(lease.id);
    if (known.leases.size === 0 && known.listed.length + known.local.length === 0)
      this.#scopes.delete(lease.scope);
    this.size--;
    this.changed(lease, null);
  }

  // ---- Queues

  /** Only the first waiter of each server is in the store's queue; ours are known from its events.
   * */
  #names({ listed, local }) {
    return listed.length === 0
      ? local
      : [...local, ...listed.filter((owner) => !local.includes(owner))];
  }

  #setLocal(name, local) {
    this.#scope(name).local = local;
    this.#refreshQueue(name);
  }

  #refreshQueue(name) {
    const known = this.#scopes.get(name);
    const queue = this.#names(known);
    for (const lease of [...known.leases.values()])
      if (!sameNames(lease.queue, queue)) this.#replace(lease, { ...lease, queue });
    if (known.leases.size === 0 && queue.length === 0) this.#scopes.delete(name);
  }
}

// ---- In order ---------------------------------------------------------------------------------

const byName = (a, b) => (a.scope < b.scope ? -1 : a.scope > b.scope ? 1 : a.token - b.token);

/** How leases can be sorted. Each is by values that change only with an event, not as time passes.
 * */
export const sorts = {
  name: byName,
  'time left': (a, b) => a.ends - b.ends || byName(a, b),
  age: (a, b) => a.began - b.began || byName(a, b),
  queue: (a, b) => b.queue.length - a.queue.length || byName(a, b),
};

/** What the state filters show. `at` is now: a lease that nobody has renewed is overdue before a
 * listing says so. */
export const filters = {
  all: () => true,
  waited: (lease) => lease.queue.length > 0,
  ending: (lease, at) => lease.ends - at < Math.min(10_000, lease.ttl / 3),
  overdue: (lease, at) => lease.state !== 'active' || lease.ends < at,
};

export const stateOf = (lease, at) =>
  lease.state === 'active' && lease.ends < at ? 'overdue' : lease.state;

/** The leases that match a search, in order. A change costs a search in the list, not a sort. */
export class Ranking {
  rows = [];
  #compare = byName;
  #words = [];

  choose(all, { sort, find }) {
    this.#compare = sorts[sort] ?? byName;
    this.#words = find.toLowerCase().split(/\s+/).filter(Boolean);
    this.rows = [...all].filter((lease) => this.#matches(lease)).sort(this.#compare);
  }

  change(before, after) {
    const goes = before !== null && this.#matches(before);
    const comes = after !== null && this.#matches(after);
    if (goes) {
      const place = this.#place(before);
      if (this.rows[place]?.id !== before.id)
        throw new Error(`the list is not in order: ${before.id}`);
      if (comes && this.#compare(before, after) === 0) {
        this.rows[place] = after;
        return;
      }
      this.rows.splice(place, 1);
    }
    if (comes) this.rows.splice(this.#place(after), 0, after);
  }

  #matches(lease) {
    return this.#words.every((word) => lease.text.includes(word));
  }

  #place(lease) {
    let low = 0;
    let high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(this.rows[middle], lease) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
