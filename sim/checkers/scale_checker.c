/* SPDX-License-Identifier: Apache-2.0 */
/* scale_checker.c: what must be true of a fleet (scale.h). It keeps one record for each document
 * and for each lock, whatever the number of leases, because a run has millions of them. */
#include "base/check.h"
#include "base/layout.h"
#include "sim/checkers/table_checker.h"
#include "sim/workloads/scale.h"

#include <inttypes.h>
#include <stdlib.h>

#define CHECK_EVERY 64

/* A leader is waited for, so its lease is taken over after its ttl, the tolerance of clocks and
 * some time in which the store may be busy. */
#define OVER_SLACK SPAN_S(60)

struct scale_document {
    struct etag etag;
    uint64_t writes;
    struct view key;
    char space[];
};

struct scale_checker {
    struct scale *scale;
    struct bucket_watch watch;
    struct map documents;
};

static struct scale_document *document_of(struct scale_checker *checker, struct view key)
{
    struct scale_document *document = map_get(&checker->documents, key);
    void *old;
    if (document)
        return document;
    document = calloc(1, sizeof *document + key.size);
    check(document);
    memcpy(document->space, key.data, key.size);
    document->key = (struct view){ document->space, key.size };
    check(map_put(&checker->documents, document->key, document, &old));
    return document;
}

static bool is_table(struct view key)
{
    const struct view leaf = VIEW("/" LAYOUT_LEASES);
    return view_starts_with(key, VIEW("default/meta/")) ||
           (key.size > leaf.size && view_equal(view_from(key, key.size - leaf.size), leaf));
}

static void check_table(struct scale_checker *checker, const struct bucket_change *change)
{
    struct checked_version *version = checked_version_read(change->body, NULL);
    if (!version) {
        world_fail(checker->scale->run->world, "%.*s is not a table", VIEW_ARGS(change->key));
        return;
    }
    for (size_t i = 0; i < version->lease_count; i++)
        for (size_t j = 0; version->leases[i].active && j < i; j++)
            if (version->leases[j].active &&
                checked_conflict(&version->leases[i].wish, &version->leases[j].wish))
                world_fail(checker->scale->run->world,
                           "tokens %" PRIu64 " and %" PRIu64
                           " of %.*s conflict, and are active",
                           version->leases[j].token, version->leases[i].token,
                           VIEW_ARGS(change->key));
    checked_version_free(version);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct scale_checker *checker = argument;
    bool table = is_table(change->key);
    bool swapped = table || view_starts_with(change->key, VIEW(LAYOUT_EPOCH_FOLDER)) ||
                   view_starts_with(change->key, VIEW(LAYOUT_EPOCH_COPY_FOLDER));
    if (!swapped)
        return;
    struct scale_document *document = document_of(checker, change->key);
    if (!bucket_change_in_order(change, &document->etag) && change->body.data)
        world_fail(checker->scale->run->world,
                   "%.*s is written over a version that was not seen", VIEW_ARGS(change->key));
    if (table && change->body.data && document->writes++ % CHECK_EVERY == 0)
        check_table(checker, change);
}

struct scale_checker *scale_checker_new(struct scale *scale)
{
    struct scale_checker *checker = calloc(1, sizeof *checker);
    check(checker);
    checker->scale = scale;
    checker->watch = (struct bucket_watch){ .changed = changed, .argument = checker };
    bucket_add_watch(net_bucket(scale->run->net), &checker->watch);
    return checker;
}

void scale_checker_free(struct scale_checker *checker)
{
    struct scale_document *document;
    while ((document = map_seek(&checker->documents, VIEW(""), /* beyond */ false)))
        free(map_take(&checker->documents, document->key));
    map_release(&checker->documents);
    free(checker);
}

/* Whether the holder's process is running, and believes that it holds the lease. */
static bool believes(struct scale *scale, const struct scale_held *held)
{
    if (!held->lock || !node_is_up(held->node) || node_lives(held->node) != held->life)
        return false;
    world_begin_look(scale->run->world);
    bool believes = hf_lock_check(held->lock, NULL) == HF_OK;
    world_end_look(scale->run->world);
    return believes;
}

void scale_checker_granted(struct scale *scale, struct scale_held *held,
                           const struct one_client *self, struct hf_lock *lock)
{
    struct world *world = scale->run->world;
    uint64_t token = hf_lock_token(lock);
    if (believes(scale, held))
        world_fail(world, "worker %zu is granted what worker %zu still holds", self->index,
                   held->worker);
    if (token <= held->token)
        world_fail(world, "worker %zu is told token %" PRIu64 " after %" PRIu64, self->index,
                   token, held->token);
    *held = (struct scale_held){ .lock = lock,
                                 .node = self->node,
                                 .life = node_lives(self->node),
                                 .worker = self->index,
                                 .token = token };
}

void scale_checker_over(struct scale *scale, struct scale_held *held,
                        const struct hf_lock *lock, bool dies)
{
    if (held->lock != lock)
        return;
    held->lock = NULL;
    if (dies)
        held->died_us = world_now_us(scale->run->world);
}

/* A worker that holds the lease of a group has committed it, and so takes it off the catalog. */
void scale_checker_commit(struct scale *scale, struct scale_partition *partition,
                          uint64_t number)
{
    struct scale_group *group = scale_group_of(partition, number);
    if (!group) {
        world_fail(scale->run->world, "group %" PRIu64 " is committed twice", number);
        return;
    }
    *(group->previous ? &group->previous->next : &partition->first) = group->next;
    *(group->next ? &group->next->previous : &partition->last) = group->previous;
    partition->open--;
    struct heap *before = heap_enter(NULL);
    free(group);
    heap_enter(before);
}

void scale_checker_end(struct scale *scale)
{
    int64_t most_us = (int64_t)scale->options.lock_ttl_s * 1000000 + OVER_SLACK.us;
    for (size_t i = 0; i < scale->leader_count; i++)
        if (scale->leaders[i].died_us > 0 &&
            scale->ends_us - scale->leaders[i].died_us > most_us)
            world_fail(scale->run->world,
                       "leader %zu died, and nobody took over for %" PRId64 " s", i,
                       (scale->ends_us - scale->leaders[i].died_us) / 1000000);
}
