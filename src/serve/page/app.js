// SPDX-License-Identifier: Apache-2.0
// app.js: the page as a whole: which view is shown (the part of the address after #), the
// connection, the token, the theme, keys, and questions. The views know only what is public here.

import { EventStream, Refusal, call, token } from './api.js';
import { byId, element, fact, setAttribute, setText } from './dom.js';
import { EventLog, EventsView } from './events.js';
import { duration, scopeName } from './format.js';
import { LocksView } from './locks.js';
import { Locks } from './model.js';
import { LockReader } from './reader.js';
import { StoreView, SweeperView, TransactionsView } from './store.js';
import { TimelineView } from './timeline.js';
import { CompactionView, ElectionView, IndexView } from './work.js';

const STALE_MS = 20_000;

const VIEWS = [
  ['locks', LocksView],
  ['timeline', TimelineView],
  ['events', EventsView],
  ['compaction', CompactionView],
  ['index', IndexView],
  ['elections', ElectionView],
  ['transactions', TransactionsView],
  ['store', StoreView],
  ['sweeper', SweeperView],
];

class App {
  namespace = 'default';
  perSecond = 0;
  log = new EventLog();
  calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  #me = null; // what /v1/whoami said
  #view = null;
  #views = new Map();
  #link = { name: 'connecting' };
  #wasLost = false;
  #count = 0;

  constructor() {
    this.locks = new Locks((before, after) => {
      if (this.#view?.changed) this.#view.changed(before, after);
    });
    this.reader = new LockReader(this.locks, {
      mayRead: () => this.#link.name === 'live' && !document.hidden,
      done: (error) => this.#wasRead(error),
    });
    this.stream = new EventStream({
      event: (kind, data) => this.#event(kind, data),
      state: (state) => this.#linkState(state),
    });
    for (const [name, View] of VIEWS) this.#views.set(name, new View(this));
    this.#buildNavigation();
    this.#listen();
    this.#showTheme();
    this.reader.enter(this.namespace);
    this.#route();
    this.#connect();
    setInterval(() => this.#second(), 1000);
  }

  // ---- Addresses

  /** The address of a view, in this namespace. */
  address(path, query = {}) {
    const words = new URLSearchParams(
      Object.entries({ ...query, ns: this.namespace === 'default' ? '' : this.namespace }).filter(
        ([, value]) => value,
      ),
    );
    return `#/${path}${words.size > 0 ? `?${words}` : ''}`;
  }

  /** The address of what is shown now, without a step in the history. */
  replaceAddress(path, query) {
    history.replaceState(null, '', this.address(path, query));
  }

  go(path, query) {
    location.hash = this.address(path, query);
  }

  #route() {
    const [path, text = ''] = location.hash.replace(/^#\/?/, '').split('?');
    const query = new URLSearchParams(text);
    const [name, ...rest] = path.split('/');
    const view = this.#views.get(name) ?? this.#views.get('locks');
    const namespace = query.get('ns') || 'default';
    if (namespace !== this.namespace) this.#enter(namespace);
    if (view !== this.#view) {
      this.#view?.close();
      byId('main').replaceChildren(view.node);
      this.#view = view;
      document.title = `${view.title} – Holdfast`;
    }
    view.open(
      rest.map((word) => decodeURIComponent(word)),
      query,
    );
    const shown = this.#views.has(name) ? name : 'locks';
    for (const link of byId('views').querySelectorAll('a')) {
      setAttribute(link, 'aria-current', link.dataset.view === shown ? 'page' : null);
      link.href = this.address(link.dataset.view);
    }
  }

  #buildNavigation() {
    byId('views').append(
      ...VIEWS.map(([name]) =>
        element(
          'li',
          {},
          element('a', { href: `#/${name}`, 'data-view': name }, this.#views.get(name).title),
        ),
      ),
    );
  }

  // ---- The connection

  #connect() {
    this.#whoAmI();
    this.stream.restart(this.namespace);
    this.reader.readAll();
  }

  #enter(namespace) {
    this.namespace = namespace;
    byId('namespace').value = namespace;
    this.reader.enter(namespace);
    if (this.#view) this.#connect();
  }

  async #whoAmI() {
    try {
      this.#me = await call('/v1/whoami', { query: { namespace: this.namespace } });
    } catch (error) {
      this.#me = null;
      this.refused(error);
    }
    const named = this.#me?.name ?? (token.get() ? 'unknown token' : 'No token');
    setText(byId('who'), named);
    byId('who').hidden = this.#me?.tokens === false; // everybody may do everything
    byId('namespaces').replaceChildren(
      ...(this.#me?.namespaces ?? ['default']).map((name) => element('option', { value: name })),
    );
    byId('namespace').value = this.namespace;
    this.#view?.rights?.();
  }

  /** Whether the token has a right here; `everywhere`: in all namespaces. */
  may(right, { everywhere = false } = {}) {
    const rights = everywhere ? this.#me?.store_rights : this.#me?.rights;
    return Boolean(rights?.includes(right));
  }

  /** A call was refused because of the token: asks for another one. True if that was the reason. */
  refused(error) {
    if (!(error instanceof Refusal) || error.status !== 401) return false;
    if (error.token !== token.get()) return true; // another one has been given since
    this.#askForToken(
      token.get()
        ? 'The server does not know this token.'
        : 'This server answers only clients with a token.',
    );
    return true;
  }

  #linkState(state) {
    const before = this.#link.name;
    this.#link = state;
    if (state.name === 'refused') {
      if (!this.refused(state.why))
        this.#askForToken(`This token has no right to read the namespace “${this.namespace}”.`);
    }
    if (state.name === 'live') {
      this.reader.readAll();
      if (before !== 'live' && !this.#me) this.#whoAmI();
    }
    if (state.name === 'lost' && before === 'live') this.say('Disconnected from the server');
    if (state.name === 'live' && this.#wasLost) this.say('Connected again');
    this.#wasLost = state.name === 'lost' || (this.#wasLost && state.name === 'connecting');
    this.#showLink();
  }

  /** How old what is shown is: since the last listing, or the last word from the server. */
  #age(at) {
    return (
      at -
      Math.max(this.reader.listedAt, this.#link.name === 'live' ? this.stream.lastHeard : -Infinity)
    );
  }

  #showLink() {
    const at = performance.now();
    const age = this.#age(at);
    const known = Number.isFinite(age) ? `${duration(age)} old` : 'not read yet';
    const texts = {
      connecting: 'Connecting',
      live: 'Live',
      lost: 'Disconnected',
      refused: 'No access',
    };
    const late = this.#link.name === 'live' && age > STALE_MS;
    setAttribute(byId('link'), 'data-state', late ? 'late' : this.#link.name);
    setText(
      byId('link-text'),
      this.#link.name === 'live' && !late ? 'Live' : `${texts[this.#link.name]}, data ${known}`,
    );
    const shows =
      this.#link.name === 'lost' ||
      this.#link.name === 'refused' ||
      (this.#wasLost && this.#link.name === 'connecting') ||
      late;
    byId('banner').hidden = !shows;
    document.body.classList.toggle('stale', shows);
    if (shows) this.#showBanner(at, known);
  }

  #showBanner(at, known) {
    const { name, why, retryAt } = this.#link;
    setText(
      byId('banner-what'),
      name === 'refused' ? 'No access.' : name === 'live' ? 'The server is slow.' : 'Disconnected.',
    );
    let next = '';
    if (name === 'connecting') next = 'Trying now.';
    else if (retryAt) next = `Trying again in ${duration(Math.max(1000, retryAt - at))}.`;
    const said = why instanceof Refusal ? `The server says: ${why.message}.` : '';
    setText(byId('banner-why'), `What you see is ${known}. ${said} ${next}`);
    setText(byId('banner-do'), name === 'refused' ? 'Use a token' : 'Try now');
  }

  // ---- Events and listings

  #event(kind, data) {
    this.#count++;
    if (kind === 'open') return;
    data.owner ??= this.locks.ownerOf(data.scope, data.fencing_token);
    const scope = this.locks.event(kind, data);
    if (scope !== null) this.reader.readSoon(scope);
    const event = this.log.add(kind, data);
    this.#view.event?.(event);
  }

  #wasRead(error) {
    if (error) this.refused(error);
    this.#view.wasRead?.();
  }

  #second() {
    this.perSecond = this.#count;
    this.#count = 0;
    this.#showLink();
  }

  // ---- Questions

  /** Asks for a reason, and then does it. Facts are pairs; `act(reason)` may throw, which is shown.
   * */
  ask({ title, facts, what, button, needsReason = true, act }) {
    const reason = byId('ask-reason');
    setText(byId('ask-title'), title);
    byId('ask-facts').replaceChildren(...facts.flatMap(([name, value]) => fact(name, value)));
    setText(byId('ask-what'), what);
    setText(byId('ask-do'), button);
    setText(byId('ask-error'), '');
    byId('ask-label').hidden = reason.hidden = !needsReason;
    reason.required = needsReason;
    reason.value = '';
    this.asked = act;
    byId('ask-dialog').showModal();
  }

  async #answer() {
    const button = byId('ask-do');
    button.disabled = true;
    try {
      await this.asked(byId('ask-reason').value.trim());
      byId('ask-dialog').close();
    } catch (error) {
      setText(byId('ask-error'), `That failed: ${error.message}.`);
    }
    button.disabled = false;
  }

  askToBreak(lease) {
    const { namespace } = this;
    this.ask({
      title: 'Break this lock?',
      button: 'Break the lock',
      facts: [
        ['Lock', scopeName(lease.scope)],
        ['Owner', lease.owner],
        ['Token', `#${lease.token}`],
      ],
      what:
        'Its lease ends now, and the next client in the queue gets the lock. The owner is not ' +
        'told: it learns this with its next renewal, and may still be at work until then. The ' +
        'reason is recorded in the store.',
      act: async (reason) => {
        await call('/v1/locks/break', {
          body: {
            namespace,
            scope: lease.scope,
            fencing_token: lease.token,
            reason,
            owner: this.#me?.name ?? 'dashboard',
          },
        });
        this.say(`${scopeName(lease.scope)} was broken`);
      },
    });
  }

  #askForToken(why) {
    const dialog = byId('token-dialog');
    setText(byId('token-why'), why);
    if (dialog.open) return;
    byId('token').value = '';
    dialog.showModal();
  }

  // ---- Words for screen readers: few

  say(text) {
    setText(byId('said'), text);
  }

  #sayTimer = 0;

  sayLater(text) {
    clearTimeout(this.#sayTimer);
    this.#sayTimer = setTimeout(() => this.say(text()), 800);
  }

  // ---- Theme, keys

  #showTheme() {
    const theme = localStorage.getItem('holdfast-theme') ?? 'system';
    setAttribute(document.documentElement, 'data-theme', theme === 'system' ? null : theme);
    setText(byId('theme'), `Theme: ${theme}`);
  }

  #nextTheme() {
    const order = ['system', 'light', 'dark'];
    const theme = localStorage.getItem('holdfast-theme') ?? 'system';
    localStorage.setItem('holdfast-theme', order[(order.indexOf(theme) + 1) % order.length]);
    this.#showTheme();
  }

  #key(event) {
    const field = this.#view?.searchField?.();
    const typing = event.target.matches('input, select, textarea');
    if (document.querySelector('dialog[open]') || event.ctrlKey || event.metaKey || event.altKey)
      return;
    if (event.key === '/' && field && !typing) {
      event.preventDefault();
      field.focus();
      field.select();
    } else if (event.key === 'Escape' && field) {
      const had = field.value !== '';
      field.value = '';
      if (had) field.dispatchEvent(new Event('input'));
      else field.blur();
      if (!had && this.#view === this.#views.get('locks')) this.go('locks');
    }
  }

  #listen() {
    addEventListener('hashchange', () => this.#route());
    addEventListener('keydown', (event) => this.#key(event));
    document.addEventListener('visibilitychange', () => this.reader.readAll());
    byId('theme').addEventListener('click', () => this.#nextTheme());
    byId('who').addEventListener('click', () =>
      this.#askForToken('You can use another token. An empty one uses none.'),
    );
    byId('banner-do').addEventListener('click', () => {
      if (this.#link.name === 'refused')
        this.#askForToken('Use a token that may read this namespace.');
      else this.#connect();
    });
    byId('namespace').addEventListener('change', (event) => {
      const ns = event.target.value.trim() || 'default';
      const [path] = location.hash.replace(/^#\/?/, '').split('?');
      const query = ns === 'default' ? '' : `?ns=${encodeURIComponent(ns)}`;
      location.hash = `#/${path || 'locks'}${query}`;
    });
    byId('token-form').addEventListener('submit', (event) => {
      event.preventDefault();
      token.set(byId('token').value.trim());
      byId('token-dialog').close();
      this.#connect();
      this.#route();
    });
    byId('ask-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#answer();
    });
    for (const button of document.querySelectorAll('[data-close]'))
      button.addEventListener('click', () => button.closest('dialog').close());
  }
}

new App();
