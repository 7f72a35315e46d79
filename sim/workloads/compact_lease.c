/* SPDX-License-Identifier: Apache-2.0 */
/* compact_lease.c: follows the lease tables of chunks for the compaction checker: which node makes
 * which output from which sources, how each lease ended, and which leases were forgotten. The lock
 * checker checks mutual exclusion. */
#include "base/parse.h"
#include "sim/checkers/checker_inside.h"
#include "sim/checkers/compact_inside.h"

#include <stdlib.h>

static struct checked_lease *lease_new(struct catalog_checker *checker,
                                       const struct leased *leased, size_t table)
{
    struct net_sender sender = net_sender(checker->run->net);
    struct checked_lease *lease = checker_allocate(sizeof *lease);
    lease->id = checked_copy(leased->id);
    lease->output = checked_chunk_of(checker, leased->output);
    lease->owner = sender.node;
    lease->owner_life = sender.life;
    lease->table = table;
    for (size_t i = 0; i < leased->source_count; i++) {
        struct checked_chunk *source = checked_chunk_of(checker, leased->sources[i]);
        lease->sources[lease->source_count++] = source;
        lease->must_say |= source->begin_marked;
    }
    checker->leases = checker_grow(checker->leases, checker->lease_count, sizeof(void *));
    checker->leases[checker->lease_count++] = lease;
    checked_map_put(&checker->by_lease, view_of(lease->id), lease);
    if (lease->output->lease || checked_is_settled(lease->output) || lease->output->was_put)
        world_fail(catalog_world(checker), "%s is to be made by a lease, and is not a new name",
                   lease->output->key);
    lease->output->lease = lease;
    if (lease->output->drawn_us < 0)
        lease->output->drawn_us = catalog_now_us(checker);
    return lease;
}

/* The number of the range of this merge that the name is for; -1: of none. */
static int64_t range_of(const struct checked_chunk *name, struct view id)
{
    const char *at = strstr(name->key, "/range/");
    uint64_t range;
    if (!at || !view_starts_with(view_of(at + 7), id) || at[7 + id.size] != '.' ||
        parse_u64(view_of(at + 7 + id.size + 1), INT64_MAX, &range, NULL) != HF_OK)
        return -1;
    return (int64_t)range;
}

bool checked_made_for(const struct checked_chunk *output, struct view id, size_t range)
{
    const struct checked_lease *lease = output->lease;
    return lease && lease->source_count == 1 &&
           range_of(lease->sources[0], id) == (int64_t)range;
}

void checker_bad_range(struct catalog_checker *checker, const struct checked_chunk *name)
{
    for (const struct checked_doc *doc = checker->docs; doc; doc = doc->next)
        for (size_t i = 0; doc->now && i < doc->now->merge_count; i++) {
            const struct listed_merge *merge = &doc->now->merges[i];
            if (range_of(name, merge->id) < 0)
                continue;
            for (size_t k = 0; k < merge->source_count; k++)
                checked_chunk_of(checker, merge->sources[k])->leases_ended_badly++;
        }
}

/* The end of a lease is counted only once, so it adds at most one failed try for each source. A
 * lease whose merge had not begun, as far as it says, adds none. */
static void note_end(struct catalog_checker *checker, struct checked_lease *lease,
                     const struct leased *leased)
{
    bool died = view_equal(leased->status, VIEW("expired")) ||
                view_equal(leased->status, VIEW("broken"));
    lease->unbegun = leased->unbegun;
    bool bad = (died && !lease->unbegun) ||
               (view_equal(leased->status, VIEW("failed")) && leased->blame == LEASED_GROUP);
    lease->died |= died;
    lease->completed |= view_equal(leased->status, VIEW("completed"));
    if (bad && !lease->bad)
        for (size_t i = 0; i < lease->source_count; i++) {
            lease->sources[i]->leases_ended_badly++;
            checker_bad_range(checker, lease->sources[i]);
        }
    lease->bad |= bad;
}

void checker_merge_begins(struct catalog_checker *checker, struct view output)
{
    struct checked_lease *lease = checked_chunk_of(checker, output)->lease;
    bool marked = false;
    if (!lease)
        return;
    lease->began = true;
    for (size_t i = 0; i < lease->source_count; i++)
        marked |= lease->sources[i]->begin_marked;
    if (lease->must_say && marked && lease->unbegun && !lease->died)
        world_fail(
            catalog_world(checker),
            "the merge of %s begins, and its lease does not say so, although a worker may "
            "have died of its sources",
            lease->output->key);
}

/* When a lease is forgotten, an output that was put must have been settled. */
static void forget(struct catalog_checker *checker, struct checked_lease *lease)
{
    lease->forgotten = true;
    if (lease->output->was_put && !checked_is_settled(lease->output))
        world_fail(catalog_world(checker), "%s is not settled, and its lease is forgotten",
                   lease->output->key);
}

static struct checked_lease_table *table_of(struct catalog_checker *checker, struct view key)
{
    for (size_t i = 0; i < checker->table_count; i++)
        if (view_equal(view_of(checker->tables[i].key), key))
            return &checker->tables[i];
    checker->tables =
        checker_grow(checker->tables, checker->table_count, sizeof *checker->tables);
    struct checked_lease_table *table = &checker->tables[checker->table_count++];
    *table = (struct checked_lease_table){ .key = checked_copy(key) };
    return table;
}

void checker_leases_written(struct catalog_checker *checker, struct view key, struct view body)
{
    struct checked_lease_table *table = table_of(checker, key);
    size_t number = (size_t)(table - checker->tables);
    struct leases_version *now = leases_version_read(body.data ? body : VIEW("{}"));
    if (!now) {
        world_fail(catalog_world(checker), "%.*s is no lease table", VIEW_ARGS(key));
        return;
    }
    leases_version_free(table->now);
    table->now = now;
    for (size_t i = 0; i < now->count; i++) {
        struct checked_lease *lease = map_get(&checker->by_lease, now->leases[i].id);
        if (!lease)
            lease = lease_new(checker, &now->leases[i], number);
        lease->seen = true;
        note_end(checker, lease, &now->leases[i]);
    }
    for (size_t i = 0; i < checker->lease_count; i++) {
        struct checked_lease *lease = checker->leases[i];
        if (lease->table == number && !lease->seen && !lease->forgotten)
            forget(checker, lease);
        lease->seen = false;
    }
}
