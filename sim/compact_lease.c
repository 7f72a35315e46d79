/* compact_lease.c: the lease tables of chunks, as far as compaction is judged by them: who is to
 * make what of what, how that ended, and what was forgotten. Whether leases exclude each other is
 * the judge of locks' business. */
#include "sim/compact_judge.h"
#include "sim/judge_inside.h"

#include <stdlib.h>

static struct judged_lease *lease_new(struct judge_catalog *judge, const struct leased *leased,
                                      size_t table)
{
    struct net_sender sender = net_sender(judge->run->net);
    struct judged_lease *lease = judge_allocate(sizeof *lease);
    lease->id = judged_copy(leased->id);
    lease->output = judged_chunk_of(judge, leased->output);
    lease->owner = sender.node;
    lease->owner_life = sender.life;
    lease->table = table;
    for (size_t i = 0; i < leased->source_count; i++)
        lease->sources[lease->source_count++] = judged_chunk_of(judge, leased->sources[i]);
    judge->leases = judge_grow(judge->leases, judge->lease_count, sizeof(void *));
    judge->leases[judge->lease_count++] = lease;
    judged_map_put(&judge->by_lease, view_of(lease->id), lease);
    if (lease->output->lease || judged_is_settled(lease->output) || lease->output->was_put)
        world_fail(catalog_world(judge), "%s is to be made by a lease, and is not a new name",
                   lease->output->key);
    lease->output->lease = lease;
    if (lease->output->drawn_us < 0)
        lease->output->drawn_us = catalog_now_us(judge);
    return lease;
}

/* How a lease ended is told once; a source has a try more at most. */
static void note_end(struct judged_lease *lease, const struct leased *leased)
{
    bool died = view_equal(leased->status, VIEW("expired")) ||
                view_equal(leased->status, VIEW("broken"));
    bool bad =
        died || (view_equal(leased->status, VIEW("failed")) && leased->blame == LEASED_GROUP);
    lease->died |= died;
    lease->completed |= view_equal(leased->status, VIEW("completed"));
    if (bad && !lease->bad)
        for (size_t i = 0; i < lease->source_count; i++)
            lease->sources[i]->leases_ended_badly++;
    lease->bad |= bad;
}

/* An output that is there, or may come to be there, must have been settled by then. */
static void forget(struct judge_catalog *judge, struct judged_lease *lease)
{
    lease->forgotten = true;
    if (lease->output->was_put && !judged_is_settled(lease->output))
        world_fail(catalog_world(judge), "%s is not settled, and its lease is forgotten",
                   lease->output->key);
}

static struct judged_lease_table *table_of(struct judge_catalog *judge, struct view key)
{
    for (size_t i = 0; i < judge->table_count; i++)
        if (view_equal(view_of(judge->tables[i].key), key))
            return &judge->tables[i];
    judge->tables = judge_grow(judge->tables, judge->table_count, sizeof *judge->tables);
    struct judged_lease_table *table = &judge->tables[judge->table_count++];
    *table = (struct judged_lease_table){ .key = judged_copy(key) };
    return table;
}

void judge_leases_written(struct judge_catalog *judge, struct view key, struct view body)
{
    struct judged_lease_table *table = table_of(judge, key);
    size_t number = (size_t)(table - judge->tables);
    struct leases_version *now = body.data ? leases_version_read(body) : NULL;
    if (!now) {
        world_fail(catalog_world(judge), "%.*s is no lease table", VIEW_ARGS(key));
        return;
    }
    leases_version_free(table->now);
    table->now = now;
    for (size_t i = 0; i < now->count; i++) {
        struct judged_lease *lease = map_get(&judge->by_lease, now->leases[i].id);
        if (!lease)
            lease = lease_new(judge, &now->leases[i], number);
        lease->seen = true;
        note_end(lease, &now->leases[i]);
    }
    for (size_t i = 0; i < judge->lease_count; i++) {
        struct judged_lease *lease = judge->leases[i];
        if (lease->table == number && !lease->seen && !lease->forgotten)
            forget(judge, lease);
        lease->seen = false;
    }
}
