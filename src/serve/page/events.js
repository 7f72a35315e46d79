// SPDX-License-Identifier: Apache-2.0
// events.js: the view of the events as they happen, newest first, with a pause and a filter.

import { cell, element, findField, findWithKey, setAttribute, setText } from './dom.js';
import { clock, duration, number, plural, scopeName } from './format.js';
import { Rows } from './rows.js';

const KEPT = 2000;

const TONES = {
  granted: 'good',
  renewed: 'calm',
  released: 'calm',
  taken_over: 'warn',
  lease_lost: 'bad',
  broken: 'bad',
  danger: 'bad',
  lost: 'warn',
  conflict: 'warn',
  wait_began: 'accent',
  wait_ended: 'accent',
  stopping: 'warn',
};

const ENDS = { granted: 'got it', not_granted: 'gave up', hung_up: 'hung up', failed: 'failed' };

/** What happened, in words. */
function describe(kind, data) {
  switch (kind) {
    case 'taken_over':
      return (
        `${plural(data.count ?? 1, 'expired lease')} ended; the first was ` +
        `${data.holder ?? 'somebody'}'s`
      );
    case 'broken':
      return `broken: ${data.reason ?? 'no reason given'}`;
    case 'lease_lost':
      return data.reason === 'expired' ? 'its time had passed' : 'another client ended it';
    case 'wait_began':
      return 'waits';
    case 'wait_ended':
      return `${ENDS[data.result] ?? data.result} after ${duration(data.waited_ms)}`;
    case 'lost':
      return data.count ? `${plural(data.count, 'event')} missing` : 'events are missing';
    case 'swept':
      return `${plural(data.count ?? 0, 'lease')} cleared`;
    case 'conflict':
      return 'another client wrote first';
    case 'stopping':
      return 'the server stops';
    case 'reload':
      return 'the server has read its tokens again';
    default:
      return '';
  }
}

/** The latest events, newest last. Bounded: the oldest are forgotten. */
export class EventLog {
  all = [];
  #number = 0;

  add(kind, data) {
    const event = {
      id: ++this.#number,
      kind,
      at: data.at_ms ?? Date.now(),
      scope: data.scope ?? '',
      owner: data.owner || data.holder || '',
      token: data.fencing_token,
      what: describe(kind, data),
    };
    event.text =
      `${kind} ${event.scope} ${event.owner} ${event.what} #${event.token ?? ''}`.toLowerCase();
    this.all.push(event);
    if (this.all.length > 2 * KEPT) this.all.splice(0, KEPT);
    return event;
  }
}

const COLUMNS = [
  { name: 'Time', class: 'at' },
  { name: 'Event', class: 'what' },
  { name: 'Lock', class: 'scope' },
  { name: 'Owner', class: 'owner' },
  { name: 'Token', class: 'token' },
  { name: 'Details', class: 'more' },
];

export class EventsView {
  title = 'Events';
  #stale = true;
  #frame = 0;
  #till = Infinity; // events after this number are not shown: paused

  constructor(app) {
    this.app = app;
    this.rows = new Rows({
      label: 'Events',
      columns: COLUMNS,
      height: '--event-height',
      idOf: (event) => event.id,
      make: (row) => this.#make(row),
      show: (parts, event) => this.#show(parts, event),
    });
    this.find = findField('Filter events', { oninput: () => this.#choose() });
    this.pause = element(
      'button',
      { type: 'button', 'aria-pressed': 'false', onclick: () => this.#pause() },
      'Pause',
    );
    this.renewals = element('input', { type: 'checkbox', onchange: () => this.#choose() });
    this.count = element('span', { class: 'count' });
    this.none = element(
      'p',
      { class: 'empty' },
      'No event yet. This shows what happens through this server from now on.',
    );
    this.node = element(
      'section',
      { class: 'view fill events', 'aria-labelledby': 'view-title' },
      element('h1', { id: 'view-title' }, 'Events'),
      element(
        'div',
        { class: 'bar', role: 'search' },
        findWithKey(this.find),
        this.pause,
        element('label', { class: 'check' }, this.renewals, 'Renewals'),
        this.count,
      ),
      this.none,
      this.rows.node,
    );
  }

  open(words, query) {
    this.find.value = query.get('find') ?? '';
    this.renewals.checked = query.get('renewals') !== 'no';
    this.#stale = true;
    if (this.#frame === 0) this.#turn();
  }

  close() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
  }

  searchField() {
    return this.find;
  }

  event() {
    this.#stale = true;
  }

  /** The owner of a new lease may be known only now. */
  changed() {
    this.#stale = true;
  }

  #turn() {
    this.#frame = requestAnimationFrame(() => this.#turn());
    if (this.#stale) this.#select();
  }

  #pause() {
    const { all } = this.app.log;
    const pauses = this.#till === Infinity;
    this.#till = pauses ? (all.at(-1)?.id ?? 0) : Infinity;
    setAttribute(this.pause, 'aria-pressed', pauses);
    this.app.say(pauses ? 'Paused' : 'Showing events as they happen');
    this.#stale = true;
  }

  #choose() {
    this.app.replaceAddress('events', {
      find: this.find.value,
      renewals: this.renewals.checked ? '' : 'no',
    });
    this.#stale = true;
  }

  #select() {
    this.#stale = false;
    const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { all } = this.app.log;
    const items = [];
    let hidden = 0;
    for (let i = all.length - 1; i >= 0 && items.length < KEPT; i--) {
      const event = all[i];
      if (event.kind === 'renewed' && !this.renewals.checked) continue;
      if (!words.every((word) => event.text.includes(word))) continue;
      if (event.id > this.#till) hidden++;
      else items.push(event);
    }
    this.rows.items = items;
    setText(
      this.pause,
      this.#till === Infinity
        ? 'Pause'
        : hidden > 0
          ? `Continue (${number(hidden)} new)`
          : 'Continue',
    );
    setText(
      this.count,
      `${plural(items.length, 'event')}, ${number(this.app.perSecond)} per second`,
    );
    this.none.hidden = items.length > 0;
    this.rows.node.classList.toggle('none', items.length === 0);
    this.rows.draw();
  }

  #make(node) {
    const parts = {
      at: cell('at'),
      kind: element('span', { class: 'badge' }),
      scope: element('a', { class: 'name' }),
      owner: cell('owner'),
      token: cell('token'),
      more: cell('more'),
    };
    node.append(
      parts.at,
      cell('what', parts.kind),
      cell('scope', parts.scope),
      parts.owner,
      parts.token,
      parts.more,
    );
    return parts;
  }

  #show(parts, event) {
    if (parts.item === event && event.owner) return;
    event.owner ||= this.app.locks.ownerOf(event.scope, event.token);
    parts.item = event;
    setText(parts.at, clock(event.at, { fine: true }));
    setText(parts.kind, event.kind.replaceAll('_', ' '));
    parts.kind.dataset.tone = TONES[event.kind] ?? 'calm';
    setText(parts.scope, scopeName(event.scope));
    setAttribute(
      parts.scope,
      'href',
      event.scope ? this.app.address(`timeline/${encodeURIComponent(event.scope)}`) : null,
    );
    setText(parts.owner, event.owner);
    setText(parts.token, event.token ? `#${event.token}` : '');
    setText(parts.more, event.what);
  }
}
