/* SPDX-License-Identifier: Apache-2.0 */
/* lease_speed.c: the CPU cost of a lease table, without the store.
 *
 *   queue    eight processes with 64 waiters each pass one lock around: reading the table that
 *            the others wrote, releasing or claiming, writing it; also the size of the document
 *   leases   one lease of 1,000 is renewed and the table written; reading it
 *   shared   512 waiters that may all hold at once, so each gets its turn
 *   apart    512 waiters of as many ranges, behind as many leases: nothing to take together
 *
 * Figures are microseconds per call, the median of the rounds. */
#include "base/limits.h"
#include "env/env.h"
#include "lease/table.h"
#include "place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PROCESSES 8
#define THREADS   64
#define WAITERS   (PROCESSES * THREADS)
#define LEASES    1000
#define TURNS     200 /* of one round */

#define CLOCK_ID "6c1a52c6-6bd5-4f49-a3f0-f2b9c2a1a0d4"

/* ---- Helpers ------------------------------------------------------------------------- */

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static struct evidence evidence_at(int64_t us)
{
    static char nonce[NONCE_SIZE + 1];
    static uint64_t drawn;
    snprintf(nonce, sizeof nonce, "%032" PRIx64, ++drawn);
    return (struct evidence){ .now = { us },
                              .time_known = true,
                              .earliest = { us },
                              .latest = { us },
                              .clock = VIEW(CLOCK_ID),
                              .wall = { INT64_C(1790000000000000) + us },
                              .nonce = view_of(nonce) };
}

static struct lease_table *new_table(void)
{
    struct lease_settings settings = lease_settings_default();
    struct hf_error error;
    struct lease_table *table = table_new(&settings, /* epoch */ 1, &error);
    if (!table)
        bench_die("%s", error.why);
    return table;
}

static void apply(struct lease_table *table, struct table_op *op)
{
    struct evidence evidence = evidence_at(1000000);
    if (table_apply(table, op, &evidence) != HF_OK)
        bench_die("%s", op->error.why);
}

/* What the n-th lock handle of a process asks for. */
struct asker {
    char id[NONCE_SIZE + 24];
    char holder[32];
};

static struct asker asker(unsigned process, unsigned number)
{
    struct asker a;
    snprintf(a.id, sizeof a.id, "%08x%024x-%u", 0x9e3779b9u * (process + 1), process, number);
    snprintf(a.holder, sizeof a.holder, "node-%u:%u", process, 41234 + process);
    return a;
}

static struct table_op acquire(struct lease_table *table, const struct asker *asker,
                               struct scope scope, enum lease_mode mode)
{
    struct lease_request wanted = { .id = view_of(asker->id),
                                    .session = { asker->id, NONCE_SIZE },
                                    .holder = view_of(asker->holder),
                                    .wish.scopes = &scope,
                                    .wish.scope_count = 1,
                                    .wish.mode = mode,
                                    .wish.ttl = SPAN_S(30),
                                    .wish.poll = SPAN_MS(100) };
    struct table_op op = { .kind = TABLE_ACQUIRE, .wanted = &wanted, .wait = true };
    apply(table, &op);
    op.wanted = NULL;
    return op;
}

static struct scope the_lock(void)
{
    return (struct scope){ .kind = SCOPE_NAMED, .name = VIEW("deploy/production") };
}

static void encode(const struct lease_table *table, struct buffer *text)
{
    buffer_clear(text);
    if (!table_encode(table, VIEW("0123456789abcdef0123456789abcdef"), text))
        bench_die("the table cannot be written");
}

static struct lease_table *decode(const struct buffer *text, const struct lease_table *previous)
{
    struct lease_table *table;
    struct hf_error error;
    struct mono_time arrived = { 1000000 };
    if (table_decode(buffer_view(text), arrived, previous, &table, &error) != HF_OK)
        bench_die("%s", error.why);
    return table;
}

/* The time that a call takes, added to *sum. */
#define TIMED(sum, call)               \
    do {                               \
        double began_us = cpu_us();    \
        call;                          \
        *(sum) += cpu_us() - began_us; \
    } while (0)

/* ---- A long queue -------------------------------------------------------------------- */

struct parts {
    double decode, apply, encode;
};

struct ring {
    struct buffer document;
    struct lease_table *bodies[PROCESSES]; /* as each process last knew the table */
    unsigned numbers[PROCESSES];
    struct asker holder;
    unsigned holder_process;
    uint64_t token;
};

/* A process reads what the others wrote meanwhile, and forgets what it knew. */
static struct lease_table *catch_up(struct ring *ring, unsigned process, struct parts *parts)
{
    struct lease_table *table;
    TIMED(&parts->decode, table = decode(&ring->document, ring->bodies[process]);
          table_free(ring->bodies[process]));
    ring->bodies[process] = table;
    return table;
}

static void hand_over(struct ring *ring, struct parts *parts)
{
    unsigned from = ring->holder_process;
    struct lease_table *table = catch_up(ring, from, parts);
    struct table_op op = { .kind = TABLE_RELEASE,
                           .id = view_of(ring->holder.id),
                           .token = ring->token };
    TIMED(&parts->apply, apply(table, &op));
    struct asker next = asker(from, ring->numbers[from]++);
    TIMED(&parts->apply, acquire(table, &next, the_lock(), LEASE_EXCLUSIVE));
    TIMED(&parts->encode, encode(table, &ring->document));

    struct view id = table->waiters[0].wanted->asked.id;
    if (!table->waiters[0].reserved)
        bench_die("nobody has the turn");
    memcpy(ring->holder.id, id.data, id.size);
    ring->holder.id[id.size] = '\0';
    unsigned to = 0;
    while (strncmp(asker(to, 0).id, ring->holder.id, NONCE_SIZE) != 0)
        to++;
    table = catch_up(ring, to, parts);
    op = (struct table_op){ .kind = TABLE_CLAIM, .id = view_of(ring->holder.id) };
    TIMED(&parts->apply, apply(table, &op));
    TIMED(&parts->encode, encode(table, &ring->document));
    if (op.outcome != TABLE_GRANTED)
        bench_die("the claim was not granted");
    ring->holder_process = to;
    ring->token = op.granted;
}

static void ring_fill(struct ring *ring)
{
    struct lease_table *table = new_table();
    ring->holder = asker(0, 0);
    ring->token = acquire(table, &ring->holder, the_lock(), LEASE_EXCLUSIVE).granted;
    for (unsigned i = 0; i < PROCESSES; i++)
        ring->numbers[i] = 1;
    for (unsigned i = 0; i < WAITERS; i++) {
        unsigned process = i * 5 % PROCESSES;
        struct asker waiter = asker(process, ring->numbers[process]++);
        acquire(table, &waiter, the_lock(), LEASE_EXCLUSIVE);
    }
    encode(table, &ring->document);
    table_free(table);
}

static void bench_queue(struct bench *bench)
{
    struct series decoding = { .count = 0 }, applying = decoding, encoding = decoding,
                  whole = decoding, cold = decoding, bytes = decoding;
    struct ring ring = { .document = BUFFER_INIT(TABLE_BYTES_READ_MAX) };
    ring_fill(&ring);
    for (size_t round = 0; round < bench->rounds; round++) {
        struct parts parts = { 0, 0, 0 };
        double cold_us = 0;
        for (int i = 0; i < TURNS; i++)
            hand_over(&ring, &parts);
        for (int i = 0; i < TURNS / 10; i++)
            TIMED(&cold_us, table_free(decode(&ring.document, NULL)));
        series_add(&decoding, parts.decode / TURNS / 2);
        series_add(&applying, parts.apply / TURNS / 2);
        series_add(&encoding, parts.encode / TURNS / 2);
        series_add(&whole, (parts.decode + parts.apply + parts.encode) / TURNS / 2);
        series_add(&cold, cold_us / (TURNS / 10));
    }
    series_add(&bytes, (double)ring.document.size);
    bench_figure(bench, "queue: decode, with what was known before", "us", &decoding);
    bench_figure(bench, "queue: apply", "us", &applying);
    bench_figure(bench, "queue: encode", "us", &encoding);
    bench_figure(bench, "queue: decode, nothing known before", "us", &cold);
    bench_bar(bench, "queue: one process's part of a hand-over", "us", series_median(&whole),
              150, /* at_most */ true);
    bench_bar(bench, "queue: the document of 512 waiters", "bytes", (double)ring.document.size,
              (double)SQLITE_INLINE_MAX, /* at_most */ true);
    for (unsigned i = 0; i < PROCESSES; i++)
        table_free(ring.bodies[i]);
    buffer_release(&ring.document);
}

/* ---- Many leases --------------------------------------------------------------------- */

static void renew(struct lease_table *table, size_t index)
{
    char id[NONCE_SIZE + 24];
    const struct lease *lease = table->leases[index];
    memcpy(id, lease->id.data, lease->id.size);
    struct table_op op = { .kind = TABLE_RENEW,
                           .id = { id, lease->id.size },
                           .token = lease->token };
    apply(table, &op);
}

static void bench_leases(struct bench *bench)
{
    struct series change = { .count = 0 }, known = change, cold = change;
    struct lease_table *table = new_table();
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    for (unsigned i = 0; i < LEASES; i++) {
        struct asker holder = asker(i % PROCESSES, i);
        char name[64];
        snprintf(name, sizeof name, "data/L0/2026/02/%032u.usv", i);
        struct scope scope = { .kind = SCOPE_CHUNK, .name = view_of(name) };
        acquire(table, &holder, scope, LEASE_EXCLUSIVE);
    }
    encode(table, &text);
    for (size_t round = 0; round < bench->rounds; round++) {
        double change_us = 0, known_us = 0, cold_us = 0;
        for (int i = 0; i < TURNS; i++)
            TIMED(&change_us, renew(table, (size_t)i * 37 % LEASES); encode(table, &text));
        for (int i = 0; i < TURNS / 10; i++) {
            TIMED(&cold_us, table_free(decode(&text, NULL)));
            TIMED(&known_us, table_free(decode(&text, table)));
        }
        series_add(&change, change_us / TURNS);
        series_add(&cold, cold_us / (TURNS / 10));
        series_add(&known, known_us / (TURNS / 10));
    }
    bench_bar(bench, "leases: one of 1,000 renewed, and encode", "us", series_median(&change),
              100, /* at_most */ true);
    bench_figure(bench, "leases: decode, with what was known before", "us", &known);
    bench_figure(bench, "leases: decode, nothing known before", "us", &cold);
    table_free(table);
    buffer_release(&text);
}

/* ---- Other queues -------------------------------------------------------------------- */

/* One op that changes the table, so that the whole queue is looked at. */
static void bench_settle(struct bench *bench, struct lease_table *table, const char *name)
{
    struct series settle = { .count = 0 };
    for (size_t round = 0; round < bench->rounds; round++) {
        double us = 0;
        for (int i = 0; i < TURNS / 10; i++)
            TIMED(&us, renew(table, 0));
        series_add(&settle, us / (TURNS / 10));
    }
    bench_figure(bench, name, "us", &settle);
    table_free(table);
}

static void bench_shared(struct bench *bench)
{
    struct lease_table *table = new_table();
    struct asker other = asker(0, WAITERS), first = asker(0, WAITERS + 1);
    struct scope beside = { .kind = SCOPE_NAMED, .name = VIEW("beside") };
    acquire(table, &other, beside, LEASE_EXCLUSIVE);
    struct table_op op = acquire(table, &first, the_lock(), LEASE_EXCLUSIVE);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct asker waiter = asker(i % PROCESSES, i);
        acquire(table, &waiter, the_lock(), LEASE_SHARED);
    }
    op = (struct table_op){ .kind = TABLE_RELEASE,
                            .id = view_of(first.id),
                            .token = op.granted };
    apply(table, &op);
    bench_settle(bench, table, "shared: apply where all have their turn");
}

static void bench_apart(struct bench *bench)
{
    struct lease_table *table = new_table();
    for (unsigned i = 0; i < 2 * WAITERS; i++) {
        struct asker one = asker(i % PROCESSES, i);
        uint64_t start = i % WAITERS * 10;
        struct scope scope = {
            .kind = SCOPE_RANGE, .inode = 7, .start = start, .end = start + 10
        };
        acquire(table, &one, scope, LEASE_EXCLUSIVE);
    }
    bench_settle(bench, table, "apart: apply, 512 waiters of as many ranges");
}

/* ---- Program ------------------------------------------------------------------------- */

static const struct bench_part parts[] = {
    { "queue", bench_queue },
    { "leases", bench_leases },
    { "shared", bench_shared },
    { "apart", bench_apart },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = 9, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
