/* SPDX-License-Identifier: Apache-2.0 */
/* lease_model_test.c: compares the table with an independent model: a random walk of several
 * clients, with lost replies and clocks that disagree, against a list of holders and of the
 * order of waiters. Also measures how long a change of a large table takes. */
#include "base/prng.h"
#include "lease_kit.h"
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- The random walk ----------------------------------------------------------------- */

#define STEPS   30000
#define CLIENTS 6
#define HANDLES 18
#define GRANTS  512 /* remembered; the oldest are long over */
#define SKEW_US 2000000.0

/* What is asked for, as bytes: bits 0..47 of an inode, 48 all beyond, 63 the semaphore. */
struct request {
    char id[24];
    uint64_t bits;
    enum lease_mode mode;
    struct scope scope;
    int64_t ttl_us;
};

/* A grant as the model knows it. */
struct granted {
    struct request request;
    uint64_t token;
    double valid_until; /* true time, at the most that its holder may think */
    bool active;        /* in the document */
};

struct handle {
    enum { IDLE, UNSURE, WAITING, HOLDING } state;
    int client;
    struct request request;
    uint64_t token;
};

struct client {
    double rate, start;
    struct lease_table *seen;
};

struct walk {
    struct prng prng;
    double now; /* true time, in microseconds */
    struct buffer document;
    struct client clients[CLIENTS];
    struct handle handles[HANDLES];
    struct granted grants[GRANTS];
    size_t grant_count;
    struct request queue[HANDLES * 4];
    size_t queue_count;
    unsigned missed;
    uint64_t last_token;
    int ids;
    size_t granted, claimed, expired, dropped, lost_replies, overtaken;
};

static double draw(struct walk *w, double low, double high)
{
    return low + (high - low) * (double)prng_below(&w->prng, 1000001) / 1e6;
}

static bool in_the_way(const struct request *a, const struct request *b)
{
    bool together = a->mode == b->mode && a->mode != LEASE_EXCLUSIVE;
    return (a->bits & b->bits) && !together;
}

static struct evidence client_knows(struct walk *w, int client)
{
    struct evidence evidence = kit_at(0);
    const struct client *c = &w->clients[client];
    double reply = w->now + 1e12 + draw(w, -SKEW_US / 2, SKEW_US / 2);
    evidence.now.us = (int64_t)floor(c->start + w->now * c->rate);
    evidence.earliest.us = (int64_t)floor(reply - draw(w, 0, 500000));
    evidence.latest.us = (int64_t)ceil(reply + draw(w, 0, 500000));
    evidence.time_known = prng_below(&w->prng, 5) != 0;
    return evidence;
}

static void draw_request(struct walk *w, int client, struct request *ret)
{
    *ret = (struct request){ .ttl_us = 1000 * (500 + (int64_t)prng_below(&w->prng, 4000)) };
    snprintf(ret->id, sizeof ret->id, "c%d-%d", client, w->ids++);
    if (prng_below(&w->prng, 5) == 0) {
        ret->mode = LEASE_SLOTS;
        ret->bits = UINT64_C(1) << 63;
        ret->scope = (struct scope){ .kind = SCOPE_NAMED, .name = VIEW("s") };
        return;
    }
    uint64_t start = prng_below(&w->prng, 48), size = 1 + prng_below(&w->prng, 20);
    bool to_end = start + size > 48;
    ret->mode = prng_below(&w->prng, 2) ? LEASE_SHARED : LEASE_EXCLUSIVE;
    ret->scope = (struct scope){ .kind = SCOPE_RANGE,
                                 .inode = 3,
                                 .start = start,
                                 .end = to_end ? SCOPE_END : start + size };
    uint64_t end = to_end ? 49 : start + size;
    ret->bits = ((UINT64_C(1) << end) - 1) & ~((UINT64_C(1) << start) - 1);
}

/* ---- What the model thinks of a change that was written ------------------------------ */

static struct granted *find_grant(struct walk *w, struct view id)
{
    for (size_t i = 0; i < w->grant_count; i++)
        if (view_equal(view_of(w->grants[i].request.id), id))
            return &w->grants[i];
    return NULL;
}

static double holder_end(double t0, int64_t ttl_us)
{
    /* By the slowest clock that a holder may have, from the moment it began. */
    return t0 + ((double)ttl_us * (1 - 200e-6) - 100000) / (1 - 100e-6);
}

static void model_leaves_queue(struct walk *w, size_t index)
{
    memmove(&w->queue[index], &w->queue[index + 1],
            (--w->queue_count - index) * sizeof w->queue[0]);
}

static size_t model_place(const struct walk *w, const char *id)
{
    size_t i = 0;
    while (i < w->queue_count && strcmp(w->queue[i].id, id) != 0)
        i++;
    return i;
}

/* Nobody else may think that it holds what is granted; no other token was as high. */
static void model_grant(struct walk *w, const struct request *request, uint64_t token)
{
    unsigned sharing = 0;
    assert_true(token > w->last_token);
    w->last_token = token;
    for (size_t i = 0; i < w->grant_count; i++) {
        const struct granted *g = &w->grants[i];
        if (g->active && g->valid_until > w->now && in_the_way(&g->request, request))
            fail_msg("%s and %s hold at once", g->request.id, request->id);
        sharing += g->active && g->request.mode == LEASE_SLOTS;
    }
    assert_true(request->mode != LEASE_SLOTS || sharing < 2);
    size_t at = w->grant_count;
    if (at == GRANTS) {
        for (at = 0; w->grants[at].active;)
            at++;
    } else {
        w->grant_count++;
    }
    w->grants[at] = (struct granted){ .request = *request,
                                      .token = token,
                                      .active = true,
                                      .valid_until = holder_end(w->now, request->ttl_us) };
    w->granted++;
}

/* A newcomer is granted only what nobody waits for; a waiter only past fewer than 16^missed. */
static void model_order(struct walk *w, const struct request *request, size_t place)
{
    size_t before = 0;
    for (size_t i = 0; i < place; i++)
        before += in_the_way(&w->queue[i], request);
    bool waited = place < w->queue_count;
    unsigned bits = 4 * w->missed;
    if (before >= (waited ? (size_t)1 << (bits < 12 ? bits : 12) : 1))
        fail_msg("%s came before %zu others", request->id, before);
    w->overtaken += before;
}

static void model_took(struct walk *w, const struct request *request, const struct table_op *op)
{
    size_t place = model_place(w, request->id);
    if (op->outcome == TABLE_QUEUED && place == w->queue_count) {
        w->queue[w->queue_count++] = *request;
        return;
    }
    if (op->outcome != TABLE_GRANTED)
        return;
    struct granted *known = find_grant(w, view_of(request->id));
    assert_int_equal(known != NULL, op->already);
    if (known) {
        assert_true(known->token == op->granted);
        return;
    }
    model_order(w, request, place);
    if (place < w->queue_count) {
        model_leaves_queue(w, place);
        w->claimed++;
    }
    model_grant(w, request, op->granted);
}

/* Every lease that is no longer active was ended by this operation, or past its holder. */
static void model_ends(struct walk *w, const struct lease_table *table, const char *asked)
{
    for (size_t i = 0; i < w->grant_count; i++) {
        struct granted *g = &w->grants[i];
        const struct lease *lease = g->active ? kit_lease(table, g->request.id) : NULL;
        if (!g->active || (lease && lease->status == LEASE_ACTIVE))
            continue;
        bool meant = asked && strcmp(asked, g->request.id) == 0;
        g->active = false;
        if (!meant && g->valid_until > w->now)
            fail_msg("%s was ended %.0f us too early", g->request.id, g->valid_until - w->now);
        w->expired += !meant;
    }
    bool dropped = false;
    for (size_t i = w->queue_count; i-- > 0;) {
        const char *id = w->queue[i].id;
        if (kit_waiter(table, id) || kit_lease(table, id))
            continue;
        bool meant = asked && strcmp(asked, id) == 0;
        model_leaves_queue(w, i);
        dropped |= !meant;
        w->dropped += !meant;
    }
    w->missed += dropped;
}

static void model_is_the_same(const struct walk *w, const struct lease_table *table)
{
    size_t active = 0;
    for (size_t i = 0; i < w->grant_count; i++)
        active += w->grants[i].active;
    assert_int_equal(active, kit_active(table));
    assert_int_equal(w->queue_count, table->waiter_count);
    for (size_t i = 0; i < w->queue_count; i++)
        assert_true(view_equal(view_of(w->queue[i].id), table->waiters[i].wanted->asked.id));
}

static void model_written(struct walk *w, const struct lease_table *table,
                          const struct table_op *op, const struct request *request,
                          enum hf_status status)
{
    bool ends = status == HF_OK && op->outcome == TABLE_ENDED;
    model_ends(w, table, ends ? request->id : NULL);
    if (status == HF_OK && (op->kind == TABLE_ACQUIRE || op->kind == TABLE_CLAIM))
        model_took(w, request, op);
    struct granted *known = find_grant(w, view_of(request->id));
    if (status == HF_OK && op->kind == TABLE_RENEW) {
        assert_true(known && known->active && known->token == op->granted);
        if (known) /* at -O3, the compiler asks */
            known->valid_until = holder_end(w->now, request->ttl_us);
    }
    model_is_the_same(w, table);
    w->missed = table->missed; /* a claim by the first in line has cleared it */
}

/* ---- One operation of one client ----------------------------------------------------- */

static struct lease_table *load(const struct walk *w, struct mono_time arrived,
                                const struct lease_table *previous)
{
    struct lease_table *table = NULL;
    struct hf_error error;
    assert_status(HF_OK,
                  table_decode(buffer_view(&w->document), arrived, previous, &table, &error),
                  &error);
    return table;
}

/* Loads, applies and writes, with luck. True when the client knows what came of it. */
static bool attempt(struct walk *w, int client, struct table_op *op,
                    const struct request *request, enum hf_status *ret_status)
{
    struct evidence evidence = client_knows(w, client);
    struct client *c = &w->clients[client];
    struct scope scope = request->scope;
    struct lease_request wanted = { .id = view_of(request->id),
                                    .session = { request->id, 2 },
                                    .holder = VIEW("h"),
                                    .wish.scopes = &scope,
                                    .wish.scope_count = 1,
                                    .wish.mode = request->mode,
                                    .wish.slots = request->mode == LEASE_SLOTS ? 2 : 0,
                                    .wish.ttl = { request->ttl_us },
                                    .wish.poll = SPAN_MS(200) };
    struct lease_table *before = load(w, evidence.now, c->seen);
    struct lease_table *table = load(w, evidence.now, before);
    table_free(c->seen);
    op->wanted = &wanted;
    op->id = wanted.id;
    *ret_status = table_apply(table, op, &evidence);
    table_check(table);
    bool written = !op->changed || prng_below(&w->prng, 10) != 0;
    bool answered = written && prng_below(&w->prng, 10) != 0;
    if (written) {
        if (op->changed)
            buffer_clear(&w->document);
        assert_true(!op->changed || table_encode(table, evidence.nonce, &w->document));
        model_written(w, table, op, request, *ret_status);
    }
    /* What was not written is thrown away. */
    c->seen = written ? table : before;
    table_free(written ? before : table);
    w->lost_replies += !answered;
    return answered;
}

static void ask(struct walk *w, struct handle *h, enum table_op_kind kind)
{
    struct table_op op = { .kind = kind, .wait = prng_below(&w->prng, 3) > 0 };
    enum hf_status status;
    bool was_waiting = h->state == WAITING;
    h->state = was_waiting ? WAITING : UNSURE;
    if (!attempt(w, h->client, &op, &h->request, &status))
        return;
    if (status == HF_OK) {
        assert_true(op.outcome == TABLE_GRANTED || op.outcome == TABLE_QUEUED);
        h->state = op.outcome == TABLE_GRANTED ? HOLDING : WAITING;
        h->token = op.granted;
    } else {
        assert_true(status == HF_LOST || (status == HF_HELD && !was_waiting));
        h->state = IDLE;
    }
}

/* Ends it, or tries to; without an answer the holder walks away and leaves it to time. */
static void end(struct walk *w, struct handle *h, enum table_op_kind kind)
{
    struct table_op op = { .kind = kind, .token = h->token };
    enum hf_status status;
    if (attempt(w, h->client, &op, &h->request, &status))
        assert_true(status == HF_OK || status == HF_LOST ||
                    (status == HF_UNAVAILABLE && op.needs_time));
    h->state = IDLE;
}

static void renew(struct walk *w, struct handle *h)
{
    struct table_op op = { .kind = TABLE_RENEW, .token = h->token };
    enum hf_status status;
    if (attempt(w, h->client, &op, &h->request, &status) && status != HF_OK) {
        assert_int_equal(status, HF_LOST);
        h->state = IDLE;
    }
}

static void bystander(struct walk *w)
{
    struct request nobody = { .id = "zz-0", .ttl_us = 1000000 };
    struct table_op op = { .kind = TABLE_SCAVENGE };
    enum hf_status status;
    attempt(w, (int)prng_below(&w->prng, CLIENTS), &op, &nobody, &status);
    assert_int_equal(status, HF_OK);
}

static void break_some(struct walk *w)
{
    struct granted *g = &w->grants[prng_below(&w->prng, w->grant_count + 1)];
    struct table_op op = { .kind = TABLE_BREAK, .token = g->token, .by = VIEW("x") };
    enum hf_status status;
    if (g == &w->grants[w->grant_count])
        return;
    struct request broken = g->request;
    attempt(w, (int)prng_below(&w->prng, CLIENTS), &op, &broken, &status);
    assert_true(status == HF_OK || status == HF_LOST);
}

static void step(struct walk *w)
{
    static const enum table_op_kind ends[] = { TABLE_RELEASE, TABLE_COMPLETE, TABLE_FAIL };
    struct handle *h = &w->handles[prng_below(&w->prng, HANDLES)];
    uint64_t luck = prng_below(&w->prng, 100);
    w->now += draw(w, 0, luck == 7 ? 6e6 : 60000);
    if (luck < 4) {
        bystander(w);
    } else if (luck < 5) {
        break_some(w);
    } else if (h->state == IDLE) {
        draw_request(w, h->client, &h->request);
        ask(w, h, TABLE_ACQUIRE);
    } else if (h->state == UNSURE) {
        ask(w, h, TABLE_ACQUIRE);
    } else if (h->state == WAITING && luck < 90) {
        ask(w, h, TABLE_CLAIM);
    } else if (h->state == WAITING) {
        end(w, h, TABLE_CANCEL);
    } else if (luck < 50) {
        renew(w, h);
    } else if (luck < 95) {
        end(w, h, ends[luck % 3]);
    } else {
        h->state = IDLE; /* it died */
    }
}

static void clients_walk_at_random(void **state)
{
    (void)state;
    struct walk *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->prng = prng_seeded(23);
    w->document = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct lease_table *table = kit_table();
    assert_true(table_encode(table, VIEW("n"), &w->document));
    table_free(table);
    for (int i = 0; i < CLIENTS; i++)
        w->clients[i] =
            (struct client){ .rate = 1 + draw(w, -100e-6, 100e-6), .start = draw(w, 0, 1e12) };
    for (int i = 0; i < HANDLES; i++)
        w->handles[i].client = i % CLIENTS;
    double began = cpu_seconds();
    for (int i = 0; i < STEPS; i++)
        step(w);
    print_message(
        "# %d steps, %.0f a second: %zu granted, %zu of them after waiting, %zu expired, "
        "%zu dropped, %zu overtaken, %zu replies lost\n",
        STEPS, STEPS / (cpu_seconds() - began), w->granted, w->claimed, w->expired, w->dropped,
        w->overtaken, w->lost_replies);
    assert_true(w->granted > 1000 && w->claimed > 500 && w->expired > 100);
    assert_true(w->dropped > 10 && w->overtaken > 0 && w->lost_replies > 1000);
    for (int i = 0; i < CLIENTS; i++)
        table_free(w->clients[i].seen);
    buffer_release(&w->document);
    free(w);
}

/* ---- How long a change takes --------------------------------------------------------- */

/* The bars of the project, which lease_speed holds as they are; what is asserted leaves room for
 * a slow or busy machine. A sanitizer is no machine to measure on. */
#define CHANGE_US_MAX    (3 * 100.0)
#define HAND_OVER_US_MAX (3 * 150.0)
#define CHANGES          500

static void one_lease_of_a_thousand_is_changed_quickly(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    char id[24], scope[64];
    for (int i = 0; i < TABLE_LEASES_MAX; i++) {
        snprintf(id, sizeof id, "a-%d", i);
        snprintf(scope, sizeof scope, "chunk:data/L0/2026/02/%032d.usv", i);
        struct wish wish = { .id = id, .scopes = scope, .ttl_us = 3600000000 };
        assert_status(HF_OK, kit_acquire(table, &op, kit_at(0), wish), &op.error);
    }
    table = kit_reload(table, 0);
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    double began = cpu_seconds();
    for (int i = 0; i < CHANGES; i++) {
        snprintf(id, sizeof id, "a-%d", (i * 37) % TABLE_LEASES_MAX);
        uint64_t token = kit_lease(table, id)->token;
        assert_status(HF_OK, kit_do(table, &op, kit_at(1), TABLE_RENEW, id, token), &op.error);
        buffer_clear(&text);
        assert_true(table_encode(table, VIEW("n"), &text));
    }
    double us = (cpu_seconds() - began) * 1e6 / CHANGES;
    print_message("# one lease of %d changed and the table encoded (%zu bytes): %.1f us\n",
                  TABLE_LEASES_MAX, text.size, us);
    assert_true(SANITIZED || us <= CHANGE_US_MAX);
    buffer_release(&text);
    table_free(table);
}

#define QUEUE 512

/* Two processes in turn read what the other wrote, hand over, and write. */
static void a_long_queue_moves_quickly(void **state)
{
    (void)state;
    struct lease_table *bodies[2] = { kit_table(), NULL };
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct table_op op;
    char id[48], next[48];
    uint64_t token = 0;
    for (int i = 0; i <= QUEUE; i++) {
        snprintf(id, sizeof id, "%032d-%d", i % 8, i);
        struct wish wish = { .id = id, .scopes = "named:deploy", .wait = true };
        assert_status(HF_OK, kit_acquire(bodies[0], &op, kit_at(0), wish), &op.error);
        token = i ? token : op.granted;
    }
    assert_true(table_encode(bodies[0], VIEW("n"), &text));
    double began = cpu_seconds();
    for (int i = 0; i < CHANGES; i++) {
        struct lease_table *previous = bodies[i % 2], *table = NULL;
        struct hf_error error;
        assert_status(HF_OK,
                      table_decode(buffer_view(&text), (struct mono_time){ 0 }, previous,
                                   &table, &error),
                      &error);
        table_free(previous);
        bodies[i % 2] = table;
        snprintf(id, sizeof id, "%032d-%d", i % 8, i);
        snprintf(next, sizeof next, "%032d-%d", (i + 1) % 8, i + 1);
        assert_status(HF_OK, kit_do(table, &op, kit_at(0), TABLE_RELEASE, id, token),
                      &op.error);
        assert_status(HF_OK, kit_do(table, &op, kit_at(0), TABLE_CLAIM, next, 0), &op.error);
        token = op.granted;
        snprintf(id, sizeof id, "%032d-%d", i % 8, QUEUE + 1 + i);
        struct wish wish = { .id = id, .scopes = "named:deploy", .wait = true };
        assert_status(HF_OK, kit_acquire(table, &op, kit_at(0), wish), &op.error);
        buffer_clear(&text);
        assert_true(table_encode(table, VIEW("n"), &text));
    }
    double us = (cpu_seconds() - began) * 1e6 / CHANGES;
    print_message("# a table of %d waiters (%zu bytes) read, changed and written: %.1f us\n",
                  QUEUE, text.size, us);
    assert_true(SANITIZED || us <= HAND_OVER_US_MAX);
    buffer_release(&text);
    table_free(bodies[0]);
    table_free(bodies[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("clients that walk at random never hold at once, and wait in order",
           clients_walk_at_random),
        IT("one lease of a thousand is changed quickly",
           one_lease_of_a_thousand_is_changed_quickly),
        IT("a queue of 512 is read, moved on and written quickly", a_long_queue_moves_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
