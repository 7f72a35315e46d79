/* SPDX-License-Identifier: Apache-2.0 */
/* lease_kit.c: settings, evidence and short calls for tests of the lease table, and its
 * invariants. */
#include "lease_kit.h"

#include "base/check.h"
#include "lease/table_inside.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>

#define KIT_SCOPES_MAX 64
#define KIT_NONCES     4096

struct lease_settings kit_settings(void)
{
    return (struct lease_settings){
        .drift_ppm = 200,
        .margin = SPAN_MS(100),
        .skew_tolerance = SPAN_S(2),
        .ttl_max = SPAN_S(3600),
        .late_bound = SPAN_S(24 * 3600),
    };
}

/* A ring is enough: evidence is short-lived, and a table copies what it keeps. */
static struct view fresh_nonce(void)
{
    static char ring[KIT_NONCES][NONCE_SIZE + 1];
    static uint64_t drawn;
    char *nonce = ring[drawn % KIT_NONCES];
    snprintf(nonce, NONCE_SIZE + 1, "%032" PRIx64, ++drawn);
    return view_of(nonce);
}

struct evidence kit_at_us(int64_t us)
{
    return (struct evidence){
        .now = { us },
        .time_known = true,
        .earliest = { us + KIT_CLOCK_OFFSET },
        .latest = { us + KIT_CLOCK_OFFSET },
        .clock = VIEW(KIT_CLOCK),
        .wall = { INT64_C(1770372000000000) + us },
        .nonce = fresh_nonce(),
    };
}

struct evidence kit_at(int64_t ms)
{
    return kit_at_us(ms * 1000);
}

struct lease_table *kit_table(void)
{
    struct lease_settings settings = kit_settings();
    struct hf_error error;
    struct lease_table *table = table_new(&settings, /* epoch */ 1, &error);
    assert_non_null(table);
    return table;
}

size_t kit_scopes(const char *texts, struct scope *ret_scopes, size_t max)
{
    size_t count = 0;
    struct view rest = view_of(texts);
    while (rest.size > 0) {
        struct hf_error error;
        assert_true(count < max);
        struct view one = view_cut(&rest, ' ');
        assert_status(HF_OK, scope_parse(one, &ret_scopes[count++], &error), &error);
    }
    return count;
}

/* The part of "<session>-<n>" before the number. */
static struct view session_of(const struct wish *wish)
{
    if (wish->session)
        return view_of(wish->session);
    const char *dash = strrchr(wish->id, '-');
    return dash ? (struct view){ wish->id, (size_t)(dash - wish->id) } : view_of(wish->id);
}

enum hf_status kit_acquire(struct lease_table *table, struct table_op *op,
                           struct evidence evidence, struct wish wish)
{
    struct scope scopes[KIT_SCOPES_MAX];
    struct lease_request wanted = {
        .id = view_of(wish.id),
        .holder = VIEW("tester"),
        .session = session_of(&wish),
        .output = view_of(wish.output ? wish.output : ""),
        .note = view_of(wish.note ? wish.note : ""),
        .wish.scopes = scopes,
        .wish.scope_count = kit_scopes(wish.scopes, scopes, KIT_SCOPES_MAX),
        .wish.mode = wish.mode,
        .wish.slots = wish.slots,
        .wish.ttl = { wish.ttl_us ? wish.ttl_us : 10000000 },
        .wish.poll = SPAN_MS(wish.poll_ms ? wish.poll_ms : 100),
    };
    *op = (struct table_op){ .kind = TABLE_ACQUIRE,
                             .wanted = &wanted,
                             .id = wanted.id,
                             .wait = wish.wait,
                             .once_per = wish.once_per,
                             .once_slack = wish.once_slack };
    enum hf_status status = table_apply(table, op, &evidence);
    op->wanted = NULL;
    return status;
}

enum hf_status kit_do(struct lease_table *table, struct table_op *op, struct evidence evidence,
                      enum table_op_kind kind, const char *id, uint64_t token)
{
    *op = (struct table_op){ .kind = kind,
                             .id = view_of(id),
                             .token = token,
                             .by = VIEW("operator"),
                             .note = kind == TABLE_BREAK ? VIEW("\"a reason\"") : VIEW("") };
    return table_apply(table, op, &evidence);
}

enum hf_status kit_barrier(struct lease_table *table, struct table_op *op,
                           struct evidence evidence, const char *id, int64_t ttl_us,
                           uint64_t epoch)
{
    struct lease_request wanted = { .id = view_of(id),
                                    .holder = VIEW("barrier"),
                                    .session = view_of(id),
                                    .wish.ttl = { ttl_us } };
    *op = (struct table_op){
        .kind = TABLE_BARRIER, .wanted = &wanted, .id = wanted.id, .epoch = epoch
    };
    enum hf_status status = table_apply(table, op, &evidence);
    op->wanted = NULL;
    return status;
}

struct buffer kit_encode(const struct lease_table *table)
{
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    /* Tests change the text, so it has no checksum, like that of an earlier version. */
    assert_true(table_encode(table, view_first(fresh_nonce(), KIT_WRITE_SIZE), &text));
    return text;
}

static struct lease_table *reload(struct lease_table *table, int64_t arrived_ms, bool afresh)
{
    struct lease_table *again = NULL;
    struct hf_error error;
    struct buffer text = kit_encode(table);
    assert_status(HF_OK,
                  table_decode(buffer_view(&text), (struct mono_time){ arrived_ms * 1000 },
                               afresh ? NULL : table, &again, &error),
                  &error);
    buffer_release(&text);
    table_free(table);
    return again;
}

struct lease_table *kit_reload(struct lease_table *table, int64_t arrived_ms)
{
    return reload(table, arrived_ms, /* afresh */ false);
}

struct lease_table *kit_reload_afresh(struct lease_table *table, int64_t arrived_ms)
{
    return reload(table, arrived_ms, /* afresh */ true);
}

const struct lease *kit_lease(const struct lease_table *table, const char *id)
{
    return table_find(table, view_of(id));
}

const struct waiter *kit_waiter(const struct lease_table *table, const char *id)
{
    return table_find_waiter(table, view_of(id));
}

size_t kit_active(const struct lease_table *table)
{
    size_t count = 0;
    for (size_t i = 0; i < table->lease_count; i++)
        count += table->leases[i]->status == LEASE_ACTIVE;
    return count;
}

/* ---- Invariants ---------------------------------------------------------------------- */

/* No two active leases conflict, except slots up to their number, and leases that a barrier
 * found. */
static void check_exclusion(const struct lease_table *table, size_t index)
{
    const struct lease *lease = table->leases[index];
    uint64_t sharing = 1;
    for (size_t i = 0; i < index; i++) {
        const struct lease *other = table->leases[i];
        if (other->status != LEASE_ACTIVE || other->wish.scope_count == 0 ||
            !wishes_conflict(&other->wish, &lease->wish))
            continue;
        check(lease->wish.mode == LEASE_SLOTS && other->wish.mode == LEASE_SLOTS);
        check(++sharing <= lease->wish.slots);
    }
}

static void check_waiter(const struct lease_table *table, size_t index)
{
    const struct waiter *waiter = &table->waiters[index];
    size_t named = queue_turn_width(table->missed);
    struct view blocker;
    check(!table_find(table, waiter->wanted->asked.id));
    check(table_find_waiter(table, waiter->wanted->asked.id) == waiter);
    check(waiter->reserved ==
          (!queue_active_blocks(table, &waiter->wanted->asked.wish, &blocker) &&
           queue_waiters_before(table, &waiter->wanted->asked.wish, index, named) < named));
}

void table_check(const struct lease_table *table)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        check(lease->token < table->next_token || table->adopted);
        check(table_find(table, lease->id) == lease);
        if (lease->status == LEASE_ACTIVE && lease->wish.scope_count > 0)
            check_exclusion(table, i);
    }
    for (size_t i = 0; i < table->waiter_count; i++)
        check_waiter(table, i);
}
