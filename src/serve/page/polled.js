// SPDX-License-Identifier: Apache-2.0
// polled.js: what the views have in common that ask the server again and again while they are
// shown. A view implements read(), which returns what the server said, and draw(said), which
// returns elements.

import { Refusal } from './api.js';
import { element, empty } from './dom.js';

/** Why a view has nothing to show, in plain words. */
function explain(error) {
  if (!(error instanceof Refusal)) return 'The server does not answer.';
  if (error.status === 403)
    return (
      'Your token may not see this. It belongs to the whole store, so it ' +
      'needs the right “read” in all namespaces.'
    );
  if (error.status === 404) return `There is nothing to show: ${error.message}.`;
  return `The server did not answer this: ${error.message}.`;
}

export class PolledView {
  #timer = 0;
  #turn = 0;

  constructor(app, { title, intro, everyMs = 2000 }) {
    Object.assign(this, { app, title, everyMs });
    this.tools = element('div', { class: 'bar' });
    this.body = element('div', { class: 'parts' });
    this.node = element(
      'section',
      { class: 'view', 'aria-labelledby': 'view-title' },
      element('h1', { id: 'view-title' }, title),
      element('p', { class: 'intro' }, intro),
      this.tools,
      this.body,
    );
  }

  open(words) {
    this.words = words;
    this.begin?.(words);
    this.again();
  }

  close() {
    clearTimeout(this.#timer);
    this.#turn++;
  }

  rights() {
    this.again();
  }

  /** Reads now, and then every few seconds. */
  async again() {
    clearTimeout(this.#timer);
    const turn = ++this.#turn;
    let parts;
    try {
      const said = document.hidden ? null : await this.read();
      if (turn === this.#turn && said !== null) parts = this.draw(said);
    } catch (error) {
      this.app.refused(error);
      parts = [empty(explain(error))];
    }
    if (turn !== this.#turn) return;
    if (parts) this.#replace(parts.flat().filter(Boolean));
    this.#timer = setTimeout(() => this.again(), this.everyMs);
  }

  /** Offers names to choose from. */
  offer(view, label, names, chosen) {
    const next = chooser(this.app, view, label, names, chosen);
    if (names.length === 0) this.tools.replaceChildren();
    else if (!this.tools.firstElementChild?.isEqualNode(next)) this.tools.replaceChildren(next);
  }

  /** Replaces only the parts that differ, so that a selection stays where nothing has changed. */
  #replace(parts) {
    const old = [...this.body.children];
    for (let i = 0; i < Math.max(old.length, parts.length); i++) {
      if (!parts[i]) old[i].remove();
      else if (!old[i]) this.body.append(parts[i]);
      else if (!old[i].isEqualNode(parts[i])) exchangePart(old[i], parts[i]);
    }
  }
}

const CONTROLS = 'a[href], button, input, [tabindex]';

/** What has the focus, and how far a table is scrolled, stays. */
function exchangePart(before, after) {
  const focused = [...before.querySelectorAll(CONTROLS)].indexOf(document.activeElement);
  const scrolled = [...before.querySelectorAll('.scroll')].map((node) => node.scrollTop);
  before.replaceWith(after);
  after.querySelectorAll('.scroll').forEach((node, i) => (node.scrollTop = scrolled[i] ?? 0));
  if (focused >= 0) after.querySelectorAll(CONTROLS)[focused]?.focus({ preventScroll: true });
}

/** A choice between names: of partitions, indexes, groups. It goes to #/VIEW/NAME. */
function chooser(app, view, label, names, chosen) {
  const choice = (name) =>
    element(
      'a',
      {
        href: app.address(`${view}/${encodeURIComponent(name)}`),
        'aria-current': name === chosen ? 'true' : undefined,
      },
      name,
    );
  const choices = names.map(choice);
  return element('div', { class: 'choice', role: 'group', 'aria-label': label }, ...choices);
}
