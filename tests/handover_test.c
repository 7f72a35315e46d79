/* SPDX-License-Identifier: Apache-2.0 */
/* handover_test.c [GRANTS]: eight processes with 64 threads each pass one lock around on an
 * sqlite store. Each holder checks that it is alone by means that do not depend on leases: a
 * file created with O_EXCL, a counter in shared memory that is not atomic, a fenced counter
 * that is read and written back, and tokens that rise. A ninth process reads the table
 * meanwhile, and checks that the order of the queue is the order of the grants. */
#include "holdfast.h"
#include "lease/table.h"
#include "store/store.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES  8
#define THREADS    64
#define GRANTS_MAX 20000
#define ID_MAX     64
#define LOCK       "baton"
#define TABLE_KEY  "default/meta/" LOCK ".json"
#define COUNTER    "counter"

static unsigned grants = 10000;
static char folder[] = "/tmp/holdfast-handover-XXXXXX";
static char url[100], witness[100];

/* Shared between the processes. What is not atomic is guarded by the lock under test. */
struct baton {
    atomic_uint taken; /* grants that were begun */
    atomic_uint wrong; /* what must not happen, happened */
    unsigned count;    /* grants that were done */
    uint64_t last_token;
    unsigned crossed; /* went to another process */
    unsigned last_process;
    char ids[GRANTS_MAX][ID_MAX]; /* in the order of the grants */
    atomic_bool over;
};
static struct baton *baton;

static void wrong(const char *what, const char *why)
{
    atomic_fetch_add(&baton->wrong, 1);
    fprintf(stderr, "%s: %s\n", what, why);
}

/* Reads the fenced counter and writes it back, one higher. */
static void count_up(struct hf_client *client, struct hf_lock *lock)
{
    struct hf_error error;
    unsigned long value = 0;
    void *data;
    size_t size;
    char text[32] = "0";
    enum hf_status status =
        hf_fenced_get(client, COUNTER, sizeof text - 1, &data, &size, NULL, &error);
    if (status == HF_OK) {
        memcpy(text, data, size);
        text[size] = '\0';
        hf_free(data);
    } else if (status != HF_NOT_FOUND) {
        wrong("read", error.why);
    }
    value = strtoul(text, NULL, 10) + 1;
    snprintf(text, sizeof text, "%lu", value);
    if (value != baton->count + 1)
        wrong("count", "the fenced counter is not the number of grants");
    if (hf_fenced_put(lock, COUNTER, text, strlen(text), &error) != HF_OK)
        wrong("write", error.why);
}

static void note_grant(struct hf_lock *lock, unsigned process)
{
    char text[HF_LEASE_TEXT_MAX];
    struct hf_error error;
    uint64_t token = hf_lock_token(lock);
    if (token <= baton->last_token)
        wrong("token", "it did not rise");
    if (hf_lock_text(lock, text, &error) != HF_OK)
        wrong("text", error.why);
    char *id = strchr(text, ':') + 1;
    snprintf(baton->ids[baton->count], ID_MAX, "%.*s", (int)strcspn(id, ":"), id);
    baton->crossed += baton->count > 0 && process != baton->last_process;
    baton->last_token = token;
    baton->last_process = process;
}

static void hold(struct hf_client *client, struct hf_lock *lock, unsigned process)
{
    struct hf_error error;
    int fd = open(witness, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);
    if (fd < 0)
        wrong("witness", strerror(errno));
    if (hf_lock_check(lock, &error) != HF_OK)
        wrong("check", error.why);
    note_grant(lock, process);
    count_up(client, lock);
    baton->count++;
    if (fd >= 0) {
        close(fd);
        unlink(witness);
    }
}

struct runner {
    struct hf_client *client;
    unsigned process;
    pthread_t id;
};

static void *pass_on(void *argument)
{
    struct runner *runner = argument;
    struct hf_lock *lock;
    struct hf_error error;
    if (hf_lock_new(runner->client, LOCK, NULL, &lock, &error) != HF_OK) {
        wrong("new", error.why);
        return NULL;
    }
    while (atomic_fetch_add(&baton->taken, 1) < grants) {
        if (hf_lock_acquire(lock, 600000, &error) != HF_OK) {
            wrong("acquire", error.why);
            break;
        }
        hold(runner->client, lock, runner->process);
        if (hf_lock_release(lock, &error) != HF_OK)
            wrong("release", error.why);
    }
    hf_lock_free(lock);
    return NULL;
}

static void run_process(unsigned process)
{
    struct runner runners[THREADS];
    struct hf_client *client;
    struct hf_error error;
    if (hf_client_open(url, NULL, &client, &error) != HF_OK) {
        wrong("open", error.why);
        return;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){ client, process, 0 };
        pthread_create(&runners[i].id, NULL, pass_on, &runners[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(runners[i].id, NULL);
    hf_client_close(client);
}

/* ---- The order ----------------------------------------------------------------------- */

/* Lines of waiters, as they stood in the table at some moments. */
#define LINES_MAX 200
struct line {
    size_t count;
    char ids[PROCESSES * THREADS][ID_MAX];
};
static struct line *lines;
static size_t line_count;

static void look_at_line(struct store *store)
{
    struct buffer text = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct get_call get = { .key = VIEW(TABLE_KEY), .body = &text };
    struct lease_table *table;
    struct hf_error error;
    if (line_count < LINES_MAX && store_get(store, &get) == HF_OK &&
        table_decode(buffer_view(&text), get.stamp.received, NULL, &table, &error) == HF_OK) {
        struct line *line = &lines[line_count++];
        line->count = table->waiter_count;
        for (size_t i = 0; i < table->waiter_count && i < PROCESSES * THREADS; i++)
            snprintf(line->ids[i], ID_MAX, "%.*s",
                     VIEW_ARGS(table->waiters[i].wanted->asked.id));
        table_free(table);
    }
    buffer_release(&text);
}

/* When an id was granted; GRANTS_MAX when it never was. */
static unsigned granted_at(const char *id)
{
    for (unsigned i = 0; i < baton->count; i++)
        if (strcmp(baton->ids[i], id) == 0)
            return i;
    return GRANTS_MAX;
}

/* Pairs of neighbours that were granted in another order than they stood in line. Those that
 * were never granted lost their place: they were too slow. */
static size_t overtakings(const struct line *line, size_t *ret_pairs)
{
    size_t bad = 0;
    unsigned last = 0;
    for (size_t i = 0; i < line->count; i++) {
        unsigned at = granted_at(line->ids[i]);
        if (at == GRANTS_MAX)
            continue;
        bad += at < last;
        last = at;
        (*ret_pairs)++;
    }
    return bad;
}

static void never_two_hold_it_tokens_rise_and_the_line_is_kept(void **state)
{
    (void)state;
    struct store *store;
    struct hf_error error;
    int status;
    pid_t pids[PROCESSES];
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((pids[i] = fork()) == 0) {
            run_process(i);
            _exit(0);
        }
    assert_int_equal(store_open(env_real(), view_of(url), &store, &error), HF_OK);
    struct mono_time start = env_now(env_real());
    for (unsigned left = PROCESSES; left > 0;) {
        look_at_line(store);
        env_sleep(env_real(), SPAN_MS(50));
        for (unsigned i = 0; i < PROCESSES; i++)
            if (pids[i] > 0 && waitpid(pids[i], &status, WNOHANG) == pids[i]) {
                assert_int_equal(status, 0);
                pids[i] = 0;
                left--;
            }
    }
    double seconds = (double)mono_since(env_now(env_real()), start).us / 1e6;
    store_close(store);
    size_t bad = 0, pairs = 0;
    for (size_t i = 0; i < line_count; i++)
        bad += overtakings(&lines[i], &pairs);
    printf("# %u grants in %.1f s: %.0f a second, %u of them to another process; %zu places in "
           "line seen, %zu overtaken\n",
           baton->count, seconds, baton->count / seconds, baton->crossed, pairs, bad);
    assert_int_equal(atomic_load(&baton->wrong), 0);
    assert_int_equal(baton->count, grants);
    assert_true(pairs > 0);
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        grants = (unsigned)strtoul(argv[1], NULL, 10);
    if (grants > GRANTS_MAX || !mkdtemp(folder))
        return 1;
    snprintf(url, sizeof url, "sqlite:%s/store.db", folder);
    snprintf(witness, sizeof witness, "%s/witness", folder);
    baton =
        mmap(NULL, sizeof *baton, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    lines = calloc(LINES_MAX, sizeof *lines);
    if (baton == MAP_FAILED || !lines)
        return 1;
    const struct CMUnitTest tests[] = {
        IT("of eight processes with 64 threads each one holds the lock, in order of the line",
           never_two_hold_it_tokens_rise_and_the_line_is_kept),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    free(lines);
    return system(command) != 0 || failed;
}
