// SPDX-License-Identifier: Apache-2.0
// rows.js: a table of which only the rows in sight exist as elements. Ten thousand rows cost as
// much as thirty.
//
// A row belongs to its item and not to its position: if items appear above it, the row moves, and
// what has the focus or is under the pointer stays the same item.

import { element, setAttribute } from './dom.js';

const BEYOND = 5; // rows that are kept above and below what is in sight
const REST_MS = 120;

export class Rows {
  #used = new Map(); // id of an item -> row
  #free = [];
  #scheduled = false;
  #arranges = 0;
  items = [];

  /** `columns`: [{ name, class }]; `make(row)` fills a new row with cells and may return an object,
   * which `show(parts, item)` gets, as does every frame's work. `idOf(item)` names it. */
  constructor({ label, columns, make, show, idOf, height }) {
    Object.assign(this, { make, show, idOf });
    this.heightName = height;
    this.space = element('div', { class: 'rows-space', role: 'rowgroup' });
    this.head = element(
      'div',
      { class: 'row head', role: 'row', 'aria-rowindex': 1 },
      ...columns.map(({ name, class: kind }) =>
        element('div', { role: 'columnheader', class: kind }, name),
      ),
    );
    this.table = element(
      'div',
      { class: 'rows-table', role: 'table', 'aria-label': label },
      element('div', { role: 'rowgroup', class: 'rows-head' }, this.head),
      this.space,
    );
    this.node = element(
      'div',
      { class: 'rows', tabindex: 0, role: 'region', 'aria-label': `${label}, scrolls` },
      this.table,
    );
    this.node.addEventListener('scroll', () => this.schedule(), { passive: true });
    this.size = new ResizeObserver(() => {
      this.#measure();
      this.schedule();
    });
    this.size.observe(this.node);
  }

  close() {
    this.size.disconnect();
  }

  #measure() {
    const height = parseFloat(getComputedStyle(this.node).getPropertyValue(this.heightName)) || 44;
    if (height !== this.height) for (const row of this.#used.values()) row.place = -1;
    this.height = height;
    this.room = this.node.clientHeight;
    this.top = this.space.offsetTop;
  }

  /** Draws in the next frame, however often it is asked to. */
  schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      if (this.node.isConnected) this.draw();
    });
  }

  draw() {
    if (!this.height) this.#measure();
    const count = this.items.length;
    const from = Math.max(0, Math.floor((this.node.scrollTop - this.top) / this.height) - BEYOND);
    const till = Math.min(count, from + Math.ceil(this.room / this.height) + 2 * BEYOND + 1);
    setAttribute(this.table, 'aria-rowcount', count + 1);
    const whole = `${count * this.height}px`;
    if (this.space.style.height !== whole) this.space.style.height = whole;
    const wanted = new Map();
    for (let i = from; i < till; i++) wanted.set(this.idOf(this.items[i]), i);
    for (const [id, row] of this.#used) if (!wanted.has(id)) this.#putAway(id, row);
    for (const [id, i] of wanted) this.#show(id, i);
    clearTimeout(this.#arranges);
    this.#arranges = setTimeout(() => this.#arrange(), REST_MS);
  }

  /** Puts the elements in the order in which they are seen, which is the order of the Tab key and
   * of a screen reader, once nothing has moved for a moment. The one with the focus is not moved,
   * because it would lose it: the others are. */
  #arrange() {
    const rows = [...this.#used.values()].sort((a, b) => b.place - a.place);
    let next = null;
    for (const { node } of rows) {
      if (node.nextSibling !== next && !node.contains(document.activeElement))
        this.space.insertBefore(node, next);
      next = node;
    }
  }

  #putAway(id, row) {
    this.#used.delete(id);
    if (row.node.contains(document.activeElement)) this.node.focus({ preventScroll: true });
    row.node.hidden = true;
    row.item = null;
    this.#free.push(row);
  }

  #show(id, i) {
    let row = this.#used.get(id);
    if (!row) {
      row = this.#free.pop() ?? this.#newRow();
      this.#used.set(id, row);
      row.node.hidden = false;
    }
    if (row.place !== i) {
      row.place = i;
      row.node.style.transform = `translateY(${i * this.height}px)`;
      row.node.setAttribute('aria-rowindex', i + 2);
      row.node.classList.toggle('odd', i % 2 === 1);
    }
    row.item = this.items[i];
    this.show(row.parts, row.item);
  }

  #newRow() {
    const node = element('div', { class: 'row', role: 'row' });
    this.space.append(node);
    return { node, parts: this.make(node), place: -1, item: null };
  }

  /** Calls `each(parts, item)` for every row in sight. */
  visible(each) {
    for (const row of this.#used.values()) each(row.parts, row.item);
  }
}
