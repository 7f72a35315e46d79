/* SPDX-License-Identifier: Apache-2.0 */
/* bench_locks.c: measures locks.
 *
 *   contention  clients that each take and release leases on their own chunks, all in one table:
 *               writes and conflicts per success; in one process, which combines its writes, and in
 *               as many processes as clients; on sqlite, and on Ceph (ceph-contention; ceph-crowds:
 *               only 16 and 64 processes)
 *   handover    one lock that passes between processes: a process asks again once another process
 *               has held the lock; on sqlite, and on Ceph (ceph-handover)
 *   dead        from the release of a lock to the next living waiter, with seven ahead of it that
 *               were killed; on sqlite, and on Ceph (ceph-dead)
 *   pairs       acquire and release of an uncontended lock
 *   pages       acquire of a path in a namespace with 100,000 locks in pages, beside one with 100
 *               locks in one table
 *   run         `holdfast run NAME -- true`, beside `flock FILE true` and `true`
 *
 * All run on sqlite; pages also runs on dir, and some on their own Ceph gateway. */
#include "client.h"
#include "env/env.h"
#include "place.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Crews --------------------------------------------------------------------------- */

#define THREADS_MAX   64
#define PROCESSES_MAX 64
#define WARM_UP_S     60 /* at most */

/* Memory that all processes of a crew share. */
struct tally {
    pthread_barrier_t start;
    atomic_bool over;
    atomic_ulong done; /* the counts */
    struct counts asked;
    atomic_long last;                /* process that had it last */
    atomic_ulong crossed;            /* hand-overs from one process to another */
    atomic_ulong had[PROCESSES_MAX]; /* how often each process had it */
};

struct worker {
    struct crew *crew;
    struct hf_client *client;
    unsigned process, thread;
    pthread_t id;
};

struct crew {
    const char *url;
    unsigned processes, threads;
    bool eager; /* asks again at once, even if nobody else has had the lock meanwhile */
    unsigned long warm_up; /* so much is done before anything is counted */
    double seconds;
    void (*work)(struct worker *worker); /* until tally->over */
    struct tally *tally;
    double took;
};

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    pthread_barrier_wait(&worker->crew->tally->start);
    worker->crew->work(worker);
    return NULL;
}

/* What is asked for after the end is not counted, because what is done then is not either. */
static void count_until_over(void *argument, const struct hf_store_request *request)
{
    struct tally *tally = argument;
    if (!atomic_load(&tally->over))
        counts_add(&tally->asked, request);
}

/* One process: a client, and threads that use it. */
static void run_process(struct crew *crew, unsigned process)
{
    struct worker workers[THREADS_MAX];
    struct client opened;
    client_open(&opened, crew->url, count_until_over, crew->tally);
    for (unsigned i = 0; i < crew->threads; i++) {
        workers[i] = (struct worker){ crew, opened.client, process, i, 0 };
        if (pthread_create(&workers[i].id, NULL, run_worker, &workers[i]) != 0)
            bench_die("no thread");
    }
    for (unsigned i = 0; i < crew->threads; i++)
        pthread_join(workers[i].id, NULL);
    client_close(&opened);
}

static struct tally *new_tally(unsigned workers)
{
    struct tally *tally = bench_share_memory(sizeof *tally);
    bench_barrier(&tally->start, workers + 1);
    atomic_store(&tally->last, -1);
    return tally;
}

/* Waits until the crew has opened its clients, created its table and got to know the others, and
 * begins to count then. */
static void let_crew_warm_up(const struct crew *crew)
{
    struct tally *tally = crew->tally;
    double end = now_s() + WARM_UP_S;
    while (atomic_load(&tally->done) < crew->warm_up && now_s() < end)
        env_sleep(env_real(), SPAN_MS(1));
    counts_clear(&tally->asked);
    atomic_store(&tally->done, 0);
    atomic_store(&tally->crossed, 0);
    for (unsigned i = 0; i < crew->processes; i++)
        atomic_store(&tally->had[i], 0);
}

/* Runs a crew for its seconds; the caller reads crew->tally, and unmaps it. */
static void run_crew(struct crew *crew)
{
    crew->tally = new_tally(crew->processes * crew->threads);
    for (unsigned i = 0; i < crew->processes; i++) {
        pid_t pid = fork();
        if (pid < 0)
            bench_die("fork: %s", strerror(errno));
        if (pid == 0) {
            run_process(crew, i);
            _exit(0);
        }
    }
    pthread_barrier_wait(&crew->tally->start);
    if (crew->warm_up > 0)
        let_crew_warm_up(crew);
    double start = now_s();
    env_sleep(env_real(), SPAN_US((int64_t)(crew->seconds * 1e6)));
    atomic_store(&crew->tally->over, true);
    crew->took = now_s() - start;
    int status;
    while (wait(&status) > 0)
        if (status != 0)
            bench_die("a worker process failed");
}

static void end_crew(struct crew *crew)
{
    munmap(crew->tally, sizeof *crew->tally);
}

static double calls_of(const struct crew *crew, enum hf_store_call call)
{
    return (double)atomic_load(&crew->tally->asked.calls[call]);
}

static void new_store_url(char url[700])
{
    static unsigned number;
    snprintf(url, 700, "sqlite:%s/locks-%u.db", bench_folder(), ++number);
}

/* ---- Contention ---------------------------------------------------------------------- */

/* Acquires and releases a lease on its own chunks: the lease is free, the table is shared. */
static void claim_chunks(struct worker *worker)
{
    char names[2][80];
    const char *scopes[2] = { names[0], names[1] };
    struct hf_lock *lock;
    struct hf_error error;
    for (unsigned i = 0; i < 2; i++)
        snprintf(names[i], sizeof names[i], "chunk:data/%u-%u-%u.usv", worker->process,
                 worker->thread, i);
    must(hf_lock_new_many(worker->client, scopes, 2, NULL, &lock, &error), &error, "new");
    while (!atomic_load(&worker->crew->tally->over)) {
        must(hf_lock_acquire(lock, 0, &error), &error, "acquire");
        must(hf_lock_release(lock, &error), &error, "release");
        if (!atomic_load(&worker->crew->tally->over))
            atomic_fetch_add(&worker->crew->tally->done, 2);
    }
    hf_lock_free(lock);
}

static void contend(struct bench *bench, const char *store, const char *url, unsigned count,
                    bool in_one)
{
    struct series puts = { .count = 0 }, conflicts = puts, rate = puts;
    for (size_t round = 0; round < bench->rounds; round++) {
        struct crew crew = { .url = url,
                             .processes = in_one ? 1 : count,
                             .threads = in_one ? count : 1,
                             .seconds = bench->seconds,
                             .work = claim_chunks };
        run_crew(&crew);
        double done = (double)atomic_load(&crew.tally->done);
        double sent = calls_of(&crew, HF_STORE_CALL_PUT);
        if (!(done > 0))
            bench_die("nothing was done in %g s", bench->seconds);
        series_add(&puts, sent / done);
        series_add(&conflicts,
                   100 * (double)atomic_load(&crew.tally->asked.puts_in_vain) / sent);
        series_add(&rate, done / crew.took);
        end_crew(&crew);
    }
    printf("  %-6s %2u %-9s %8.0f changes/s   %5.2f puts a change (%.2f to %.2f)   %5.1f %% of "
           "the "
           "puts in vain\n",
           store, count, in_one ? "threads" : "processes", series_median(&rate),
           series_median(&puts), series_least(&puts), series_most(&puts),
           series_median(&conflicts));
    fflush(stdout);
    char name[80];
    snprintf(name, sizeof name, "%s: puts a change, %u %s", store, count,
             in_one ? "in one process" : "processes");
    if (count == 64 || (count == 16 && !in_one))
        bench_bar(bench, name, "", series_median(&puts), in_one || count == 16 ? 1.2 : 1.5,
                  /* at_most */ true);
}

static void contend_all(struct bench *bench, const char *store, const char *url)
{
    static const unsigned counts[] = { 1, 2, 5, 16, 64 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        contend(bench, store, url, counts[i], /* in_one */ true);
    for (size_t i = 1; i < sizeof counts / sizeof counts[0]; i++)
        contend(bench, store, url, counts[i], /* in_one */ false);
}

static void bench_contention(struct bench *bench)
{
    char url[700];
    puts(
        "  one table, everybody changes it as fast as it can; the design that this comes from\n"
        "  expects, at 0.1 changes a second each: 1 writer 0 %, 2 writers < 2 %, 5 writers < 5 "
        "%");
    new_store_url(url);
    contend_all(bench, "sqlite", url);
}

static void bench_contention_ceph(struct bench *bench)
{
    char url[700];
    snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/locks?endpoint=%s&etag=bare", bench_ceph());
    contend_all(bench, "ceph", url);
}

/* The rows that have a bar. */
static void bench_crowds_ceph(struct bench *bench)
{
    char url[700];
    snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/locks?endpoint=%s&etag=bare", bench_ceph());
    contend(bench, "ceph", url, 16, /* in_one */ false);
    contend(bench, "ceph", url, 64, /* in_one */ false);
}

/* ---- From hand to hand --------------------------------------------------------------- */

/* One thread per process; otherwise a process that never waits could keep the lock to itself.
 * With many processes there are always others in the queue. */
static void wait_for_another(const struct worker *worker)
{
    struct tally *tally = worker->crew->tally;
    while (!worker->crew->eager && worker->crew->threads == 1 && !atomic_load(&tally->over) &&
           atomic_load(&tally->last) == (long)worker->process)
        env_sleep(env_real(), SPAN_US(20));
}

static void hand_over(struct worker *worker)
{
    struct tally *tally = worker->crew->tally;
    struct hf_lock *lock;
    struct hf_error error;
    must(hf_lock_new(worker->client, "baton", NULL, &lock, &error), &error, "new");
    while (!atomic_load(&tally->over)) {
        must(hf_lock_acquire(lock, 60000, &error), &error, "acquire");
        long last = atomic_exchange(&tally->last, (long)worker->process);
        if (!atomic_load(&tally->over)) {
            atomic_fetch_add(&tally->done, 1);
            atomic_fetch_add(&tally->crossed, last != (long)worker->process);
            atomic_fetch_add(&tally->had[worker->process], 1);
        }
        must(hf_lock_release(lock, &error), &error, "release");
        wait_for_another(worker);
    }
    hf_lock_free(lock);
}

/* How often the process that had it least had it, of how often the one that had it most did. */
static double fairness(const struct crew *crew)
{
    double least = 1e9, most = 1;
    for (unsigned i = 0; i < crew->processes; i++) {
        double had = (double)atomic_load(&crew->tally->had[i]);
        least = had < least ? had : least;
        most = had > most ? had : most;
    }
    return least / most;
}

/* The figures of one row, over all rounds. */
struct handed {
    struct series rate, crossed, fair, puts, conflicts, gets, requests;
};

static void add_round(struct handed *handed, const struct crew *crew)
{
    double done = (double)atomic_load(&crew->tally->done) + 1e-9;
    series_add(&handed->rate, done / crew->took);
    series_add(&handed->crossed, (double)atomic_load(&crew->tally->crossed) / crew->took);
    series_add(&handed->fair, fairness(crew));
    series_add(&handed->puts, calls_of(crew, HF_STORE_CALL_PUT) / done);
    series_add(&handed->conflicts,
               (double)atomic_load(&crew->tally->asked.puts_in_vain) / done);
    series_add(&handed->gets, calls_of(crew, HF_STORE_CALL_GET) / done);
    series_add(&handed->requests,
               (calls_of(crew, HF_STORE_CALL_PUT) + calls_of(crew, HF_STORE_CALL_GET)) / done);
}

/* On Ceph, a process has the lock once a second. If each had it twice or thrice, fairness would be
 * a matter of when counting ends. */
#define CEPH_TIMES 5

static struct handed hand_over_between(struct bench *bench, bool ceph, unsigned processes,
                                       unsigned threads)
{
    struct handed handed = { .rate.count = 0 };
    char url[700], name[100];
    for (size_t round = 0; round < bench->rounds; round++) {
        if (ceph)
            snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/baton%zu?endpoint=%s&etag=bare",
                     round, bench_ceph());
        else
            new_store_url(url);
        struct crew crew = { .url = url,
                             .processes = processes,
                             .threads = threads,
                             .eager = ceph,
                             .warm_up = ceph ? 4 * processes : 0,
                             .seconds = bench->seconds * (ceph ? CEPH_TIMES : 1),
                             .work = hand_over };
        run_crew(&crew);
        add_round(&handed, &crew);
        end_crew(&crew);
    }
    snprintf(name, sizeof name, "%s: hand-overs, %u processes of %u threads",
             ceph ? "ceph" : "sqlite", processes, threads);
    bench_figure(bench, name, "/s", &handed.rate);
    if (!bench->json)
        printf("  %-52s %12.0f /s to another process; fairness %.2f; each: %.2f puts, %.2f of "
               "them in vain, %.2f gets\n",
               "", series_median(&handed.crossed), series_median(&handed.fair),
               series_median(&handed.puts), series_median(&handed.conflicts),
               series_median(&handed.gets));
    return handed;
}

static void bench_handover(struct bench *bench)
{
    static const struct {
        unsigned processes;
        double bar;
    } rows[] = { { 2, 0 }, { 8, 1000 }, { 16, 2000 }, { 64, 1500 } };
    char name[100];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct handed handed = hand_over_between(bench, false, rows[i].processes, 1);
        snprintf(name, sizeof name, "sqlite: hand-overs, %u processes", rows[i].processes);
        if (rows[i].bar > 0)
            bench_bar(bench, name, "/s", series_median(&handed.rate), rows[i].bar,
                      /* at_most */ false);
        snprintf(name, sizeof name, "sqlite: hand-overs, %u processes, least / most",
                 rows[i].processes);
        if (rows[i].processes >= 16)
            bench_bar(bench, name, "", series_median(&handed.fair), 0.8, /* at_most */ false);
    }
    (void)hand_over_between(bench, /* ceph */ false, 8, 64);
}

static void bench_handover_ceph(struct bench *bench)
{
    struct handed handed = hand_over_between(bench, /* ceph */ true, 16, 1);
    bench_bar(bench, "ceph: hand-overs, 16 processes", "/s", series_median(&handed.rate), 20,
              /* at_most */ false);
    bench_bar(bench, "ceph: requests a hand-over, 16 processes", "",
              series_median(&handed.requests), 6, /* at_most */ true);
}

/* ---- Dead waiters ---------------------------------------------------------------------- */

#define DEAD 7

/* Shared with the processes that wait. */
struct line {
    atomic_uint queued;
    atomic_bool granted;
    double granted_s;
};

/* Joins the queue, and waits to be killed, or for the lock. One that waits for the lock is in the
 * queue shortly after it says so. */
_Noreturn static void wait_in_queue(const char *url, struct line *line, bool dies)
{
    struct client opened;
    struct hf_lock *lock;
    struct hf_error error;
    client_open(&opened, url, NULL, NULL);
    must(hf_lock_new(opened.client, "baton", NULL, &lock, &error), &error, "new");
    if (dies && hf_lock_begin(lock, &error) != HF_HELD)
        bench_die("begin: %s", error.why);
    atomic_fetch_add(&line->queued, 1);
    while (dies)
        pause();
    must(hf_lock_acquire(lock, 60000, &error), &error, "acquire");
    line->granted_s = now_s();
    atomic_store(&line->granted, true);
    must(hf_lock_release(lock, &error), &error, "release");
    hf_lock_free(lock);
    client_close(&opened);
    _exit(0);
}

static pid_t start_waiter(const char *url, struct line *line, unsigned number, bool dies)
{
    pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0)
        wait_in_queue(url, line, dies);
    while (atomic_load(&line->queued) < number)
        env_sleep(env_real(), SPAN_MS(1));
    return pid;
}

/* One release with seven dead ahead of the next living waiter, in seconds. */
static double pass_over_dead(const char *url)
{
    struct line *line = bench_share_memory(sizeof *line);
    struct client opened;
    struct hf_lock *lock;
    struct hf_error error;
    pid_t pids[DEAD];
    client_open(&opened, url, NULL, NULL);
    must(hf_lock_new(opened.client, "baton", NULL, &lock, &error), &error, "new");
    must(hf_lock_acquire(lock, 0, &error), &error, "acquire");
    for (unsigned i = 0; i < DEAD; i++)
        pids[i] = start_waiter(url, line, i + 1, /* dies */ true);
    pid_t living = start_waiter(url, line, DEAD + 1, /* dies */ false);
    env_sleep(env_real(), SPAN_MS(700));
    for (unsigned i = 0; i < DEAD; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    double start = now_s();
    must(hf_lock_release(lock, &error), &error, "release");
    if (waitpid(living, NULL, 0) < 0 || !atomic_load(&line->granted))
        bench_die("the living waiter did not get the lock");
    double took = line->granted_s - start;
    hf_lock_free(lock);
    client_close(&opened);
    munmap(line, sizeof *line);
    return took;
}

static void measure_dead(struct bench *bench, bool ceph, double bar)
{
    struct series took = { .count = 0 };
    char url[700], name[100];
    for (size_t round = 0; round < bench->rounds; round++) {
        if (ceph)
            snprintf(url, sizeof url, "s3://" CEPH_BUCKET "/dead%zu?endpoint=%s&etag=bare",
                     round, bench_ceph());
        else
            new_store_url(url);
        series_add(&took, pass_over_dead(url));
    }
    snprintf(name, sizeof name, "%s: release to the next, with %d dead ahead",
             ceph ? "ceph" : "sqlite", DEAD);
    bench_figure(bench, name, "s", &took);
    bench_bar(bench, name, "s", series_median(&took), bar, /* at_most */ true);
}

static void bench_dead(struct bench *bench)
{
    measure_dead(bench, /* ceph */ false, 0.1);
}

static void bench_dead_ceph(struct bench *bench)
{
    measure_dead(bench, /* ceph */ true, 2.5);
}

/* ---- Pairs --------------------------------------------------------------------------- */

static void pair(struct worker *worker)
{
    char name[40];
    struct hf_lock *lock;
    struct hf_error error;
    snprintf(name, sizeof name, "own-%u-%u", worker->process, worker->thread);
    must(hf_lock_new(worker->client, name, NULL, &lock, &error), &error, "new");
    while (!atomic_load(&worker->crew->tally->over)) {
        must(hf_lock_acquire(lock, 0, &error), &error, "acquire");
        must(hf_lock_release(lock, &error), &error, "release");
        atomic_fetch_add(&worker->crew->tally->done, 1);
    }
    hf_lock_free(lock);
}

static void bench_pairs(struct bench *bench)
{
    static const unsigned crews[][2] = { { 1, 1 }, { 1, 16 }, { 1, 64 }, { 16, 1 }, { 64, 1 } };
    for (size_t i = 0; i < sizeof crews / sizeof crews[0]; i++) {
        struct series rate = { .count = 0 };
        char url[700], name[100];
        for (size_t round = 0; round < bench->rounds; round++) {
            new_store_url(url);
            struct crew crew = { .url = url,
                                 .processes = crews[i][0],
                                 .threads = crews[i][1],
                                 .seconds = bench->seconds,
                                 .work = pair };
            run_crew(&crew);
            series_add(&rate, (double)atomic_load(&crew.tally->done) / crew.took);
            end_crew(&crew);
        }
        snprintf(name, sizeof name, "sqlite: durable pairs, %u processes of %u threads",
                 crews[i][0], crews[i][1]);
        bench_figure(bench, name, "/s", &rate);
    }
}

/* ---- Pages --------------------------------------------------------------------------- */

#define PAGES_LOCKS    100000
#define PAGES_PREFIXES 1000
#define PAGES_COUNT    4096
#define FEW_LOCKS      100
#define ACQUIRES_MAX   20000

/* One side: a namespace with locks that stay, and the time that each further acquire takes. */
struct namespace_side {
    struct hf_client *client;
    uint64_t locks, prefixes;
    uint64_t next; /* draws the next path */
    double *took_us;
    size_t count;
};

static struct hf_client *client_in(struct hf_store *store, const char *ns)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *client;
    struct hf_error error;
    options.ns = ns;
    must(hf_client_open_on(store, &options, &client, &error), &error, "open");
    return client;
}

static struct hf_lock *lock_path(struct namespace_side *side, uint64_t number)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    struct hf_error error;
    char scope[80];
    options.ttl_ms = 3600000;
    options.no_renewal = true;
    snprintf(scope, sizeof scope, "path:/prefix-%llu/file-%llu",
             (unsigned long long)(number % side->prefixes), (unsigned long long)number);
    must(hf_lock_new(side->client, scope, &options, &lock, &error), &error, "new");
    return lock;
}

/* Takes the locks that stay. They outlive their handles. */
static void fill_namespace(struct hf_store *store, const char *ns, struct namespace_side *side)
{
    struct hf_error error;
    side->client = client_in(store, ns);
    for (uint64_t i = 0; i < side->locks; i++) {
        struct hf_lock *lock = lock_path(side, i);
        must(hf_lock_acquire(lock, 0, &error), &error, "acquire");
        hf_lock_detach(lock);
    }
    hf_client_close(side->client);
}

static void acquire_for(struct namespace_side *side, double seconds)
{
    struct hf_error error;
    for (double begun = now_s(); now_s() - begun < seconds && side->count < ACQUIRES_MAX;) {
        side->next = side->next * 6364136223846793005u + 1442695040888963407u;
        struct hf_lock *lock = lock_path(side, side->locks + (side->next >> 33));
        double before = now_s();
        must(hf_lock_acquire(lock, 0, &error), &error, "acquire");
        side->took_us[side->count++] = (now_s() - before) * 1e6;
        must(hf_lock_release(lock, &error), &error, "release");
        hf_lock_free(lock);
    }
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median_of(struct namespace_side *side)
{
    qsort(side->took_us, side->count, sizeof *side->took_us, by_value);
    double median = side->took_us[side->count / 2];
    side->count = 0;
    return median;
}

static void bench_pages_on(struct bench *bench, const char *kind, const char *quick,
                           const char *durable)
{
    struct hf_placement placement = { sizeof placement, PAGES_COUNT, 1 };
    struct namespace_side sides[] = { { .locks = PAGES_LOCKS, .prefixes = PAGES_PREFIXES },
                                      { .locks = FEW_LOCKS, .prefixes = 1 } };
    static const char *const names[] = { "many", "few" };
    struct series series[2] = { { .count = 0 }, { .count = 0 } };
    struct hf_error error;
    struct client filler, user;
    char name[100];
    client_open(&filler, quick, NULL, NULL);
    must(hf_namespace_create(filler.store, "many", &placement, &error), &error, "create");
    for (size_t i = 0; i < 2; i++)
        fill_namespace(filler.store, names[i], &sides[i]);
    client_close(&filler);
    client_open(&user, durable, NULL, NULL);
    for (size_t i = 0; i < 2; i++) {
        sides[i].client = client_in(user.store, names[i]);
        sides[i].took_us = calloc(ACQUIRES_MAX, sizeof *sides[i].took_us);
    }
    for (size_t round = 0; round < bench->rounds; round++)
        for (size_t i = 0; i < 2; i++) {
            acquire_for(&sides[i], bench->seconds);
            series_add(&series[i], median_of(&sides[i]));
        }
    for (size_t i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s: acquire of a path among %llu locks, p50", kind,
                 (unsigned long long)sides[i].locks);
        bench_figure(bench, name, "us", &series[i]);
        hf_client_close(sides[i].client);
        free(sides[i].took_us);
    }
    client_close(&user);
    snprintf(name, sizeof name, "%s: time among %d locks, in times of %d", kind, PAGES_LOCKS,
             FEW_LOCKS);
    bench_ratio_at_most(bench, name, &series[0], &series[1], 2);
}

static void bench_pages(struct bench *bench)
{
    char quick[720], durable[700];
    snprintf(durable, sizeof durable, "sqlite:%s/pages.db", bench_folder());
    snprintf(quick, sizeof quick, "%s?sync=off", durable);
    bench_pages_on(bench, "sqlite", quick, durable);
    snprintf(durable, sizeof durable, "dir:%s/pages", bench_folder());
    snprintf(quick, sizeof quick, "%s?sync=off", durable);
    bench_pages_on(bench, "dir", quick, durable);
}

/* ---- The program --------------------------------------------------------------------- */

#define RUNS 15

struct contender {
    const char *name;
    char *const *argv;
    struct series ms;
};

static double run_ms(char *const *argv)
{
    double start = now_s();
    int status;
    pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        bench_die("%s failed", argv[0]);
    return 1000 * (now_s() - start);
}

/* The median of some runs. */
static double median_ms(char *const *argv)
{
    struct series runs = { .count = 0 };
    for (int i = 0; i < RUNS; i++)
        series_add(&runs, run_ms(argv));
    return series_median(&runs);
}

/* All in turn, round by round, so other load of the machine affects all alike. */
static void run_in_turn(struct bench *bench, struct contender *contenders, size_t count)
{
    for (size_t round = 0; round < PAIRS; round++)
        for (size_t i = 0; i < count; i++)
            series_add(&contenders[i].ms, median_ms(contenders[i].argv));
    for (size_t i = 0; i < count && !bench->json; i++)
        printf("  %-52s %12.2f ms      (%.2f to %.2f, %zu rounds)\n", contenders[i].name,
               series_median(&contenders[i].ms), series_least(&contenders[i].ms),
               series_most(&contenders[i].ms), contenders[i].ms.count);
}

/* The number that a command of the shell prints. Without one, the machine cannot count this. */
static void print_count(struct bench *bench, const char *name, const char *command, double bar)
{
    double count;
    FILE *out = popen(command, "r");
    bool counted = out && fscanf(out, "%lf", &count) == 1;
    if (out)
        pclose(out);
    if (counted && bar > 0) {
        bench_bar(bench, name, "", count, bar, /* at_most */ true);
    } else if (counted) {
        struct series series = { .count = 0 };
        series_add(&series, count);
        bench_figure(bench, name, "", &series);
    } else if (!bench->json) {
        printf("  %-52s %12s         (it cannot be counted here)\n", name, "-");
    }
}

/* What does not depend on the load of the machine. */
static void count_run(struct bench *bench, const char *program, const char *url)
{
    char command[PATH_MAX + 1000];
    snprintf(command, sizeof command,
             "strace -f -qq -o '|grep -c \"sync(\"' -e trace=fsync,fdatasync,syncfs "
             "'%s' run --store '%s' x -- true 2>/dev/null",
             program, url);
    print_count(bench, "holdfast run x -- true: fsyncs", command, 2);
    snprintf(command, sizeof command,
             "perf stat -x, -e instructions:u '%s' run --store '%s' x -- true 2>&1", program,
             url);
    print_count(bench, "holdfast run x -- true: instructions", command, /* bar */ 0);
}

static void bench_run(struct bench *bench)
{
    char program[PATH_MAX], url[700], file[700], self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size < 0)
        bench_die("/proc/self/exe: %s", strerror(errno));
    self[size] = '\0';
    if (snprintf(program, sizeof program, "%s/../src/cli/holdfast", dirname(self)) >=
        (int)sizeof program)
        bench_die("the path is too long");
    new_store_url(url);
    snprintf(file, sizeof file, "%s/flock", bench_folder());
    char *none[] = { (char[]){ "true" }, NULL };
    char *flock[] = { (char[]){ "flock" }, file, (char[]){ "true" }, NULL };
    char *ours[] = { program,         (char[]){ "run" }, (char[]){ "--store" }, url,
                     (char[]){ "x" }, (char[]){ "--" },  (char[]){ "true" },    NULL };
    enum { NONE, FLOCK, OURS, COUNT };
    struct contender c[COUNT] = {
        [NONE] = { .name = "true", .argv = none },
        [FLOCK] = { .name = "flock FILE true (not durable, one machine)", .argv = flock },
        [OURS] = { .name = "holdfast run x -- true (sqlite, durable)", .argv = ours },
    };
    run_in_turn(bench, c, COUNT);
    bench_ratio_at_most(bench, "time of holdfast run, in times of flock", &c[OURS].ms,
                        &c[FLOCK].ms, 2.5);
    count_run(bench, program, url);
    bench_bar(bench, "holdfast run x -- true", "ms", series_median(&c[OURS].ms), 5,
              /* at_most */ true);
}

static const struct bench_part parts[] = {
    { "handover", bench_handover },
    { "dead", bench_dead },
    { "pairs", bench_pairs },
    { "pages", bench_pages },
    { "run", bench_run },
    { "ceph-handover", bench_handover_ceph },
    { "ceph-dead", bench_dead_ceph },
    { "contention", bench_contention },
    { "ceph-contention", bench_contention_ceph },
    { "ceph-crowds", bench_crowds_ceph },
    { NULL, NULL },
};

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = 5, .seconds = 2 };
    return bench_main(&bench, parts, argc, argv);
}
