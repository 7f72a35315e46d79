/* SPDX-License-Identifier: Apache-2.0 */
/* lease_range_test.c [OPERATIONS]: ranges of one inode, held and waited for at random, compared
 * with an array of bytes that records the readers and the writer of each, and a list of
 * arrivals. */
#include "base/parse.h"
#include "base/prng.h"
#include "lease_kit.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define OPERATIONS 50000
#define BYTES      96 /* and one more, which stands for all beyond */
#define HELD_MAX   24
#define WAIT_MAX   12

static uint64_t operations = OPERATIONS;

struct drawn {
    char id[24];
    uint64_t token;
    size_t start, end;
    bool shared;
    struct scope scope;
};

struct model {
    struct prng prng;
    unsigned readers[BYTES + 1];
    bool writer[BYTES + 1];
    struct drawn held[HELD_MAX + WAIT_MAX];
    size_t held_count;
    struct drawn queue[WAIT_MAX];
    size_t queue_count;
    uint64_t last_token;
    uint64_t number;
    size_t granted, queued, claimed, refused;
};

/* ---- The model ----------------------------------------------------------------------- */

static bool bytes_are_free(const struct model *m, const struct drawn *w)
{
    for (size_t i = w->start; i < w->end; i++)
        if (m->writer[i] || (!w->shared && m->readers[i] > 0))
            return false;
    return true;
}

/* Whether one of the first `count` who wait wants a byte that this one wants, not both to read. */
static bool has_one_before(const struct model *m, const struct drawn *w, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct drawn *other = &m->queue[i];
        if (other->start < w->end && w->start < other->end && !(other->shared && w->shared))
            return true;
    }
    return false;
}

static bool has_turn(const struct model *m, size_t place)
{
    return bytes_are_free(m, &m->queue[place]) && !has_one_before(m, &m->queue[place], place);
}

static void mark(struct model *m, const struct drawn *w, bool take)
{
    for (size_t i = w->start; i < w->end; i++) {
        if (w->shared)
            m->readers[i] += take ? 1u : -1u;
        else
            m->writer[i] = take;
    }
}

static void hold(struct model *m, const struct drawn *w, uint64_t token)
{
    assert_true(token > m->last_token);
    m->last_token = token;
    m->held[m->held_count] = *w;
    m->held[m->held_count++].token = token;
    mark(m, w, true);
    m->granted++;
}

static void let_go(struct model *m, size_t index)
{
    mark(m, &m->held[index], false);
    m->held[index] = m->held[--m->held_count];
}

static void leave_queue(struct model *m, size_t place)
{
    memmove(&m->queue[place], &m->queue[place + 1],
            (--m->queue_count - place) * sizeof m->queue[0]);
}

/* A range, one that goes to the end, or the whole inode. */
static void draw_wanted(struct model *m, struct drawn *ret)
{
    uint64_t kind = prng_below(&m->prng, 20);
    *ret = (struct drawn){ .shared = prng_below(&m->prng, 2),
                           .start = (size_t)prng_below(&m->prng, BYTES),
                           .scope = { .kind = SCOPE_RANGE, .inode = 7 } };
    snprintf(ret->id, sizeof ret->id, "s-%" PRIu64, m->number++);
    ret->end = ret->start + 1 + (size_t)prng_below(&m->prng, 12);
    if (ret->end > BYTES || kind < 2)
        ret->end = BYTES + 1;
    if (kind == 0) {
        ret->start = 0;
        ret->scope.kind = SCOPE_INODE;
        return;
    }
    ret->scope.start = ret->start;
    ret->scope.end = ret->end > BYTES ? SCOPE_END : ret->end;
}

/* ---- Operations ---------------------------------------------------------------------- */

static void acquire(struct lease_table *table, struct model *m, bool wait)
{
    struct drawn w;
    draw_wanted(m, &w);
    struct lease_request fields = { .id = view_of(w.id),
                                    .session = VIEW("s"),
                                    .holder = VIEW("h"),
                                    .wish.scopes = &w.scope,
                                    .wish.scope_count = 1,
                                    .wish.ttl = SPAN_S(3600),
                                    .wish.poll = SPAN_MS(100),
                                    .wish.mode = w.shared ? LEASE_SHARED : LEASE_EXCLUSIVE };
    struct table_op op = { .kind = TABLE_ACQUIRE, .wanted = &fields, .wait = wait };
    struct evidence evidence = kit_at(0);
    enum hf_status status = table_apply(table, &op, &evidence);
    bool free = bytes_are_free(m, &w) && !has_one_before(m, &w, m->queue_count);
    if (status != (free || wait ? HF_OK : HF_HELD))
        fail_msg("%s: %s", w.id, hf_status_name(status));
    if (free) {
        assert_int_equal(op.outcome, TABLE_GRANTED);
        hold(m, &w, op.granted);
    } else if (wait) {
        assert_int_equal(op.outcome, TABLE_QUEUED);
        assert_int_equal(op.position, m->queue_count);
        m->queue[m->queue_count++] = w;
        m->queued++;
    } else {
        m->refused++;
    }
}

static void release(struct lease_table *table, struct model *m)
{
    size_t index = (size_t)prng_below(&m->prng, m->held_count);
    struct drawn *w = &m->held[index];
    struct table_op op;
    bool cancel = prng_below(&m->prng, 50) == 0;
    assert_status(HF_OK,
                  kit_do(table, &op, kit_at(0), cancel ? TABLE_CANCEL : TABLE_RELEASE, w->id,
                         w->token),
                  &op.error);
    let_go(m, index);
}

static void claim_or_cancel(struct lease_table *table, struct model *m)
{
    size_t place = (size_t)prng_below(&m->prng, m->queue_count);
    struct drawn w = m->queue[place];
    struct table_op op;
    bool cancel = prng_below(&m->prng, 10) == 0, turn = has_turn(m, place);
    assert_status(HF_OK,
                  kit_do(table, &op, kit_at(0), cancel ? TABLE_CANCEL : TABLE_CLAIM, w.id, 0),
                  &op.error);
    if (!cancel)
        assert_int_equal(op.outcome, turn ? TABLE_GRANTED : TABLE_QUEUED);
    if (!cancel && !turn)
        return;
    leave_queue(m, place);
    if (!cancel) {
        hold(m, &w, op.granted);
        m->claimed++;
    }
}

static void step(struct lease_table *table, struct model *m)
{
    uint64_t luck = prng_below(&m->prng, 100);
    if (luck < 55 && m->held_count < HELD_MAX)
        acquire(table, m, /* wait */ luck < 5 && m->queue_count < WAIT_MAX);
    else if (luck < 70 && m->queue_count > 0)
        claim_or_cancel(table, m);
    else if (m->held_count > 0)
        release(table, m);
}

static void assert_same(const struct lease_table *table, const struct model *m)
{
    assert_int_equal(kit_active(table), m->held_count);
    assert_int_equal(table->waiter_count, m->queue_count);
    for (size_t i = 0; i < m->queue_count; i++) {
        const struct waiter *waiter = &table->waiters[i];
        assert_true(view_equal(waiter->wanted->asked.id, view_of(m->queue[i].id)));
        if (waiter->reserved != has_turn(m, i))
            fail_msg("%s: its turn is %d", m->queue[i].id, waiter->reserved);
    }
}

static void ranges_follow_the_bytes(void **state)
{
    (void)state;
    static struct model model;
    model = (struct model){ .prng = prng_seeded(17) };
    struct lease_table *table = kit_table();
    clock_t began = clock();
    for (uint64_t i = 0; i < operations; i++) {
        step(table, &model);
        assert_same(table, &model);
        if (i % 64 == 0)
            table_check(table);
        if (i % 500 == 0)
            table = i % 1000 ? kit_reload(table, 0) : kit_reload_afresh(table, 0);
    }
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    print_message("# %" PRIu64 " operations in %.1f s: %zu granted, %zu of them after waiting, "
                  "%zu refused, %zu waited\n",
                  operations, seconds, model.granted, model.claimed, model.refused,
                  model.queued);
    assert_true(model.granted > operations / 10 && model.refused > operations / 20);
    assert_true(model.claimed > operations / 200);
    table_free(table);
}

int main(int argc, char **argv)
{
    if (argc > 1 && parse_u64(view_of(argv[1]), UINT32_MAX, &operations, NULL) != HF_OK)
        return 2;
    const struct CMUnitTest tests[] = {
        IT("ranges, held and waited for, follow an array of bytes", ranges_follow_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
