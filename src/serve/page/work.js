// SPDX-License-Identifier: Apache-2.0
// work.js: the views of what workers do: compaction, indexes and elections.

import { call } from './api.js';
import { drawn, element, empty, spark, table, tile, tiles } from './dom.js';
import { bytes, clock, duration, moment, number, plural } from './format.js';
import { PolledView } from './polled.js';

const SAMPLES = 300; // of a figure over time: ten minutes

const heading = (text) => element('h2', {}, text);

/** Values of a figure while the page is open, at most SAMPLES. */
export class History {
  #values = new Map();

  add(name, value) {
    const values = this.#values.get(name) ?? [];
    values.push(value);
    if (values.length > SAMPLES) values.shift();
    this.#values.set(name, values);
    return values;
  }
}

function progress(label, share) {
  return element(
    'span',
    {
      class: 'progress',
      role: 'progressbar',
      'aria-label': label,
      'aria-valuemin': 0,
      'aria-valuemax': 100,
      'aria-valuenow': Math.round(share * 100),
    },
    drawn(
      'svg',
      { viewBox: '0 0 100 6', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      drawn('rect', { class: 'all', width: 100, height: 6 }),
      drawn('rect', { class: 'done', width: Math.round(share * 100), height: 6 }),
    ),
  );
}

// ---- Compaction -------------------------------------------------------------------------------

/** Chunks by time (from left to right), level (lanes) and size (height of a bar). */
function chunkPicture(chunks) {
  const timed = chunks.filter((chunk) => chunk.max_ms > 0);
  if (timed.length === 0) return null;
  const from = Math.min(...timed.map((chunk) => chunk.min_ms));
  const till = Math.max(...timed.map((chunk) => chunk.max_ms), from + 1);
  const levels = Math.max(...timed.map((chunk) => chunk.level)) + 1;
  const largest = Math.max(...timed.map((chunk) => Math.log2(chunk.bytes + 2)));
  const [width, lane, names] = [900, 46, 70];
  const at = (ms) => names + ((ms - from) / (till - from)) * (width - names - 6);
  const svg = drawn('svg', {
    class: 'gantt',
    viewBox: `0 0 ${width} ${levels * lane + 20}`,
    role: 'img',
    'aria-label': `${plural(timed.length, 'chunk')} in ${plural(levels, 'level')}`,
  });
  for (let level = 0; level < levels; level++)
    svg.append(
      drawn('line', {
        class: 'lane',
        x1: 0,
        x2: width,
        y1: (level + 1) * lane,
        y2: (level + 1) * lane,
      }),
      drawn('text', { class: 'owner quiet', x: 0, y: (level + 1) * lane - 8 }, `level ${level}`),
    );
  for (const chunk of timed) {
    const high = 4 + (Math.log2(chunk.bytes + 2) / largest) * (lane - 12);
    svg.append(
      drawn(
        'rect',
        {
          class: chunk.quarantine ? 'hold break' : 'hold',
          rx: 2,
          x: at(chunk.min_ms),
          y: (chunk.level + 1) * lane - high,
          height: high,
          width: Math.max(4, at(chunk.max_ms) - at(chunk.min_ms)),
        },
        drawn(
          'title',
          {},
          `${chunk.chunk}: ${bytes(chunk.bytes)}, ${moment(chunk.min_ms)} to ` +
            `${moment(chunk.max_ms)}${chunk.quarantine ? `; quarantine: ${chunk.quarantine}` : ''}`,
        ),
      ),
    );
  }
  svg.append(
    drawn('text', { class: 'tick', x: names, y: levels * lane + 14 }, moment(from)),
    drawn(
      'text',
      { class: 'tick', x: width - 6, y: levels * lane + 14, 'text-anchor': 'end' },
      moment(till),
    ),
  );
  return element('div', { class: 'figure' }, svg);
}

export class CompactionView extends PolledView {
  #history = new History();

  constructor(app) {
    super(app, {
      title: 'Compaction',
      intro: 'Workers merge many small chunks into a few large ones.',
    });
  }

  async read() {
    const { partitions } = await call('/v1/compact/list');
    const partition = this.words[0] ?? partitions[0];
    this.offer('compaction', 'Partition', partitions, partition);
    if (!partition) return {};
    const query = { partition };
    const [status, chunks, quarantine] = await Promise.all([
      call('/v1/compact/status', { query }),
      call('/v1/compact/chunks', { query }),
      call('/v1/compact/quarantine', { query }),
    ]);
    return { partition, status, chunks, quarantine };
  }

  draw({ partition, status, chunks, quarantine }) {
    if (!partition)
      return [
        empty(
          'There is no partition. ',
          element('code', {}, 'holdfast compact create'),
          ' makes one.',
        ),
      ];
    const backlog = this.#history.add(partition, status.levels[0]?.chunks ?? 0);
    return [
      this.#state(partition, status),
      tiles(
        tile('Backlog', plural(status.levels[0]?.chunks ?? 0, 'chunk'), {
          note: `${status.pressure_percent ?? 0} % of what ingest waits for`,
          tone:
            status.pressure_percent >= 100 ? 'bad' : status.pressure_percent >= 60 ? 'warn' : '',
        }),
        tile('Ready to merge', plural(status.due_groups, 'group'), {
          note: bytes(status.due_bytes),
        }),
        tile('Merged, last hour', number(status.committed_last_hour), {
          note: bytes(status.committed_bytes_last_hour),
        }),
        tile('Write amplification', status.write_amplification?.toFixed(1) ?? '–', {
          note: 'bytes written per byte kept',
        }),
        tile('Quarantine', plural(status.quarantined, 'chunk'), {
          tone: status.quarantined > 0 ? 'bad' : '',
        }),
        tile('Workers', number(status.workers)),
      ),
      element(
        'div',
        {},
        heading('Backlog while this page is open'),
        spark(backlog, `now ${number(backlog.at(-1))}, at most ${number(Math.max(...backlog))}`),
      ),
      this.#jobs(status.jobs),
      this.#levels(status.levels, chunks.chunks),
      this.#quarantine(partition, quarantine),
      this.#merges(status.merges ?? []),
    ];
  }

  #state(partition, status) {
    const why = status.barred
      ? `Barred: ${status.barred_why}`
      : status.paused
        ? `Paused${status.paused_why ? `: ${status.paused_why}` : ''}`
        : 'Merging is allowed.';
    const body = { partition, owner: 'dashboard' };
    const button = status.paused
      ? element(
          'button',
          {
            type: 'button',
            onclick: async () => {
              await call('/v1/compact/resume', { body: { partition } }).catch((error) =>
                this.app.say(error.message),
              );
              this.again();
            },
          },
          'Resume',
        )
      : element(
          'button',
          {
            type: 'button',
            onclick: () =>
              this.app.ask({
                title: 'Pause compaction?',
                facts: [['Partition', partition]],
                button: 'Pause',
                what: 'No worker starts a merge until somebody resumes it. Merges under way end.',
                act: async (reason) => {
                  await call('/v1/compact/pause', { body: { ...body, reason } });
                  this.again();
                },
              }),
          },
          'Pause',
        );
    return element(
      'p',
      { class: 'state', 'data-tone': status.paused || status.barred ? 'warn' : 'good' },
      why,
      this.app.may('admin', { everywhere: true }) ? button : null,
    );
  }

  #jobs(jobs) {
    if (jobs.length === 0)
      return element('div', {}, heading('Merges under way'), empty('No merge is under way.'));
    return element(
      'div',
      {},
      heading('Merges under way'),
      table(
        'Merges under way',
        [
          'Worker',
          'State',
          'Progress',
          { name: 'Level', number: true },
          { name: 'Chunks', number: true },
          { name: 'For', number: true },
          { name: 'Left', number: true },
        ],
        jobs.map((job) => [
          job.holder,
          job.state,
          job.eta_ms === undefined
            ? 'not known'
            : progress(
                `Merge by ${job.holder}`,
                job.done_percent / 100 || job.held_ms / Math.max(1, job.held_ms + job.eta_ms),
              ),
          job.level,
          job.chunks,
          duration(job.held_ms),
          job.eta_ms === undefined ? '–' : `≈ ${duration(job.eta_ms)}`,
        ]),
      ),
    );
  }

  #levels(levels, chunks) {
    return element(
      'div',
      {},
      heading('Chunks by time, level and size'),
      chunkPicture(chunks) ?? empty('There are no chunks with a time.'),
      levels.length === 0
        ? null
        : table(
            'Levels',
            [
              { name: 'Level', number: true },
              { name: 'Chunks', number: true },
              { name: 'Size', number: true },
              { name: 'Rows', number: true },
            ],
            levels.map((level, i) => [
              i,
              number(level.chunks),
              bytes(level.bytes),
              number(level.rows),
            ]),
          ),
    );
  }

  #quarantine(partition, { chunks }) {
    if (chunks.length === 0) return null;
    const may = this.app.may('admin', { everywhere: true });
    const release = (chunk) =>
      element(
        'button',
        {
          type: 'button',
          class: 'small',
          'aria-label': `Release ${chunk}`,
          onclick: () =>
            this.app.ask({
              title: 'Release this chunk?',
              facts: [
                ['Partition', partition],
                ['Chunk', chunk],
              ],
              button: 'Release',
              needsReason: false,
              what: 'It is merged again like any other chunk.',
              act: async () => {
                await call('/v1/compact/quarantine/release', { body: { partition, chunk } });
                this.again();
              },
            }),
        },
        'Release',
      );
    return element(
      'div',
      {},
      heading('Quarantine'),
      table(
        'Quarantine',
        [
          'Chunk',
          'Reason',
          { name: 'Failed merges', number: true },
          { name: 'Size', number: true },
          ...(may ? [''] : []),
        ],
        chunks.map((chunk) => [
          chunk.chunk,
          chunk.reason,
          number(chunk.failed_merges),
          bytes(chunk.bytes),
          ...(may ? [release(chunk.chunk)] : []),
        ]),
      ),
    );
  }

  #merges(merges) {
    if (merges.length === 0) return null;
    return element(
      'div',
      {},
      heading('Merges of the last hour'),
      table(
        'Merges of the last hour',
        [
          'Ended',
          'Result',
          'Worker',
          { name: 'Level', number: true },
          { name: 'Chunks', number: true },
          { name: 'In', number: true },
          { name: 'Out', number: true },
          { name: 'Took', number: true },
        ],
        merges
          .toReversed()
          .slice(0, 30)
          .map((merge) => [
            clock(merge.ended_ms),
            `${merge.end}${merge.why ? `: ${merge.why}` : ''}`,
            merge.worker,
            merge.level,
            merge.sources,
            bytes(merge.bytes_in),
            bytes(merge.bytes_out),
            duration(merge.took_ms),
          ]),
      ),
    );
  }
}

// ---- Indexes ----------------------------------------------------------------------------------

export class IndexView extends PolledView {
  #history = new History();

  constructor(app) {
    super(app, {
      title: 'Index',
      intro: 'Records wait in the inbox until they are compiled into shards.',
    });
  }

  async read() {
    const { indexes } = await call('/v1/index/list');
    const index = this.words[0] ?? indexes[0];
    this.offer('index', 'Index', indexes, index);
    if (!index) return {};
    const query = { index };
    const [status, shards] = await Promise.all([
      call('/v1/index/status', { query }),
      call('/v1/index/shards', { query }),
    ]);
    return { index, status, shards };
  }

  draw({ index, status, shards }) {
    if (!index)
      return [
        empty('There is no index. ', element('code', {}, 'holdfast index create'), ' makes one.'),
      ];
    const depth = this.#history.add(index, status.entries);
    const oldest = status.oldest_entry_unix
      ? duration(Date.now() - status.oldest_entry_unix * 1000)
      : null;
    return [
      tiles(
        tile('Inbox', plural(status.entries, 'entry', 'entries'), {
          note: bytes(status.entry_bytes),
        }),
        tile('Oldest entry', oldest ?? '–', { note: oldest ? 'has waited' : 'it is empty' }),
        tile('Shards', number(status.shards), { note: bytes(status.shard_bytes) }),
        tile('Records', number(status.records), { note: 'as last counted' }),
        tile('Set aside', number(status.set_aside), { tone: status.set_aside > 0 ? 'warn' : '' }),
      ),
      element(
        'div',
        {},
        heading('Inbox while this page is open'),
        spark(depth, `now ${number(depth.at(-1))}, at most ${number(Math.max(...depth))}`),
      ),
      element(
        'div',
        {},
        heading('Who compiles'),
        status.compiling.length === 0
          ? empty('Nobody compiles at the moment.')
          : table(
              'Who compiles',
              ['Shard', 'Worker', { name: 'Token', number: true }, 'State'],
              status.compiling.map((one) => [
                one.shard,
                one.holder,
                `#${one.fencing_token ?? ''}`,
                one.over ? 'has ended; any client may take over' : 'at work',
              ]),
            ),
      ),
      this.#shards(shards),
    ];
  }

  #shards({ shards, count }) {
    if (shards.length === 0) return null;
    const largest = Math.max(1, ...shards.map((shard) => shard.bytes));
    return element(
      'div',
      {},
      heading(`Shards by size (${number(count)})`),
      table(
        'Shards by size',
        ['Shard', 'Share of the largest', { name: 'Size', number: true }, 'Changed'],
        shards
          .slice(0, 30)
          .map((shard) => [
            shard.shard,
            progress(`Size of ${shard.shard}`, shard.bytes / largest),
            bytes(shard.bytes),
            shard.modified_ms ? moment(shard.modified_ms) : '',
          ]),
      ),
    );
  }
}

// ---- Elections --------------------------------------------------------------------------------

const LEVELS = 4;

export class ElectionView extends PolledView {
  constructor(app) {
    super(app, {
      title: 'Elections',
      everyMs: 3000,
      intro: 'Members of a group by rank. The one with rank 0 leads; the next one starts later.',
    });
  }

  async read() {
    const { groups } = await call('/v1/elect/groups');
    const group = this.words[0] ?? groups[0];
    this.offer('elections', 'Group', groups, group);
    if (!group) return {};
    const ladders = await Promise.all(
      Array.from({ length: LEVELS }, (_, level) =>
        call('/v1/elect/leaders', { query: { group, level } }),
      ),
    );
    return { group, ladders: ladders.map((ladder) => ladder.members) };
  }

  draw({ group, ladders }) {
    if (!group)
      return [
        empty('There is no group. ', element('code', {}, 'holdfast elect join'), ' makes one.'),
      ];
    const [members] = ladders;
    const present = members.filter((member) => member.present);
    return [
      tiles(
        tile('Leads', present[0]?.name ?? 'nobody'),
        tile('Present', number(present.length)),
        tile('Absent', number(members.length - present.length), {
          tone: present.length < members.length ? 'warn' : '',
        }),
      ),
      element(
        'div',
        {},
        heading('Who leads what'),
        table(
          'Ranks by level of work',
          ['Work of level', ...present.map((_, rank) => (rank === 0 ? 'Leads' : `Then (${rank})`))],
          ladders.map((ladder, level) => [
            String(level),
            ...ladder.filter((member) => member.present).map((member) => member.name),
          ]),
        ),
      ),
      element(
        'div',
        {},
        heading('Members'),
        table(
          'Members',
          ['Name', 'State', 'Last heartbeat'],
          members.map((member) => [
            member.name,
            member.present ? 'present' : 'absent',
            moment(member.beat_at_unix * 1000),
          ]),
        ),
      ),
    ];
  }
}
