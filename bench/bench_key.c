/* SPDX-License-Identifier: Apache-2.0 */
/* bench_key.c: measures keys, transactions and sweeping.
 *
 *   requests  the store requests of each operation, warm: on mem and sqlite
 *   rounds    a transaction over ten keys on a store with 20 ms a request: the time until its
 *             commit is known, in round trips
 *   speed     acquire, update and release of a key, a change of a key in one write, and transfers
 *             between two keys, per second: on each local store, beside an SQLite table in Python.
 *             Each ratio is our rate divided by Python's, so more is better
 *   sweep     1,000 expired leases among 10^3 to 10^6 live keys: the store requests of a sweep, and
 *             its duration
 *   p99       acquire of one key by a process while another process sweeps */
#include "base/check.h"
#include "base/prng.h"
#include "env/env.h"
#include "key_data.h"
#include "place.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL      100
#define LARGE      ((size_t)8 * 1024) /* has a separate body: it is above ... */
#define INLINE_MAX 4096

/* ---- A client that is counted -------------------------------------------------------- */

struct desk {
    struct client at;
    struct counts asked;
};

/* A new store each time; mem: is always one per desk. */
static void url_of(const char *kind, const char *name, char url[700])
{
    static unsigned number;
    char folder[600];
    if (strcmp(kind, "mem") == 0) {
        snprintf(url, 700, "mem:");
        return;
    }
    snprintf(folder, sizeof folder, "%s/%s-%s-%u", bench_folder(), name, kind, ++number);
    if (mkdir(folder, 0777) != 0)
        bench_die("%s: %s", folder, strerror(errno));
    snprintf(url, 700, "%s:%s%s", kind, folder, strcmp(kind, "sqlite") == 0 ? "/db" : "");
}

static void desk_open(struct desk *desk, const char *url)
{
    *desk = (struct desk){ .at = { .store = NULL } };
    client_open(&desk->at, url, counts_add, &desk->asked);
}

static void desk_reset(struct desk *desk)
{
    desk->asked = (struct counts){ .puts_in_vain = 0 };
}

/* The requests since the last reset. Transfers of files count as put or get. */
struct cost {
    double gets, puts, deletes, batches, lists;
};

static struct cost desk_cost(const struct desk *desk, double times)
{
    const atomic_ulong *calls = desk->asked.calls;
    return (struct cost){
        .gets = (double)(calls[HF_STORE_CALL_GET] + calls[HF_STORE_CALL_GET_FILE]) / times,
        .puts = (double)(calls[HF_STORE_CALL_PUT] + calls[HF_STORE_CALL_PUT_FILE]) / times,
        .deletes = (double)calls[HF_STORE_CALL_DELETE] / times,
        .batches = (double)desk->asked.batches[HF_STORE_CALL_DELETE] / times,
        .lists = (double)calls[HF_STORE_CALL_LIST] / times,
    };
}

static double cost_of_all(const struct cost *cost)
{
    return cost->gets + cost->puts + cost->deletes + cost->lists;
}

/* ---- Operations ---------------------------------------------------------------------- */

#define KEYS_MAX 10

static char filling[LARGE];

/* Acquires, changes and gives back; the handle is kept. */
static void change_key(struct hf_key *key, size_t size)
{
    struct hf_error error;
    must(hf_key_acquire(key, 60000, NULL, &error), &error, "acquire");
    must(hf_key_update(key, filling, size, NULL, NULL, &error), &error, "update");
    must(hf_key_release(key, HF_COMMIT, &error), &error, "release");
}

/* A transaction that changes this many keys. */
static void change_keys(struct hf_client *client, const size_t *numbers, size_t count,
                        size_t size)
{
    char space[KEYS_MAX][32];
    const char *names[KEYS_MAX];
    struct hf_key *keys[KEYS_MAX];
    struct hf_txn *txn;
    struct hf_error error;
    for (size_t i = 0; i < count; i++) {
        account_name(numbers[i], space[i]);
        names[i] = space[i];
    }
    must(hf_txn_begin(client, NULL, &txn, &error), &error, "begin");
    must(hf_txn_acquire(txn, names, count, NULL, 60000, keys, &error), &error, "take");
    for (size_t i = 0; i < count; i++)
        must(hf_key_update(keys[i], filling, size, NULL, NULL, &error), &error, "update");
    must(hf_txn_commit(txn, NULL, &error), &error, "commit");
    hf_txn_free(txn);
}

/* ---- requests ------------------------------------------------------------------------ */

#define TIMES 10

static void print_head(void)
{
    printf("  %-8s %-44s %6s %6s %8s %10s\n", "store", "operation, warm", "gets", "puts",
           "deletes", "in batches");
}

static void print_cost(struct bench *bench, const char *kind, const char *what,
                       const struct cost *cost)
{
    if (!bench->json)
        printf("  %-8s %-44s %6.1f %6.1f %8.1f %10.1f\n", kind, what, cost->gets, cost->puts,
               cost->deletes, cost->batches);
}

/* The limits, kept until the table is printed. */
static struct {
    char name[100];
    double measured, most;
} bars[64];
static size_t bar_count;

static void keep_bar(const char *name, double measured, double most)
{
    check(bar_count < sizeof bars / sizeof bars[0]);
    snprintf(bars[bar_count].name, sizeof bars[bar_count].name, "%s", name);
    bars[bar_count].measured = measured;
    bars[bar_count++].most = most;
}

static void print_bars(struct bench *bench)
{
    for (size_t i = 0; i < bar_count; i++)
        bench_bar(bench, bars[i].name, "", bars[i].measured, bars[i].most, /* at_most */ true);
    bar_count = 0;
}

static void bar_of_cost(const char *kind, const char *what, const char *counted,
                        double measured, double most)
{
    char name[100];
    snprintf(name, sizeof name, "%s: %s: %s", kind, what, counted);
    keep_bar(name, measured, most);
}

static void requests_of_key(struct bench *bench, struct desk *desk, const char *kind,
                            size_t size, bool staged)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *key;
    struct hf_error error;
    char what[60];
    options.staged = staged;
    must(hf_key_new(desk->at.client, "one", &options, &key, &error), &error, "new");
    change_key(key, size);
    change_key(key, size);
    desk_reset(desk);
    for (int i = 0; i < TIMES; i++)
        change_key(key, size);
    struct cost cost = desk_cost(desk, TIMES);
    hf_key_free(key);
    snprintf(what, sizeof what, "acquire, update %zu bytes%s, release", size,
             staged ? ", staged" : "");
    print_cost(bench, kind, what, &cost);
    bar_of_cost(kind, what, "writes", cost.puts, size <= INLINE_MAX ? 3 : 4);
}

/* A client that is unrelated to the key, and has or has not read it before. */
static void requests_of_get(struct bench *bench, struct desk *desk, const char *kind,
                            size_t size)
{
    struct hf_key *key;
    struct hf_error error;
    void *data;
    size_t got;
    char what[60];
    must(hf_key_new(desk->at.client, "read", NULL, &key, &error), &error, "new");
    change_key(key, size);
    hf_key_free(key);
    desk_reset(desk);
    for (int i = 0; i < TIMES; i++) {
        must(hf_key_get(desk->at.client, "read", LARGE, &data, &got, NULL, &error), &error,
             "get");
        if (got != size)
            bench_die("%zu bytes, not %zu", got, size);
        hf_free(data);
    }
    struct cost cost = desk_cost(desk, TIMES);
    snprintf(what, sizeof what, "get %zu bytes", size);
    print_cost(bench, kind, what, &cost);
    bar_of_cost(kind, what, "requests", cost_of_all(&cost), size <= INLINE_MAX ? 1 : 2);
}

static void requests_of_txn(struct bench *bench, struct desk *desk, const char *kind,
                            size_t count, size_t size)
{
    static const size_t numbers[KEYS_MAX] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    char what[60];
    change_keys(desk->at.client, numbers, count, size);
    change_keys(desk->at.client, numbers, count, size);
    desk_reset(desk);
    for (int i = 0; i < TIMES; i++)
        change_keys(desk->at.client, numbers, count, size);
    struct cost cost = desk_cost(desk, TIMES);
    snprintf(what, sizeof what, "a transaction over %zu keys, %zu bytes each", count, size);
    print_cost(bench, kind, what, &cost);
    bar_of_cost(kind, what, "gets, puts", cost.gets + cost.puts,
                (size <= INLINE_MAX ? 3 : 4) * (double)count + 4);
}

static void bench_requests(struct bench *bench)
{
    static const char *const kinds[] = { "mem", "sqlite" };
    static const size_t sizes[] = { SMALL, LARGE };
    static const size_t counts[] = { 1, 2, 3, 5, KEYS_MAX };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct desk desk;
        char url[700];
        url_of(kinds[i], "requests", url);
        desk_open(&desk, url);
        if (!bench->json)
            print_head();
        for (size_t size = 0; size < 2; size++) {
            requests_of_key(bench, &desk, kinds[i], sizes[size], /* staged */ false);
            requests_of_get(bench, &desk, kinds[i], sizes[size]);
            for (size_t count = 0; count < sizeof counts / sizeof counts[0]; count++)
                requests_of_txn(bench, &desk, kinds[i], counts[count], sizes[size]);
        }
        client_close(&desk.at);
        print_bars(bench);
    }
}

/* ---- rounds -------------------------------------------------------------------------- */

#define FAR_STORE   "mem:?delay=20ms"
#define FAR_SECONDS 0.020

/* The requests of such a transaction when each waited for the one before it. */
#define ALL_REQUESTS 35

static void name_keys(char space[KEYS_MAX][32], const char *names[KEYS_MAX])
{
    for (size_t i = 0; i < KEYS_MAX; i++) {
        account_name(i, space[i]);
        names[i] = space[i];
    }
}

/* All keys at once, as a caller does that knows them in advance. */
static void change_together(struct hf_txn *txn)
{
    struct hf_txn_change changes[KEYS_MAX];
    char space[KEYS_MAX][32];
    const char *names[KEYS_MAX];
    struct hf_key *keys[KEYS_MAX];
    struct hf_error error;
    name_keys(space, names);
    must(hf_txn_acquire(txn, names, KEYS_MAX, NULL, 60000, keys, &error), &error, "take");
    for (size_t i = 0; i < KEYS_MAX; i++)
        changes[i] =
            (struct hf_txn_change){ .key = keys[i], .data = filling, .size = INLINE_MAX };
    must(hf_txn_update(txn, changes, KEYS_MAX, &error), &error, "update");
}

static void change_one_by_one(struct hf_txn *txn)
{
    char space[KEYS_MAX][32];
    const char *names[KEYS_MAX];
    struct hf_key *keys[KEYS_MAX];
    struct hf_error error;
    name_keys(space, names);
    for (size_t i = 0; i < KEYS_MAX; i++) {
        must(hf_txn_acquire(txn, &names[i], 1, NULL, 60000, &keys[i], &error), &error, "take");
        must(hf_key_update(keys[i], filling, INLINE_MAX, NULL, NULL, &error), &error, "update");
    }
}

/* The round trips until the commit is known. */
static double rounds_of(struct hf_client *client, void (*change)(struct hf_txn *txn))
{
    struct hf_txn *txn;
    struct hf_error error;
    double began = now_s();
    must(hf_txn_begin(client, NULL, &txn, &error), &error, "begin");
    change(txn);
    must(hf_txn_commit(txn, NULL, &error), &error, "commit");
    double took = now_s() - began;
    hf_txn_free(txn);
    env_sleep(env_real(), SPAN_S(1)); /* the keys are settled */
    return took / FAR_SECONDS;
}

static void bench_rounds(struct bench *bench)
{
    struct series together = { .count = 0 }, one_by_one = { .count = 0 };
    struct desk desk;
    desk_open(&desk, FAR_STORE);
    rounds_of(desk.at.client, change_together);
    for (size_t round = 0; round < bench->rounds; round++) {
        series_add(&together, rounds_of(desk.at.client, change_together));
        series_add(&one_by_one, rounds_of(desk.at.client, change_one_by_one));
    }
    client_close(&desk.at);
    bench_figure(bench, "10 keys, 20 ms a request, one by one: until the commit is known",
                 " round trips", &one_by_one);
    bench_figure(bench, "10 keys, 20 ms a request, together: until the commit is known",
                 " round trips", &together);
    if (!bench->json)
        printf("  (all %d requests of the transaction in a row: %d round trips)\n",
               ALL_REQUESTS, ALL_REQUESTS);
    bench_bar(bench, "10 keys, 20 ms a request: round trips until the commit is known", "",
              series_median(&together), 6.5, /* at_most */ true);
}

/* ---- speed --------------------------------------------------------------------------- */

#define ACCOUNTS  64
#define TASKS_MAX 8

enum work { WORK_UPDATE, WORK_CHANGE, WORK_TRANSFER, WORK_MOVE, WORK_COUNT };

struct runner {
    struct hf_client *client;
    size_t number;
    enum work work;
    atomic_bool *over;
    atomic_ulong *done;
    pthread_t id;
};

static void run_transfers(struct runner *runner)
{
    struct prng prng = prng_seeded(runner->number);
    while (!atomic_load(runner->over)) {
        size_t numbers[2] = { prng_below(&prng, ACCOUNTS), prng_below(&prng, ACCOUNTS - 1) };
        numbers[1] += numbers[1] >= numbers[0];
        change_keys(runner->client, numbers, 2, SMALL);
        atomic_fetch_add(runner->done, 1);
    }
}

static void run_updates(struct runner *runner)
{
    struct hf_key *key;
    struct hf_error error;
    char name[32];
    account_name(runner->number, name);
    must(hf_key_new(runner->client, name, NULL, &key, &error), &error, "new");
    while (!atomic_load(runner->over)) {
        change_key(key, SMALL);
        atomic_fetch_add(runner->done, 1);
    }
    hf_key_free(key);
}

/* One write per change, of accounts at random, as the peer does. */
static void run_changes(struct runner *runner)
{
    struct prng prng = prng_seeded(runner->number);
    struct hf_error error;
    char name[32];
    while (!atomic_load(runner->over)) {
        account_name(prng_below(&prng, ACCOUNTS), name);
        must(hf_key_change(runner->client, name, filling, SMALL, NULL, NULL, &error), &error,
             "change");
        atomic_fetch_add(runner->done, 1);
    }
}

/* Transfers in one step of the store, where it can. */
static void run_moves(struct runner *runner)
{
    struct prng prng = prng_seeded(runner->number);
    struct hf_error error;
    char names[2][32];
    enum hf_status status = HF_OK;
    while (!atomic_load(runner->over) && status != HF_UNSUPPORTED) {
        size_t numbers[2] = { prng_below(&prng, ACCOUNTS), prng_below(&prng, ACCOUNTS - 1) };
        numbers[1] += numbers[1] >= numbers[0];
        account_name(numbers[0], names[0]);
        account_name(numbers[1], names[1]);
        do
            status = keys_move(runner->client, names, filling, SMALL, &error);
        while (status == HF_CONFLICT);
        if (status != HF_UNSUPPORTED)
            must(status, &error, "change together");
        atomic_fetch_add(runner->done, status == HF_OK);
    }
}

static void *run_one(void *argument)
{
    static void (*const works[])(struct runner *) = { run_updates, run_changes, run_transfers,
                                                      run_moves };
    static_assert(sizeof works / sizeof works[0] == WORK_COUNT, "in the order of the enum");
    struct runner *runner = argument;
    works[runner->work](runner);
    return NULL;
}

/* Runs for a second, with this many tasks that share a client. */
static double rate_of(struct bench *bench, const char *kind, enum work work, size_t tasks)
{
    struct runner runners[TASKS_MAX];
    atomic_bool over = false;
    atomic_ulong done = 0;
    struct desk desk;
    char url[700];
    url_of(kind, "speed", url);
    desk_open(&desk, url);
    accounts_open(desk.at.client, ACCOUNTS, filling, SMALL); /* the peer has them, too */
    double begun = now_s();
    for (size_t i = 0; i < tasks; i++) {
        runners[i] = (struct runner){
            .client = desk.at.client, .number = i, .work = work, .over = &over, .done = &done
        };
        if (pthread_create(&runners[i].id, NULL, run_one, &runners[i]) != 0)
            bench_die("no thread");
    }
    env_sleep(env_real(), SPAN_US((int64_t)(bench->seconds * 1e6)));
    atomic_store(&over, true);
    double rate = (double)atomic_load(&done) / (now_s() - begun);
    for (size_t i = 0; i < tasks; i++)
        pthread_join(runners[i].id, NULL);
    client_close(&desk.at);
    return rate;
}

/* The obvious alternative: see bench/peers/txn.py. */
static void run_peer(struct bench *bench, struct series *transfers, struct series *updates)
{
    static unsigned number;
    char command[1000], name[32];
    double value;
    snprintf(command, sizeof command, "exec python3 bench/peers/txn.py '%s/peer-%u.db' %d %g",
             bench_folder(), ++number, ACCOUNTS, bench->seconds);
    FILE *out = popen(command, "r");
    check(out);
    while (fscanf(out, "%31s %lf", name, &value) == 2)
        series_add(strcmp(name, "transfer") == 0 ? transfers : updates, value);
    if (pclose(out) != 0)
        bench_die("failed: %s", command);
}

struct side {
    const char *kind;
    size_t tasks;
    struct series done[WORK_COUNT];
};

/* Our rate divided by Python's. Only sqlite has bars, because both commit to such a file there. */
static void print_beside(struct bench *bench, const struct side *side, const char *what,
                         const struct series *ours, const struct series *theirs, double bar)
{
    struct ratio ratio = series_ratio_interval(ours, theirs);
    char text[RATIO_TEXT_MAX], name[140];
    snprintf(name, sizeof name, "%s, %zu task%s: %s: our rate / that of Python's sqlite3",
             side->kind, side->tasks, side->tasks == 1 ? "" : "s", what);
    if (bar > 0)
        bench_ratio(bench, name, ours, theirs, bar);
    else if (!bench->json)
        printf("  %s: %.3g x its rate  (%s)\n", name, ratio.median, ratio_text(ratio, text));
}

static double bar_beside(const struct side *side, enum work work)
{
    bool sqlite = strcmp(side->kind, "sqlite") == 0;
    if (sqlite && work == WORK_CHANGE)
        return 0.8;
    return sqlite && work == WORK_TRANSFER ? (side->tasks == 1 ? 0.35 : 1.0) : 0;
}

static void bench_speed(struct bench *bench)
{
    static const char *const work_names[WORK_COUNT] = {
        [WORK_UPDATE] = "acquire, update, release",
        [WORK_CHANGE] = "change in one write",
        [WORK_TRANSFER] = "transfers between two keys",
        [WORK_MOVE] = "transfers in one step",
    };
    struct side sides[] = { { .kind = "mem", .tasks = 1 },
                            { .kind = "sqlite", .tasks = 1 },
                            { .kind = "sqlite", .tasks = TASKS_MAX },
                            { .kind = "dir", .tasks = 1 },
                            { .kind = "dir", .tasks = TASKS_MAX } };
    size_t count = sizeof sides / sizeof sides[0];
    struct series transfers = { .count = 0 }, updates = { .count = 0 };
    char name[100];
    for (size_t round = 0; round < bench->rounds; round++) {
        run_peer(bench, &transfers, &updates);
        for (size_t i = 0; i < count; i++) {
            for (enum work work = 0; work < WORK_COUNT; work++)
                series_add(&sides[i].done[work],
                           rate_of(bench, sides[i].kind, work, sides[i].tasks));
        }
    }
    bench_figure(bench, "Python's sqlite3: one row changed", "/s", &updates);
    bench_figure(bench, "Python's sqlite3: transfers between two rows", "/s", &transfers);
    for (size_t i = 0; i < count; i++) {
        for (enum work work = 0; work < WORK_COUNT; work++) {
            snprintf(name, sizeof name, "%s, %zu tasks: %s", sides[i].kind, sides[i].tasks,
                     work_names[work]);
            bench_figure(bench, name, "/s", &sides[i].done[work]);
        }
    }
    for (size_t i = 0; i < count; i++)
        for (enum work work = 0; work < WORK_COUNT; work++)
            print_beside(bench, &sides[i], work_names[work], &sides[i].done[work],
                         work >= WORK_TRANSFER ? &transfers : &updates,
                         bar_beside(&sides[i], work));
}

/* ---- sweep --------------------------------------------------------------------------- */

#define EXPIRED  1000
#define CONSTANT 40 /* requests of a sweep that finds nothing, and to spare */

/* A run that no cap ends. */
static struct hf_sweep_report sweep_all(struct hf_client *client)
{
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    struct hf_error error;
    must(hf_sweep(client, NULL, &report, &error), &error, "sweep");
    if (report.stop != HF_SWEEP_STOP_DONE)
        bench_die("the sweep stopped: %s", hf_sweep_stop_text(report.stop));
    return report;
}

struct swept {
    struct series requests, ms;
    struct cost cost;
};

/* The entry of a key with a state is done with; that of a lock without one, which is a stub now, is
 * moved where stubs are purged. */
static void check_swept(const struct hf_sweep_report *report)
{
    if (report->leases_cleared != EXPIRED || report->failed > 0 ||
        report->entries_deleted + report->entries_moved != EXPIRED)
        bench_die("cleared %" PRIu64 " leases, deleted %" PRIu64 " entries, moved %" PRIu64
                  ", failed at %" PRIu64,
                  report->leases_cleared, report->entries_deleted, report->entries_moved,
                  report->failed);
}

/* One row of the table: this many live keys, and the same number of expired ones per round. */
static struct swept sweep_among(struct bench *bench, const char *kind, size_t live)
{
    struct swept swept = { .requests = { .count = 0 } };
    size_t rounds = bench->rounds < 3 ? bench->rounds : 3;
    struct desk desk;
    char url[700];
    url_of(kind, "sweep", url);
    desk_open(&desk, url);
    struct key_moulds moulds = key_moulds_make(&desk.at);
    sweep_all(desk.at.client); /* the moulds themselves */
    keys_cast(&desk.at, &moulds.live, live);
    for (size_t round = 0; round < rounds; round++) {
        keys_cast(&desk.at, &moulds.gone, EXPIRED / 2);
        keys_cast(&desk.at, &moulds.lock, EXPIRED / 2);
        desk_reset(&desk);
        double begun = now_s();
        struct hf_sweep_report report = sweep_all(desk.at.client);
        series_add(&swept.ms, 1000 * (now_s() - begun));
        swept.cost = desk_cost(&desk, 1);
        series_add(&swept.requests, cost_of_all(&swept.cost));
        check_swept(&report);
    }
    key_moulds_release(&moulds);
    client_close(&desk.at);
    return swept;
}

static void print_swept(struct bench *bench, const char *kind, size_t live,
                        const struct swept *swept)
{
    char name[100];
    double all = series_median(&swept->requests);
    if (!bench->json)
        printf(
            "  %-8s %10zu %8d %10.0f %8.3f %7.0f %7.0f %8.0f %6.0f %8.0f ms (%.0f to %.0f)\n",
            kind, live, EXPIRED, all, all / EXPIRED, swept->cost.gets, swept->cost.puts,
            swept->cost.deletes, swept->cost.lists, series_median(&swept->ms),
            series_least(&swept->ms), series_most(&swept->ms));
    snprintf(name, sizeof name, "%s, %zu live: requests for %d that are over", kind, live,
             EXPIRED);
    keep_bar(name, series_most(&swept->requests), 5 * EXPIRED + CONSTANT);
}

static void bench_sweep(struct bench *bench)
{
    static const struct {
        const char *kind;
        size_t live;
    } rows[] = { { "mem", 1000 },    { "mem", 10000 },   { "mem", 100000 },
                 { "mem", 1000000 }, { "sqlite", 1000 }, { "sqlite", 100000 } };
    double first = 0;
    char name[100];
    if (!bench->json)
        printf("  %-8s %10s %8s %10s %8s %7s %7s %8s %6s %11s\n", "store", "live", "over",
               "requests", "each", "gets", "puts", "deletes", "lists", "took");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct swept swept = sweep_among(bench, rows[i].kind, rows[i].live);
        print_swept(bench, rows[i].kind, rows[i].live, &swept);
        double requests = series_median(&swept.requests);
        if (rows[i].live == 1000)
            first = requests;
        snprintf(name, sizeof name, "%s, %zu live: requests more than among 1,000",
                 rows[i].kind, rows[i].live);
        keep_bar(name, requests - first, 0);
        fflush(stdout);
    }
    print_bars(bench);
}

/* ---- p99 ----------------------------------------------------------------------------- */

#define P99_LIVE    10000
#define P99_EXPIRED 20000 /* more than are swept meanwhile */
#define SAMPLES_MAX 400000
#define OP_DELAY_MS 100 /* of a sweeper in the background */

/* Memory that two processes share. */
struct scene {
    atomic_bool ready, over;
    atomic_ulong ops;  /* entries swept */
    atomic_bool ended; /* the sweep came to its end before we did */
};

static bool go_on(void *argument, const struct hf_sweep_report *so_far)
{
    struct scene *scene = argument;
    atomic_store(&scene->ops, so_far->ops);
    return !atomic_load(&scene->over);
}

/* A process that sweeps until it is stopped. */
static pid_t start_sweeper(struct scene *scene, const char *url, int64_t op_delay_ms)
{
    fflush(NULL);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid > 0)
        return pid;
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    struct hf_error error;
    struct desk desk;
    desk_open(&desk, url);
    options.op_delay_ms = op_delay_ms;
    options.progress = go_on;
    options.argument = scene;
    atomic_store(&scene->ready, true);
    enum hf_status status = hf_sweep(desk.at.client, &options, NULL, &error);
    if (status != HF_CANCELLED)
        must(status, &error, "sweep");
    atomic_store(&scene->ended, status == HF_OK);
    client_close(&desk.at);
    _exit(0);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Takes and gives back one key for the time of a round: the 99th percentile of taking, in us. */
static double p99_of(struct bench *bench, struct hf_client *client)
{
    static double samples[SAMPLES_MAX];
    struct hf_key *key;
    struct hf_error error;
    size_t count = 0;
    must(hf_key_new(client, "hot", NULL, &key, &error), &error, "new");
    double begun = now_s(), asked = begun;
    while (asked - begun < bench->seconds && count < SAMPLES_MAX) {
        must(hf_key_acquire(key, 60000, NULL, &error), &error, "acquire");
        samples[count++] = 1e6 * (now_s() - asked);
        must(hf_key_release(key, HF_COMMIT, &error), &error, "release");
        asked = now_s();
    }
    hf_key_free(key);
    qsort(samples, count, sizeof samples[0], compare_doubles);
    return samples[count * 99 / 100];
}

/* The same while another process sweeps; how many entries it looked at. */
static double p99_beside(struct bench *bench, struct desk *desk, const char *url,
                         int64_t op_delay_ms, double *ret_ops)
{
    struct scene *scene = bench_share_memory(sizeof *scene);
    int status;
    pid_t pid = start_sweeper(scene, url, op_delay_ms);
    while (!atomic_load(&scene->ready))
        env_sleep(env_real(), SPAN_MS(1));
    double p99 = p99_of(bench, desk->at.client);
    atomic_store(&scene->over, true);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("the sweeper failed");
    *ret_ops = (double)atomic_load(&scene->ops);
    if (*ret_ops < 1 || atomic_load(&scene->ended))
        bench_die("the sweep looked at %.0f entries%s", *ret_ops,
                  atomic_load(&scene->ended) ? " and came to its end too soon" : "");
    munmap(scene, sizeof *scene);
    return p99;
}

struct p99 {
    struct series us, ops;
};

/* `alone` is NULL for that itself. */
static void print_p99(struct bench *bench, const char *kind, const char *what,
                      const struct p99 *p99, const struct p99 *alone)
{
    char name[100], text[RATIO_TEXT_MAX];
    snprintf(name, sizeof name, "%s: acquire, p99, %s", kind, what);
    bench_figure(bench, name, "us", &p99->us);
    if (!alone || bench->json)
        return;
    struct ratio ratio = series_ratio_interval(&p99->us, &alone->us);
    printf("  %-52s %12.3g x       (%s), %.0f entries swept a round\n", "", ratio.median,
           ratio_text(ratio, text), series_median(&p99->ops));
}

/* Measures before, during and after a sweep, so a drift of the machine affects both sides. */
static void p99_on(struct bench *bench, const char *kind)
{
    struct p99 alone = { .us = { .count = 0 } }, gentle = alone, greedy = alone;
    struct desk desk;
    char url[700], name[100];
    double ops;
    url_of(kind, "p99", url);
    desk_open(&desk, url);
    struct key_moulds moulds = key_moulds_make(&desk.at);
    keys_cast(&desk.at, &moulds.live, P99_LIVE);
    for (size_t round = 0; round < bench->rounds; round++) {
        double before = p99_of(bench, desk.at.client);
        keys_cast(&desk.at, &moulds.gone, P99_EXPIRED);
        series_add(&gentle.us, p99_beside(bench, &desk, url, OP_DELAY_MS, &ops));
        series_add(&gentle.ops, ops);
        series_add(&alone.us, (before + p99_of(bench, desk.at.client)) / 2);
        series_add(&greedy.us, p99_beside(bench, &desk, url, 0, &ops));
        series_add(&greedy.ops, ops);
    }
    print_p99(bench, kind, "alone", &alone, NULL);
    print_p99(bench, kind, "beside a sweep", &gentle, &alone);
    print_p99(bench, kind, "beside one without pause", &greedy, &alone);
    snprintf(name, sizeof name, "%s: p99 beside a sweep", kind);
    bench_ratio_at_most(bench, name, &gentle.us, &alone.us, 1.5);
    key_moulds_release(&moulds);
    client_close(&desk.at);
}

static void bench_p99(struct bench *bench)
{
    p99_on(bench, "sqlite");
}

static const struct bench_part parts[] = {
    { "requests", bench_requests }, { "rounds", bench_rounds }, { "speed", bench_speed },
    { "sweep", bench_sweep },       { "p99", bench_p99 },       { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = PAIRS, .seconds = 0.5 };
    memset(filling, '.', sizeof filling);
    return bench_main(&bench, parts, argc, argv);
}
