// SPDX-License-Identifier: Apache-2.0
// dom.js: making elements. Every text becomes a text node, so nothing that a client chose (the name
// of an owner, a key, a reason) is ever read as HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** element('a', { href: '#/locks', onclick: go }, 'text', child, [more]) */
export const element = (tag, properties = {}, ...children) =>
  fill(document.createElement(tag), properties, children);

export const drawn = (tag, properties = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

/** Changes a text only if it differs: a write of the same text would cost a layout. */
export function setText(node, text) {
  const value = String(text);
  if (node.textContent !== value) node.textContent = value;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export const byId = (id) => document.getElementById(id);

/** A line of a list of facts: its name and its value. */
export const fact = (name, value) => [element('dt', {}, name), element('dd', {}, value)];

/** A figure with its name, such as "12 locks held". */
export const tile = (name, value, { note = '', tone } = {}) =>
  element(
    'div',
    { class: 'tile', 'data-tone': tone },
    element('span', { class: 'name' }, name),
    element('strong', {}, String(value)),
    element('span', { class: 'note' }, note),
  );

export const tiles = (...all) => element('div', { class: 'tiles' }, ...all);

export const empty = (text, ...more) => element('p', { class: 'empty' }, text, ...more);

/** The search field of a view, which the key / reaches. */
export const findField = (label, properties) =>
  element('input', {
    id: 'find',
    type: 'search',
    placeholder: label,
    'aria-label': label,
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-keyshortcuts': '/',
    ...properties,
  });

/** The same with a picture of that key. */
export const findWithKey = (field) =>
  element('span', { class: 'find' }, field, element('kbd', { 'aria-hidden': 'true' }, '/'));

/** A cell of a row that is not part of a table element. */
export const cell = (kind, ...children) =>
  element('div', { role: 'cell', class: kind }, ...children);

/** A table with headings. A cell is a text or an element; a column may be { name, number: true }.
 * */
export function table(caption, columns, rows) {
  const heads = columns.map((column) => (typeof column === 'string' ? { name: column } : column));
  const align = (i) => (heads[i].number ? 'number' : undefined);
  return element(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    element(
      'table',
      {},
      element('caption', { class: 'unseen' }, caption),
      element(
        'thead',
        {},
        element(
          'tr',
          {},
          ...heads.map((head, i) => element('th', { scope: 'col', class: align(i) }, head.name)),
        ),
      ),
      element(
        'tbody',
        {},
        ...rows.map((row) =>
          element(
            'tr',
            {},
            ...row.map((cell, i) =>
              element('td', { class: align(i) }, cell instanceof Node ? cell : String(cell ?? '')),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Lines of a figure over time, newest at the right: values are numbers, or null where none is
 * known. */
export function spark(values, label) {
  const width = 240;
  const height = 40;
  const known = values.filter((value) => value !== null);
  const top = Math.max(1, ...known);
  const step = width / Math.max(1, values.length - 1);
  const points = values.map((value, i) =>
    value === null
      ? null
      : `${(i * step).toFixed(1)},${(height - 2 - (value / top) * (height - 6)).toFixed(1)}`,
  );
  const line = points.filter(Boolean).join(' ');
  const picture = drawn(
    'svg',
    { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    ...(known.length < 2
      ? []
      : [
          drawn('polyline', { class: 'area', points: `0,${height} ${line} ${width},${height}` }),
          drawn('polyline', { class: 'line', points: line }),
        ]),
  );
  return element('div', { class: 'spark' }, picture, element('span', { class: 'note' }, label));
}
