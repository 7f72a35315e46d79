// SPDX-License-Identifier: Apache-2.0
// store.js: the views of the figures of this server: its store, its sweeper, and transactions.

import { call } from './api.js';
import { element, empty, spark, table, tile, tiles } from './dom.js';
import { bytes, duration, milliseconds, moment, number, plural, rate } from './format.js';
import { PolledView } from './polled.js';
import { History } from './work.js';

const heading = (text) => element('h2', {}, text);
const sum = (values) => values.reduce((all, value) => all + value, 0);

/** Figures with those before them, so that counters become rates. */
class Figures {
  #before = null;

  async read() {
    const now = await call('/v1/figures');
    const before = this.#before?.started_ms === now.started_ms ? this.#before : null;
    this.#before = now;
    const seconds = before ? (now.now_ms - before.now_ms) / 1000 : 0;
    return {
      now,
      perSecond: (count) => (seconds > 0 ? (count(now) - count(before)) / seconds : null),
    };
  }
}

// ---- The store --------------------------------------------------------------------------------

const callsOf = (name) => (figures) =>
  figures.store.calls.find((one) => one.call === name)?.count ?? 0;
const failures = (results) =>
  sum(
    Object.entries(results)
      .filter(([name]) => name !== 'ok' && name !== 'not_found' && name !== 'not_modified')
      .map(([, count]) => count),
  );

export class StoreView extends PolledView {
  #figures = new Figures();
  #history = new History();

  constructor(app) {
    super(app, {
      title: 'Store',
      intro: 'What this server asks of the store, and how fast it answers.',
    });
  }

  read() {
    return this.#figures.read();
  }

  draw({ now, perSecond }) {
    const { calls } = now.store;
    const all = perSecond((figures) => sum(figures.store.calls.map((one) => one.count)));
    const requests = perSecond((figures) =>
      sum(figures.requests.flatMap((one) => Object.values(one.codes))),
    );
    const seen = this.#history.add('requests', all);
    return [
      tiles(
        tile('Store requests', rate(all)),
        tile('API requests', rate(requests)),
        tile('Conflicts', rate(perSecond((figures) => figures.conflicts)), {
          note: `${number(now.conflicts)} since the start`,
        }),
        tile('Clock known within', now.clock ? milliseconds(now.clock.interval_ms) : '–', {
          note: now.clock ? 'of the store’s time' : 'not read yet',
        }),
        tile('Connections', number(now.http.connections)),
        tile('Memory', bytes(now.process?.resident_bytes), {
          note: `up ${duration(now.now_ms - now.started_ms)}`,
        }),
      ),
      element(
        'div',
        {},
        heading('Store requests per second while this page is open'),
        spark(seen, `now ${rate(all)}, at most ${rate(Math.max(...seen))}`),
      ),
      element(
        'div',
        {},
        heading('Requests to the store'),
        calls.length === 0
          ? empty('None yet.')
          : table(
              'Requests to the store',
              [
                'Request',
                { name: 'Rate', number: true },
                { name: 'Median', number: true },
                { name: '99 % within', number: true },
                { name: 'All', number: true },
                { name: 'Failed', number: true },
              ],
              calls.map((one) => [
                one.call,
                rate(perSecond(callsOf(one.call))),
                milliseconds(one.p50_ms),
                milliseconds(one.p99_ms),
                number(one.count),
                number(failures(one.results)),
              ]),
            ),
      ),
      element('div', {}, heading('Requests to this server'), this.#requests(now.requests)),
      element(
        'div',
        {},
        heading('Leases since the start'),
        tiles(
          ...Object.entries(now.leases).map(([name, count]) =>
            tile(name.replace('_', ' '), number(count)),
          ),
        ),
      ),
    ];
  }

  #requests(requests) {
    const used = requests.filter((one) => sum(Object.values(one.codes)) > 0);
    if (used.length === 0) return empty('None yet.');
    return table(
      'Requests to this server',
      [
        'Route',
        { name: 'All', number: true },
        { name: 'Median', number: true },
        { name: '99 % within', number: true },
        'Status codes',
      ],
      used.map((one) => [
        one.route,
        number(sum(Object.values(one.codes))),
        milliseconds(one.took?.ok?.p50_ms),
        milliseconds(one.took?.ok?.p99_ms),
        Object.entries(one.codes)
          .map(([code, count]) => `${code}: ${number(count)}`)
          .join(', '),
      ]),
    );
  }
}

// ---- The sweeper ------------------------------------------------------------------------------

export class SweeperView extends PolledView {
  #figures = new Figures();

  constructor(app) {
    super(app, {
      title: 'Sweeper',
      everyMs: 3000,
      intro: 'While nobody asks for anything, the server removes what has expired.',
    });
  }

  read() {
    return this.#figures.read();
  }

  draw({ now: { sweep } }) {
    const runs = Object.entries(sweep?.runs ?? {});
    if (sum(runs.map(([, count]) => count)) === 0)
      return [
        empty(
          'This server has not swept yet. It does after 5 minutes without requests (--idle-grace).',
        ),
      ];
    return [
      tiles(
        tile('Sweeps', number(sum(runs.map(([, count]) => count))), {
          note: runs
            .map(([end, count]) => `${number(count)} ${end.replaceAll('_', ' ')}`)
            .join(', '),
        }),
        tile('Leases cleared', number(sweep.leases_cleared)),
        tile('Markers deleted', number(sweep.markers_deleted)),
        tile('Entries deleted', number(sweep.entries_deleted)),
        tile('Failed', number(sweep.failed), { tone: sweep.failed > 0 ? 'bad' : '' }),
        tile('Time spent', duration(sweep.duration_ms), { note: plural(sweep.ops, 'operation') }),
      ),
    ];
  }
}

// ---- Transactions -----------------------------------------------------------------------------

const STATES = { pending: 'not decided', commit: 'committed', rollback: 'rolled back' };

export class TransactionsView extends PolledView {
  constructor(app) {
    super(app, {
      title: 'Transactions',
      intro:
        'Changes of several keys, either all or none. The id of a transaction is secret, so a ' +
        'short hash stands for it.',
    });
  }

  read() {
    return call('/v1/txns');
  }

  draw({ txns, waits, more }) {
    const pending = txns.filter((txn) => txn.state === 'pending').length;
    const decided = txns.length - pending;
    return [
      tiles(
        tile('Not decided', number(pending), { tone: pending > 0 ? 'accent' : '' }),
        tile('Decided', number(decided), { note: 'whose record is still there' }),
        tile('Waiting for a key', number(waits.length), { tone: waits.length > 0 ? 'warn' : '' }),
      ),
      element(
        'div',
        {},
        heading('Who waits for whom'),
        waits.length === 0
          ? empty('No transaction waits for a key at this server.')
          : table(
              'Who waits for whom',
              [
                'Transaction',
                'Waits for the key',
                'Which belongs to',
                { name: 'For', number: true },
              ],
              waits.map((wait) => [
                wait.txn,
                wait.key,
                wait.for ? `transaction ${wait.for}` : 'not known',
                duration(wait.waited_ms),
              ]),
            ),
      ),
      element(
        'div',
        {},
        heading('Transactions'),
        txns.length === 0
          ? empty('There is no transaction.')
          : table(
              'Transactions',
              ['Transaction', 'State', 'Keys', 'Began', 'Decided', 'Holder'],
              txns.map((txn) => [
                txn.txn,
                `${STATES[txn.state] ?? txn.state}${
                  txn.state !== 'pending' && !txn.applied ? ', not applied everywhere yet' : ''
                }`,
                txn.keys.join(', '),
                moment(txn.began_at_ms),
                txn.decided_at_ms ? moment(txn.decided_at_ms) : '',
                txn.holder,
              ]),
            ),
      ),
      more ? empty('There are more than are shown here.') : null,
    ];
  }
}
