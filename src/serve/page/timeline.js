// SPDX-License-Identifier: Apache-2.0
// timeline.js: the view of one lock: who held it when. The picture has a lane per owner, and above
// them a lane that shows when nobody held it.

import { call, download } from './api.js';
import { drawn, element, empty, findField, setAttribute, setText, table } from './dom.js';
import { clock, duration, moment, plural, scopeName } from './format.js';
import { PolledView } from './polled.js';

const RANGES = { '5 min': 300_000, '1 h': 3_600_000, '6 h': 21_600_000, 'All kept': Infinity };
const LANES_MAX = 12;
const LANE = 34;
const HEAD = 30;
const NAMES = 150;
const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400,
].map((seconds) => seconds * 1000);

const ENDS = { release: 'released', expiry: 'expired', break: 'broken', unknown: 'not known' };
const BEGINS = { grant: 'granted', takeover: 'took over', seen: 'first seen' };

const untilOf = (hold, now) => hold.ended_ms ?? now;

const aboutTime = (ms, precision) => `${precision ? '≈ ' : ''}${moment(ms)}`;

function describeEnd(hold) {
  if (!hold.ended) return 'holds it now';
  const by =
    hold.ended === 'break'
      ? ` by ${hold.ended_by || 'somebody'}${hold.reason ? `: ${hold.reason}` : ''}`
      : '';
  return ENDS[hold.ended] + by;
}

/** Where each moment is, and where the lines of the clock are. */
function scale(from, till, width) {
  const at = (ms) =>
    NAMES + ((Math.min(till, Math.max(from, ms)) - from) / (till - from)) * (width - NAMES);
  const step =
    STEPS.find((size) => (till - from) / size <= Math.max(2, (width - NAMES) / 110)) ??
    STEPS.at(-1);
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const lines = [];
  for (let ms = Math.ceil((from - zone) / step) * step + zone; ms < till; ms += step)
    lines.push(ms);
  return {
    at,
    lines,
    momentAt: (x) => from + ((x - NAMES) / (width - NAMES)) * (till - from),
    step,
  };
}

export class TimelineView extends PolledView {
  #range = '1 h';
  #soon = 0;
  #said = null;
  #asked = null; // the moment about which the reader wants to know

  constructor(app) {
    super(app, { title: 'Timeline', intro: '' });
    this.find = findField('Which lock?', { 'aria-label': 'Lock', list: 'scopes' });
    this.scopes = element('datalist', { id: 'scopes' });
    this.form = element(
      'form',
      { class: 'find', onsubmit: (event) => this.#look(event) },
      this.find,
      this.scopes,
      element('button', { type: 'submit' }, 'Show'),
    );
    this.ranges = Object.keys(RANGES).map((name) =>
      element(
        'button',
        { type: 'button', 'data-value': name, onclick: () => this.#choose(name) },
        name,
      ),
    );
    this.when = element('input', {
      type: 'time',
      step: 1,
      'aria-label': 'Who had it at this time?',
      onchange: () => this.#ask(),
    });
    this.answer = element('output', { class: 'answer' });
    const save = (format) =>
      element(
        'button',
        { type: 'button', onclick: () => this.#save(format) },
        `Export ${format.toUpperCase()}`,
      );
    this.exports = element('span', { class: 'choice' }, save('csv'), save('json'));
    this.more = element(
      'div',
      { class: 'bar' },
      element('div', { class: 'choice', role: 'group', 'aria-label': 'Range' }, ...this.ranges),
      element('label', { class: 'check' }, 'Who had it at', this.when),
      this.answer,
      this.exports,
    );
    this.tools.append(this.form);
    this.node.insertBefore(this.more, this.body);
    this.size = new ResizeObserver(() => {
      if (this.#said) this.#redraw();
    });
    this.size.observe(this.body);
  }

  begin([scope = '']) {
    const full = scope && !scope.includes(':') ? `named:${scope}` : scope;
    if (full !== this.scope) {
      this.#said = null;
      this.#asked = null;
      this.when.value = '';
      setText(this.answer, '');
    }
    this.scope = full;
    this.find.value = scopeName(full);
    this.more.hidden = !full;
    this.#offerScopes();
    this.#markRange();
  }

  searchField() {
    return this.find;
  }

  event(event) {
    if (event.scope !== this.scope || this.#soon) return;
    this.#soon = setTimeout(() => {
      this.#soon = 0;
      this.again();
    }, 300);
  }

  close() {
    clearTimeout(this.#soon);
    this.#soon = 0;
    super.close();
  }

  #offerScopes() {
    const names = new Set();
    for (const lease of this.app.locks.all()) {
      names.add(scopeName(lease.scope));
      if (names.size >= 200) break;
    }
    this.scopes.replaceChildren(...[...names].map((name) => element('option', { value: name })));
  }

  #look(event) {
    event.preventDefault();
    const name = this.find.value.trim();
    if (name)
      this.app.go(`timeline/${encodeURIComponent(name.includes(':') ? name : `named:${name}`)}`);
  }

  #choose(name) {
    this.#range = name;
    this.#markRange();
    this.#redraw();
  }

  #markRange() {
    for (const button of this.ranges)
      setAttribute(button, 'aria-pressed', button.dataset.value === this.#range);
  }

  #save(format) {
    const name = `${scopeName(this.scope).replaceAll(/[^\w.-]+/g, '_')}-timeline.${format}`;
    download(
      '/v1/timeline',
      { namespace: this.app.namespace, scope: this.scope, format: format === 'csv' ? 'csv' : '' },
      name,
    ).catch((error) => this.app.say(`The export failed: ${error.message}`));
  }

  // ---- Who had it?

  #ask() {
    const [hours, minutes, seconds = 0] = this.when.value.split(':').map(Number);
    const at = new Date();
    at.setHours(hours, minutes, seconds, 0);
    // A time of day that is still to come was yesterday's.
    this.#asked = this.when.value ? at.getTime() - (at > new Date() ? 86_400_000 : 0) : null;
    this.#redraw();
    setText(this.answer, this.#asked === null ? '' : this.#whoAt(this.#asked));
  }

  #whoAt(ms) {
    const { holds, complete_since_ms: since, now_ms: now } = this.#said;
    const found = holds.filter((hold) => hold.began_ms <= ms && untilOf(hold, now) > ms);
    if (found.length > 0)
      return `${clock(ms)}: ${found
        .map((hold) => `${hold.owner}, token #${hold.fencing_token}`)
        .join('; ')}`;
    return ms < since ? `${clock(ms)}: not known` : `${clock(ms)}: nobody`;
  }

  // ---- Drawing

  read() {
    if (!this.scope) return Promise.resolve({ none: true });
    return call('/v1/timeline', { query: { namespace: this.app.namespace, scope: this.scope } });
  }

  draw(said) {
    if (said.none) {
      this.#said = null;
      return [empty('Choose a lock to see who held it when. Every lock in the list links here.')];
    }
    this.#said = said;
    return this.#parts();
  }

  #redraw() {
    const width = Math.floor(this.body.clientWidth);
    if (!this.#said || width === 0) return;
    this.body.replaceChildren(...this.#parts());
  }

  #parts() {
    const said = this.#said;
    const { now_ms: now, holds } = said;
    const first = holds.length > 0 ? Math.min(...holds.map((hold) => hold.began_ms)) : now;
    const range = RANGES[this.#range];
    const from = range === Infinity ? Math.min(first, now - 60_000) - 5000 : now - range;
    const seen = holds.filter((hold) => untilOf(hold, now) >= from);
    return [
      this.#summary(said),
      this.#picture(said, seen, from, now),
      this.#legend(said),
      this.#list(seen, now),
    ];
  }

  #summary({ holds, now_ms: now, waiters = [] }) {
    const current = holds
      .filter((hold) => !hold.ended)
      .map(({ owner, began_ms: began, fencing_token: token }) => {
        return `${owner} has held it for ${duration(now - began)}, with token #${token}`;
      });
    const known = this.app.locks.queue(this.scope);
    const queue = known.length > 0 ? known : waiters.map((waiter) => waiter.owner);
    const names = queue.slice(0, 5).join(', ') + (queue.length > 5 ? ' …' : '');
    return element(
      'p',
      { class: 'answer' },
      element('strong', {}, scopeName(this.scope)),
      current.length === 0 ? ' Nobody holds it.' : ` ${current.join('; ')}.`,
      queue.length === 0 ? '' : ` ${plural(queue.length, 'client')} waiting: ${names}.`,
    );
  }

  #picture(said, holds, from, now) {
    const width = Math.max(320, Math.floor(this.body.clientWidth) || 800);
    const future = Math.max(
      0,
      ...holds.map((hold) => (hold.ended ? 0 : (hold.expires_ms ?? now) - now)),
    );
    const till = now + Math.min(future, (now - from) / 5) + (now - from) / 40;
    const map = scale(from, till, width);
    const owners = [...new Set(holds.map((hold) => hold.owner))];
    const lanes = owners.slice(0, LANES_MAX);
    const lane = (owner) =>
      1 + Math.min(lanes.indexOf(owner) < 0 ? LANES_MAX - 1 : lanes.indexOf(owner), LANES_MAX - 1);
    const height = HEAD + (1 + Math.max(1, lanes.length)) * LANE + 6;
    const svg = drawn('svg', {
      class: 'gantt',
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: 'img',
      'aria-label':
        `${plural(holds.length, 'hold')} of ${scopeName(this.scope)} by ` +
        `${plural(owners.length, 'owner')}; the table below lists them`,
    });
    svg.append(
      this.#defs(),
      ...this.#grid(map, height, width),
      ...this.#names(['nobody', ...lanes], owners.length - lanes.length),
      ...this.#gaps(said, map, from, till, now),
      ...holds.flatMap((hold) => this.#hold(hold, map, lane(hold.owner), now)),
      drawn('line', { class: 'now', x1: map.at(now), x2: map.at(now), y1: HEAD - 8, y2: height }),
    );
    if (this.#asked !== null)
      svg.append(
        drawn('line', {
          class: 'asked',
          x1: map.at(this.#asked),
          x2: map.at(this.#asked),
          y1: HEAD - 8,
          y2: height,
        }),
      );
    this.#follow(svg, map, width, height);
    return element('div', { class: 'figure' }, svg);
  }

  #defs() {
    return drawn(
      'defs',
      {},
      drawn(
        'pattern',
        {
          id: 'hatch',
          width: 6,
          height: 6,
          patternUnits: 'userSpaceOnUse',
          patternTransform: 'rotate(45)',
        },
        drawn('line', { class: 'hatch', x1: 0, x2: 0, y1: 0, y2: 6 }),
      ),
    );
  }

  #grid(map, height, width) {
    return map.lines
      .flatMap((ms) => [
        drawn('line', { class: 'grid', x1: map.at(ms), x2: map.at(ms), y1: HEAD - 6, y2: height }),
        map.at(ms) < width - 30
          ? drawn(
              'text',
              { class: 'tick', x: map.at(ms), y: 14, 'text-anchor': 'middle' },
              map.step < 60_000 ? clock(ms) : clock(ms).slice(0, 5),
            )
          : null,
      ])
      .filter(Boolean);
  }

  #names(names, others) {
    return names.flatMap((name, i) => {
      const text = i === LANES_MAX && others > 0 ? `${name} and ${others} more` : name;
      const short = text.length > 19 ? `${text.slice(0, 18)}…` : text;
      const y = HEAD + i * LANE;
      return [
        drawn('line', { class: 'lane', x1: 0, x2: '100%', y1: y, y2: y }),
        drawn(
          'text',
          { class: i === 0 ? 'owner quiet' : 'owner', x: 0, y: y + LANE / 2 + 4 },
          drawn('title', {}, text),
          short,
        ),
      ];
    });
  }

  #gaps({ gaps = [], complete_since_ms: since }, map, from, till, now) {
    const unknown =
      since > from
        ? [
            drawn(
              'rect',
              {
                class: 'unknown',
                x: NAMES,
                y: HEAD,
                width: Math.max(0, map.at(since) - NAMES),
                height: LANE,
              },
              drawn(
                'title',
                {},
                'Before this, the server did not watch: other holds are possible.',
              ),
            ),
          ]
        : [];
    return [
      ...unknown,
      ...gaps
        .filter((gap) => (gap.to_ms ?? now) >= from)
        .map((gap) => {
          const x = map.at(gap.from_ms);
          const end = gap.to_ms ?? now;
          return drawn(
            'rect',
            {
              class: gap.certain ? 'gap' : 'gap unsure',
              x,
              y: HEAD + 8,
              width: Math.max(2, map.at(end) - x),
              height: LANE - 16,
              rx: 3,
            },
            drawn(
              'title',
              {},
              `Nobody, ${clock(gap.from_ms)} to ${gap.to_ms ? clock(gap.to_ms) : 'now'}` +
                ` (${duration(end - gap.from_ms)})${gap.certain ? '' : '; a hold may be missing'}`,
            ),
          );
        }),
    ];
  }

  #hold(hold, map, lane, now) {
    const x = map.at(hold.began_ms);
    const end = map.at(untilOf(hold, now));
    const width = Math.max(3, end - x);
    const y = HEAD + lane * LANE + 5;
    const height = LANE - 10;
    const kind = hold.ended ?? 'held';
    const label = `#${hold.fencing_token}`;
    const text =
      `${hold.owner}, token ${label}: ${BEGINS[hold.began]} ${aboutTime(
        hold.began_ms,
        hold.began_precision_ms,
      )}, ${describeEnd(hold)}` +
      `${hold.ended_ms ? ` ${aboutTime(hold.ended_ms, hold.ended_precision_ms)}` : ''}`;
    return [
      !hold.ended && hold.expires_ms
        ? drawn('rect', {
            class: 'ahead',
            x: end,
            y,
            width: Math.max(0, map.at(hold.expires_ms) - end),
            height,
            rx: 4,
          })
        : null,
      drawn(
        'rect',
        { class: `hold ${kind}`, x, y, width, height, rx: 4 },
        drawn('title', {}, text),
      ),
      hold.began === 'takeover'
        ? drawn(
            'path',
            { class: 'takeover', d: `M${x - 6},${y - 3} h12 l-6,9 z` },
            drawn('title', {}, 'took over an expired lease'),
          )
        : null,
      kind === 'break'
        ? drawn('path', {
            class: 'cross',
            d: `M${end - 5},${y + height / 2 - 5} l10,10 m0,-10 l-10,10`,
          })
        : null,
      width > 9 * label.length + 8
        ? drawn('text', { class: 'label', x: x + 7, y: y + height / 2 + 4 }, label)
        : null,
    ].filter(Boolean);
  }

  /** A line that follows the pointer, and says who had the lock there. */
  #follow(svg, map, width, height) {
    const line = drawn('line', { class: 'cursor', y1: HEAD - 8, y2: height, visibility: 'hidden' });
    svg.append(line);
    svg.addEventListener('pointermove', (event) => {
      const x = (event.offsetX / svg.clientWidth) * width;
      const inside = x >= NAMES;
      setAttribute(line, 'visibility', inside ? 'visible' : 'hidden');
      setAttribute(line, 'x1', x);
      setAttribute(line, 'x2', x);
      if (inside) setText(this.answer, this.#whoAt(map.momentAt(x)));
    });
    svg.addEventListener('pointerleave', () => setAttribute(line, 'visibility', 'hidden'));
  }

  #legend({ dropped, complete_since_ms: since }) {
    const key = (kind, text) => element('span', {}, element('i', { class: `key ${kind}` }), text);
    return element(
      'p',
      { class: 'legend' },
      key('held', 'held now'),
      key('release', 'released'),
      key('expiry', 'expired'),
      key('break', 'broken'),
      key('gap', 'nobody'),
      key('takeover', 'takeover'),
      element(
        'span',
        {},
        `Complete since ${moment(since)}${
          dropped ? `; ${plural(dropped, 'older hold')} forgotten` : ''
        }.`,
      ),
    );
  }

  #list(holds, now) {
    if (holds.length === 0)
      return empty('Nobody held it in this time, as far as this server knows.');
    return table(
      'Holds, newest first',
      [
        { name: 'Token', number: true },
        'Owner',
        'From',
        'Until',
        { name: 'For', number: true },
        'Began',
        'End',
      ],
      holds
        .toReversed()
        .slice(0, 200)
        .map((hold) => [
          `#${hold.fencing_token}`,
          hold.owner,
          aboutTime(hold.began_ms, hold.began_precision_ms),
          hold.ended_ms ? aboutTime(hold.ended_ms, hold.ended_precision_ms) : 'now',
          duration(untilOf(hold, now) - hold.began_ms),
          BEGINS[hold.began] ?? hold.began,
          describeEnd(hold),
        ]),
    );
  }
}
