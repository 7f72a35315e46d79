/* SPDX-License-Identifier: Apache-2.0 */
/* compact_live.c: checks the rows of all live chunks together, after each write of a catalog. It
 * fails the run if a row is lost, is there twice, or is back after it was deleted. */
#include "sim/checkers/compact_inside.h"

static void count_rows(struct catalog_checker *checker, unsigned newest[ROW_KEYS])
{
    for (unsigned i = 1; i <= checker->row_last; i++)
        checker->rows[i].live = 0;
    for (struct checked_doc *doc = checker->docs; doc; doc = doc->next) {
        for (size_t i = 0; doc->reachable && doc->now && i < doc->now->count; i++) {
            const struct listed *entry = &doc->now->entries[i];
            for (size_t k = 0; entry->state == LISTED_LIVE && k < entry->chunk->row_count;
                 k++) {
                struct row row = entry->chunk->rows[k];
                checker->rows[row.number].live++;
                if (row.number > newest[row.key])
                    newest[row.key] = row.number;
            }
        }
    }
}

/* In seeds with deletions: a key has its latest row, unless that is a marker that was dropped with
 * everything older. */
static void checker_deletions(struct catalog_checker *checker)
{
    const struct checked_row *latest[ROW_KEYS] = { NULL }, *live[ROW_KEYS] = { NULL };
    for (unsigned i = 1; i <= checker->row_last; i++) {
        const struct checked_row *row = &checker->rows[i];
        const struct checked_row **best = &latest[row->row.key], **seen = &live[row->row.key];
        if (row->added && (!*best || row->row.ms >= (*best)->row.ms))
            *best = row;
        if (row->live > 0 && (!*seen || row->row.ms >= (*seen)->row.ms))
            *seen = row;
    }
    for (unsigned key = 0; key < ROW_KEYS; key++) {
        if (!latest[key] || latest[key]->expired || latest[key] == live[key])
            continue;
        bool dropped = row_is_marker(&latest[key]->row);
        if (!dropped)
            world_fail(catalog_world(checker), "row %u of key %u is lost: its latest is %u",
                       latest[key]->row.number, key, live[key] ? live[key]->row.number : 0);
        else if (live[key])
            world_fail(catalog_world(checker), "row %u of key %u is back, which row %u deleted",
                       live[key]->row.number, key, latest[key]->row.number);
    }
}

void checked_live_rows(struct catalog_checker *checker)
{
    unsigned newest[ROW_KEYS] = { 0 };
    count_rows(checker, newest);
    for (unsigned i = 1; i <= checker->row_last; i++) {
        const struct checked_row *row = &checker->rows[i];
        if (row->live > 1)
            world_fail(catalog_world(checker), "row %u stands in %u live chunks", i, row->live);
        if (!checker->options.latest_wins && row->added && row->live == 0 && !row->expired)
            world_fail(catalog_world(checker), "row %u is lost", i);
    }
    if (checker->options.deletes) {
        checker_deletions(checker);
        return;
    }
    for (unsigned key = 0; checker->options.latest_wins && key < ROW_KEYS; key++)
        if (newest[key] != checker->newest[key] && !checker->rows[checker->newest[key]].expired)
            world_fail(catalog_world(checker), "row %u of key %u is lost: its latest is %u",
                       checker->newest[key], key, newest[key]);
}
