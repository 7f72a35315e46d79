// SPDX-License-Identifier: Apache-2.0
// format.js: numbers and times as people read them.

const UNITS = [
  ['d', 86400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
];

/** "1 h 12 min", "34 s"; below ten seconds with tenths if `fine`; only "1 h" if `short`. */
export function duration(ms, { fine = false, short = false } = {}) {
  const seconds = Math.max(0, ms) / 1000;
  if (fine && seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 1) return `${Math.round(Math.max(0, ms))} ms`;
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[first];
  const count = Math.floor(seconds / size);
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((seconds - count * size) / next[1]) : 0;
  return rest > 0 && !short ? `${count} ${unit} ${rest} ${next[0]}` : `${count} ${unit}`;
}

export function milliseconds(ms) {
  if (ms === undefined || ms === null) return '–';
  return ms >= 1000
    ? duration(ms, { fine: true })
    : `${ms < 10 ? ms.toFixed(2) : ms.toFixed(0)} ms`;
}

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(count) {
  let value = count ?? 0;
  let unit = 0;
  for (; value >= 1024 && unit < SIZES.length - 1; unit++) value /= 1024;
  return `${unit > 0 && value < 100 ? value.toFixed(1) : Math.round(value)} ${SIZES[unit]}`;
}

const whole = new Intl.NumberFormat('en-US');
export const number = (value) =>
  value === undefined || value === null ? '–' : whole.format(value);

export const plural = (count, one, many = `${one}s`) =>
  `${number(count)} ${count === 1 ? one : many}`;

export const rate = (perSecond) =>
  perSecond === null || perSecond === undefined
    ? '–'
    : `${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)}/s`;

const two = (value) => String(value).padStart(2, '0');

/** "14:03:22" in the time zone of the reader. */
export function clock(ms, { fine = false } = {}) {
  const at = new Date(ms);
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return fine ? `${text}.${String(at.getMilliseconds()).padStart(3, '0')}` : text;
}

/** The same, with the date if that is not today. */
export function moment(ms) {
  const at = new Date(ms);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return at.toDateString() === new Date().toDateString() ? clock(ms) : `${day} ${clock(ms)}`;
}

/** A scope without the kind that most of them have. */
export const scopeName = (scope) => (scope.startsWith('named:') ? scope.slice(6) : scope);
