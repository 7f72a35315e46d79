// SPDX-License-Identifier: Apache-2.0
// locks.js: the view of all locks: who holds what, since when, for how much longer, and who waits.

import {
  cell,
  element,
  findField,
  findWithKey,
  setAttribute,
  setText,
  tile,
  tiles,
} from './dom.js';
import { duration, number, plural, scopeName } from './format.js';
import { Ranking, filters, sorts, stateOf } from './model.js';
import { Rows } from './rows.js';

const SHOWN = { all: 'All', waited: 'Waited for', ending: 'Ends soon', overdue: 'Overdue' };
const TEXTS_MS = 250; // how often times are written anew
const SUMMARY_MS = 1000;

const COLUMNS = [
  { name: 'Lock', class: 'scope' },
  { name: 'Owner', class: 'owner' },
  { name: 'Token', class: 'token' },
  { name: 'Held for', class: 'age' },
  { name: 'Time left', class: 'left' },
  { name: 'Queue', class: 'queue' },
  { name: 'Actions', class: 'act' },
];

export class LocksView {
  title = 'Locks';
  #ranking = new Ranking();
  #frame = 0;
  #texts = 0;
  #summary = 0;

  constructor(app) {
    this.app = app;
    this.rows = new Rows({
      label: 'Locks',
      columns: COLUMNS,
      height: '--lock-height',
      idOf: (lease) => lease.id,
      make: (row) => this.#make(row),
      show: (parts, lease) => this.#show(parts, lease),
    });
    this.find = findField('Search locks and owners', { oninput: () => this.#choose() });
    this.sort = element(
      'select',
      { 'aria-label': 'Sort by', onchange: () => this.#choose() },
      ...Object.keys(sorts).map((name) => element('option', { value: name }, `Sort by ${name}`)),
    );
    this.show = Object.entries(SHOWN).map(([value, name]) =>
      element(
        'button',
        {
          type: 'button',
          'data-value': value,
          'aria-pressed': 'false',
          onclick: () => this.#press(value),
        },
        name,
      ),
    );
    this.count = element('span', { class: 'count' });
    this.tiles = element('div', { class: 'tiles' });
    this.none = element('p', { class: 'empty', hidden: true });
    this.node = element(
      'section',
      { class: 'view fill', 'aria-labelledby': 'view-title' },
      element('h1', { id: 'view-title' }, 'Locks'),
      this.tiles,
      element(
        'div',
        { class: 'bar', role: 'search' },
        findWithKey(this.find),
        element('div', { class: 'choice', role: 'group', 'aria-label': 'Show' }, ...this.show),
        this.sort,
        this.count,
      ),
      this.none,
      this.rows.node,
    );
  }

  /** The view is shown, or its address has changed. */
  open(words, query) {
    this.find.value = query.get('find') ?? '';
    this.shown = query.get('show') in filters ? query.get('show') : 'all';
    this.sort.value = query.get('sort') in sorts ? query.get('sort') : 'name';
    this.rows.node.classList.toggle('may-break', this.app.may('admin'));
    this.#rank();
    if (this.#frame === 0) this.#frame = requestAnimationFrame((at) => this.#turn(at));
  }

  close() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
  }

  searchField() {
    return this.find;
  }

  changed(before, after) {
    this.#ranking.change(before, after);
    this.#stale = true;
  }

  wasRead() {
    this.#stale = true;
  }

  rights() {
    this.rows.node.classList.toggle('may-break', this.app.may('admin'));
    this.rows.schedule();
  }

  // ---- Choosing

  #stale = true;

  #press(value) {
    this.shown = this.shown === value ? 'all' : value;
    this.#choose();
  }

  #choose() {
    this.app.replaceAddress('locks', {
      find: this.find.value,
      sort: this.sort.value === 'name' ? '' : this.sort.value,
      show: this.shown === 'all' ? '' : this.shown,
    });
    this.#rank();
    this.app.sayLater(() => `${plural(this.rows.items.length, 'lock')} shown`);
  }

  #rank() {
    this.#ranking.choose(this.app.locks.all(), { sort: this.sort.value, find: this.find.value });
    for (const button of this.show)
      setAttribute(button, 'aria-pressed', button.dataset.value === this.shown);
    this.#select(performance.now());
    this.rows.draw();
  }

  #select(at) {
    this.#stale = false;
    const keeps = filters[this.shown];
    this.rows.items =
      this.shown === 'all'
        ? this.#ranking.rows
        : this.#ranking.rows.filter((lease) => keeps(lease, at));
    const { length } = this.rows.items;
    setText(
      this.count,
      length === this.app.locks.size
        ? plural(length, 'lock')
        : `${number(length)} of ${plural(this.app.locks.size, 'lock')}`,
    );
    this.none.hidden = length > 0 && !this.app.reader.failure;
    this.rows.node.classList.toggle('none', length === 0);
    setText(this.none, this.#whyNone());
    this.rows.schedule();
  }

  #whyNone() {
    const { failure, isComplete } = this.app.reader;
    if (failure) return `The locks could not be listed: ${failure}.`;
    if (!isComplete) return 'Reading the locks…';
    if (this.app.locks.size > 0) return 'No lock matches. Press Esc to show all of them.';
    return `Nobody holds a lock in the namespace “${this.app.namespace}”.`;
  }

  // ---- Every frame: only rows in sight

  #turn(at) {
    this.#frame = requestAnimationFrame((next) => this.#turn(next));
    const writes = at - this.#texts > TEXTS_MS;
    if (writes) this.#texts = at;
    if (this.#stale || (writes && this.shown !== 'all')) this.#select(at);
    if (at - this.#summary > SUMMARY_MS) {
      this.#summary = at;
      this.#summarise(at);
    }
    if (!writes && this.app.calm) return;
    this.rows.visible((parts, lease) => {
      this.#drain(parts, lease, at);
      if (writes) this.#times(parts, lease, at);
    });
  }

  #summarise(at) {
    let ending = 0;
    let overdue = 0;
    for (const lease of this.app.locks.all()) {
      if (filters.overdue(lease, at)) overdue++;
      else if (filters.ending(lease, at)) ending++;
    }
    const { waiting } = this.app.locks;
    const { perSecond } = this.app;
    const key = [this.app.locks.size, waiting, ending, overdue, perSecond].join();
    if (key === this.tiles.dataset.key) return;
    this.tiles.dataset.key = key;
    this.tiles.replaceChildren(
      ...tiles(
        tile('Held', number(this.app.locks.size - overdue)),
        tile('Waiting', number(waiting), { tone: waiting > 0 ? 'accent' : '' }),
        tile('Ends soon', number(ending), { tone: ending > 0 ? 'warn' : '' }),
        tile('Overdue', number(overdue), { tone: overdue > 0 ? 'bad' : '' }),
        tile('Events', `${number(perSecond)}/s`),
      ).childNodes,
    );
  }

  /** The bar moves by whole half pixels: smaller steps cannot be seen. */
  #drain(parts, lease, at) {
    const share = lease.ttl > 0 ? Math.min(1, Math.max(0, (lease.ends - at) / lease.ttl)) : 0;
    const steps = Math.round(share * 280);
    if (steps === parts.steps) return;
    parts.steps = steps;
    parts.bar.style.transform = `scaleX(${steps / 280})`;
    const tone = share > 1 / 3 ? 'good' : share > 0 ? 'warn' : 'bad';
    if (parts.tone !== tone) parts.bar.dataset.tone = parts.tone = tone;
  }

  #times(parts, lease, at) {
    const left = lease.ends - at;
    const state = stateOf(lease, at);
    setText(parts.age, duration(at - lease.began));
    setText(
      parts.left,
      state === 'active'
        ? duration(left, { fine: true })
        : state === 'over'
          ? 'has ended'
          : `${duration(Math.max(1000, -left), { short: true })} overdue`,
    );
    if (parts.state !== state) parts.node.dataset.state = parts.state = state;
  }

  // ---- Rows

  #make(node) {
    const parts = {
      node,
      item: null,
      kind: element('span', { class: 'kind' }),
      scope: element('a', { class: 'name' }),
      owner: element('span', { class: 'name' }),
      holder: element('span', { class: 'sub' }),
      token: cell('token'),
      age: cell('age'),
      bar: element('i'),
      left: element('span', { class: 'time' }),
      queue: cell('queue'),
    };
    parts.act = element(
      'button',
      { type: 'button', class: 'danger small', onclick: () => this.app.askToBreak(parts.item) },
      'Break',
    );
    node.append(
      cell('scope', parts.scope, parts.kind),
      cell('owner', parts.owner, parts.holder),
      parts.token,
      parts.age,
      cell(
        'left',
        element('span', { class: 'drain', 'aria-hidden': 'true' }, parts.bar),
        parts.left,
      ),
      parts.queue,
      cell('act', parts.act),
    );
    return parts;
  }

  #show(parts, lease) {
    const at = performance.now();
    const isNew = parts.item !== lease;
    parts.item = lease;
    if (isNew) {
      const name = scopeName(lease.scope);
      setText(parts.scope, name);
      setAttribute(parts.scope, 'title', lease.scope);
      setAttribute(
        parts.scope,
        'href',
        this.app.address(`timeline/${encodeURIComponent(lease.scope)}`),
      );
      setText(
        parts.kind,
        lease.mode === 'exclusive'
          ? ''
          : lease.mode === 'slots'
            ? `one of ${lease.slots ?? 'several'} slots`
            : lease.mode,
      );
      setText(parts.owner, lease.owner);
      setAttribute(parts.owner, 'title', lease.owner);
      setText(parts.holder, lease.holder && lease.holder !== lease.owner ? lease.holder : '');
      setText(parts.token, `#${lease.token}`);
      setText(parts.queue, this.#queue(lease.queue));
      setAttribute(parts.queue, 'title', lease.queue.slice(0, 20).join('\n'));
      setAttribute(parts.act, 'aria-label', `Break ${name}, held by ${lease.owner}`);
    }
    this.#drain(parts, lease, at);
    this.#times(parts, lease, at);
  }

  #queue(names) {
    if (names.length === 0) return '';
    return names.length === 1 ? names[0] : `${names[0]} and ${number(names.length - 1)} more`;
  }
}
