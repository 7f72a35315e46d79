/* SPDX-License-Identifier: Apache-2.0 */
/* ladder.c: rendezvous hashing, and the steps of the ladder. They avoid duplicate work without
 * messages. No data depends on them: two leaders only waste work. Pure. */
#include "elect/ladder.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/rule.h"

#include <stdlib.h>

static int compare_writers(const void *a, const void *b)
{
    return view_compare(((const struct work_writer *)a)->writer,
                        ((const struct work_writer *)b)->writer);
}

enum hf_status work_sort(struct work_writer *writers, size_t count, struct hf_error *error)
{
    if (count > 1)
        qsort(writers, count, sizeof *writers, compare_writers);
    for (size_t i = 1; i < count; i++)
        if (view_equal(writers[i - 1].writer, writers[i].writer))
            return error_set(error, HF_INVALID, "'%.*s' is given twice",
                             VIEW_ARGS(view_first(writers[i].writer, 60)));
    return HF_OK;
}

static void add_number(struct hash_stream *stream, uint64_t number)
{
    char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(number >> 8 * i & 0xff);
    hash_stream_add(stream, (struct view){ bytes, sizeof bytes });
}

uint64_t ladder_score(struct view fingerprint, const struct work *work)
{
    check(work->base > 0);
    struct hash_stream stream;
    hash_stream_init(&stream);
    hash_stream_add(&stream, fingerprint);
    add_number(&stream, work->level);
    for (size_t i = 0; i < work->writer_count; i++) {
        hash_stream_add(&stream, work->writers[i].writer);
        add_number(&stream, work->writers[i].sequence / work->base);
    }
    return hash_stream_xxh3(&stream);
}

bool ladder_before(const struct rung *a, const struct rung *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return RULE(TIES_BY_FINGERPRINT) && view_compare(a->fingerprint, b->fingerprint) < 0;
}

static struct rung rung_of(struct view fingerprint, const struct work *work)
{
    return (struct rung){ ladder_score(fingerprint, work), fingerprint };
}

size_t ladder_rank(const struct view *fingerprints, size_t count, struct view own,
                   const struct work *work)
{
    struct rung mine = rung_of(own, work);
    size_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        struct rung other = rung_of(fingerprints[i], work);
        if (!view_equal(fingerprints[i], own) && ladder_before(&other, &mine))
            rank++;
    }
    return rank;
}

/* One pass of Shell's sort. */
static void sort_by_gap(const struct view *fingerprints, size_t count, const struct work *work,
                        size_t gap, size_t *order)
{
    for (size_t i = gap; i < count; i++) {
        size_t moved = order[i], at = i;
        struct rung rung = rung_of(fingerprints[moved], work);
        for (; at >= gap; at -= gap) {
            struct rung above = rung_of(fingerprints[order[at - gap]], work);
            if (!ladder_before(&rung, &above))
                break;
            order[at] = order[at - gap];
        }
        order[at] = moved;
    }
}

/* Sorts in place, and computes the scores in each comparison, so that nothing is allocated. */
void ladder_order(const struct view *fingerprints, size_t count, const struct work *work,
                  size_t *ret_order)
{
    size_t gap = 1;
    for (size_t i = 0; i < count; i++)
        ret_order[i] = i;
    while (gap < count / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        sort_by_gap(fingerprints, count, work, gap, ret_order);
}

struct span ladder_delay(size_t rank, struct span step)
{
    check(step.us >= 0);
    bool fits = step.us == 0 || rank <= (size_t)(MOMENT_FAR / step.us);
    return SPAN_US(fits ? (int64_t)rank * step.us : MOMENT_FAR);
}

struct span ladder_age(struct span since_due, struct span since_seen)
{
    bool by_document = RULE(DUE_IN_THE_DOCUMENT) && since_due.us > since_seen.us;
    return by_document ? since_due : since_seen;
}

bool ladder_may_start(size_t rank, struct span step, struct span age)
{
    bool early = RULE(LADDER_WAITS) && age.us < ladder_delay(rank, step).us;
    return !early;
}

struct span ladder_left(size_t rank, struct span step, struct span age)
{
    int64_t left = ladder_delay(rank, step).us - age.us;
    return SPAN_US(left > 0 ? left : 0);
}

bool ladder_guard(bool still_due)
{
    bool done_meanwhile = RULE(GUARD_BEFORE_WORK) && !still_due;
    return !done_meanwhile;
}
