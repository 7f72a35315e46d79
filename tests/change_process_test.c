/* SPDX-License-Identifier: Apache-2.0 */
/* change_process_test.c: many processes on one `sqlite:` store. They change documents in one
 * step, and some are killed. Every change that was reported as done must be there once. Nobody
 * may get a conflict or wait for ever. The WAL that remains after the last close must stay
 * short, lose nothing, and be readable without write permission. */
#include "holdfast.h"
#include "sqlite_steps.h"
#include "store/observe.h"
#include "tally.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 8
#define TASKS     8
#define DOCS      3
#define KILLS_MAX 16 /* (PROCESSES + KILLS_MAX) * TASKS lives have a counter each */
#define RUN_FOR   SPAN_S(3)

static_assert((PROCESSES + KILLS_MAX) * TASKS <= TALLY_SLOTS, "each has a counter of its own");

static struct mono_time now(void)
{
    return env_now(env_real());
}

static struct mono_time after(struct span span)
{
    return mono_add(now(), span);
}

static void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/* ---- Documents that many processes change -------------------------------------------- */

static const char *const doc_names[DOCS] = { "first", "second", "third" };

/* Shared between the processes. */
struct office {
    atomic_uint conflicts, strange;
    struct mono_time end;
    atomic_uint_fast64_t told[TALLY_SLOTS][DOCS]; /* the last that was told OK */
};

static struct office *office;

static void see_conflict(void *argument, const struct observation *seen)
{
    (void)argument;
    if (seen->error->status == HF_CONFLICT)
        atomic_fetch_add(&office->conflicts, 1);
}

struct clerk {
    struct doc *const *docs;
    size_t slot;
};

/* One after the other, in any of the documents, each with the number behind the last. */
static void work(void *argument)
{
    const struct clerk *clerk = argument;
    struct env *env = env_real();
    while (mono_before(now(), office->end)) {
        size_t which = (size_t)env_random_below(env, DOCS);
        uint64_t number = atomic_load(&office->told[clerk->slot][which]) + 1;
        struct raise raise = raise_of(env, clerk->slot, number);
        if (doc_update(clerk->docs[which], &raise.op) == HF_OK) {
            atomic_store(&office->told[clerk->slot][which], number);
        } else {
            fprintf(stderr, "raise: %s\n", raise.op.error.why);
            atomic_fetch_add(&office->strange, 1);
            return;
        }
    }
}

static int run_clerks(size_t first_slot)
{
    struct hf_error error;
    struct store *store = NULL;
    struct doc_clock clock;
    struct doc *docs[DOCS];
    struct clerk clerks[TASKS];
    struct env_task *tasks[TASKS];
    const struct observer observer = { see_conflict, NULL };
    assert_status(HF_OK, store_observe(open_store("s"), observer, &store, &error), &error);
    clock_init(&clock, store);
    for (size_t i = 0; i < DOCS; i++)
        assert_status(HF_OK,
                      doc_new(store, &clock, view_of(doc_names[i]), &tally_type, NULL, &docs[i],
                              &error),
                      &error);
    for (size_t i = 0; i < TASKS; i++) {
        clerks[i] = (struct clerk){ docs, first_slot + i };
        assert_status(HF_OK, env_task_start(env_real(), work, &clerks[i], &tasks[i], &error),
                      &error);
    }
    for (size_t i = 0; i < TASKS; i++)
        env_task_join(env_real(), tasks[i]);
    for (size_t i = 0; i < DOCS; i++)
        doc_free(docs[i]);
    clock_release(&clock);
    store_close(store);
    return 0;
}

static pid_t start_clerks(size_t first_slot)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        _exit(run_clerks(first_slot));
    }
    return pid;
}

/* So that no birth conflicts with another. */
static void make_documents(void)
{
    struct store *store = open_store("s");
    for (size_t i = 0; i < DOCS; i++)
        put_text(store, doc_names[i], VIEW("0123456789abcdef0123456789abcdef\n0\n"));
    store_close(store);
}

/* One whose process was killed may have done one more than it was told. */
static uint64_t check_documents(const bool *killed)
{
    struct store *store = open_store("s");
    uint64_t total = 0;
    for (size_t i = 0; i < DOCS; i++) {
        struct tally tally = tally_read(store, view_of(doc_names[i]));
        for (size_t slot = 0; slot < TALLY_SLOTS; slot++) {
            uint64_t told = atomic_load(&office->told[slot][i]);
            uint64_t more = tally.counts[slot] - told;
            if (more != 0 && !(more == 1 && killed[slot / TASKS]))
                fail_msg("%s: counter %zu was told %llu, and is %llu", doc_names[i], slot,
                         (unsigned long long)told, (unsigned long long)tally.counts[slot]);
            total += told;
        }
    }
    store_close(store);
    return total;
}

static void what_was_told_is_there_once(void **state)
{
    (void)state;
    pid_t pids[PROCESSES];
    size_t lives[PROCESSES]; /* which set of counters it has */
    bool killed[TALLY_SLOTS / TASKS] = { false };
    size_t life = 0;
    unsigned kills = 0;
    office = shared_memory(sizeof *office);
    office->end = after(RUN_FOR);
    make_documents();
    for (; life < PROCESSES; life++) {
        lives[life] = life;
        pids[life] = start_clerks(life * TASKS);
    }
    for (; kills < KILLS_MAX && mono_before(now(), office->end); kills++, life++) {
        env_sleep(env_real(), env_jitter(env_real(), SPAN_MS(300)));
        size_t victim = (size_t)env_random_below(env_real(), PROCESSES);
        kill(pids[victim], SIGKILL);
        waitpid(pids[victim], NULL, 0);
        killed[lives[victim]] = true;
        lives[victim] = life;
        pids[victim] = start_clerks(life * TASKS);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        int status = 1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    uint64_t total = check_documents(killed);
    assert_int_equal(atomic_load(&office->strange), 0);
    assert_int_equal(atomic_load(&office->conflicts), 0);
    assert_true(kills > 3 && total > 100);
    print_message("# %llu changes, %u kills, no conflict\n", (unsigned long long)total, kills);
    munmap(office, sizeof *office);
}

/* ---- Locks --------------------------------------------------------------------------- */

struct door {
    atomic_bool open; /* the other one is in its loop */
    atomic_bool closed;
    atomic_uint rounds, strange;
};

static struct door *door;

static struct hf_lock *new_lock(struct hf_client **ret_client)
{
    char url[4200];
    struct hf_error error;
    struct hf_lock *lock = NULL;
    snprintf(url, sizeof url, "sqlite:%s", in_dir("s"));
    assert_status(HF_OK, hf_client_open(url, NULL, ret_client, &error), &error);
    assert_status(HF_OK, hf_lock_new(*ret_client, "deploy", NULL, &lock, &error), &error);
    return lock;
}

static void be_greedy(void)
{
    struct hf_client *client;
    struct hf_error error;
    struct hf_lock *lock = new_lock(&client);
    while (!atomic_load(&door->closed)) {
        if (hf_lock_acquire(lock, 10000, &error) != HF_OK ||
            hf_lock_release(lock, &error) != HF_OK) {
            fprintf(stderr, "greedy: %s\n", error.why);
            atomic_fetch_add(&door->strange, 1);
        }
        atomic_fetch_add(&door->rounds, 1);
        atomic_store(&door->open, true);
    }
    hf_lock_free(lock);
    hf_client_close(client);
}

#define TURNS 20

static void nobody_is_kept_out_by_a_tight_loop(void **state)
{
    (void)state;
    door = shared_memory(sizeof *door);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        be_greedy();
        _exit(0);
    }
    struct hf_client *client;
    struct hf_error error;
    struct hf_lock *lock = new_lock(&client);
    int64_t slowest_us = 0;
    for (int i = 0; i < TURNS; i++) {
        unsigned rounds = atomic_load(&door->rounds);
        struct mono_time patience = after(SPAN_S(10));
        while (atomic_load(&door->rounds) < rounds + 3 && mono_before(now(), patience))
            env_sleep(env_real(), SPAN_MS(1)); /* it is in full swing */
        struct mono_time start = now();
        assert_status(HF_OK, hf_lock_acquire(lock, 1000, &error), &error);
        int64_t took_us = mono_since(now(), start).us;
        slowest_us = took_us > slowest_us ? took_us : slowest_us;
        assert_status(HF_OK, hf_lock_release(lock, &error), &error);
    }
    atomic_store(&door->closed, true);
    int status = 1;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(atomic_load(&door->strange), 0);
    print_message("# %u rounds beside it, the slowest of %d turns after %lld us\n",
                  atomic_load(&door->rounds), TURNS, (long long)slowest_us);
    hf_lock_free(lock);
    hf_client_close(client);
    munmap(door, sizeof *door);
}

/* ---- The log that stays -------------------------------------------------------------- */

#define PAGE_BYTES 4096

/* What is not copied back when a store is closed, and what one put may add to it. */
#define LOG_MAX ((64 + 16) * (PAGE_BYTES + 24) + 32)

static size_t log_size(void)
{
    struct stat st;
    return stat(in_dir("s-wal"), &st) == 0 ? (size_t)st.st_size : 0;
}

static void the_log_that_stays_is_short(void **state)
{
    (void)state;
    char key[16];
    size_t longest = 0;
    bool stayed = false;
    for (int i = 0; i < 200; i++) {
        struct store *store = open_store("s");
        snprintf(key, sizeof key, "k%d", i);
        put_text(store, key, (struct view){ big, 1000 });
        store_close(store);
        longest = log_size() > longest ? log_size() : longest;
        stayed = stayed || log_size() > 0;
    }
    print_message("# the log had at most %zu bytes\n", longest);
    assert_true(stayed && longest <= LOG_MAX);
    struct store *store = open_store("s");
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_holds(store, key, (struct view){ big, 1000 });
    }
    store_close(store);
}

/* Writes until it is killed, and tells of each write. */
static void write_and_tell(int out)
{
    char key[16];
    struct store *store = open_store("s");
    for (int i = 0;; i++) {
        snprintf(key, sizeof key, "k%d", i);
        put_text(store, key, VIEW("x"));
        if (write(out, &i, sizeof i) != sizeof i)
            _exit(1);
    }
}

static void a_kill_loses_nothing_that_was_told(void **state)
{
    (void)state;
    store_close(open_store("s"));
    for (int round = 0; round < 10; round++) {
        int ends[2], last = -1, told;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_and_tell(ends[1]);
        close(ends[1]);
        while (last < 5 + round && read(ends[0], &told, sizeof told) == sizeof told)
            last = told;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        while (read(ends[0], &told, sizeof told) == sizeof told)
            last = told;
        close(ends[0]);
        assert_true(last >= 5);
        struct store *store = open_store("s");
        for (int i = 0; i <= last; i++) {
            char key[16];
            snprintf(key, sizeof key, "k%d", i);
            assert_holds(store, key, VIEW("x"));
            struct delete_call gone = { .key = view_of(key) };
            assert_status(HF_OK, store_delete(store, &gone), &gone.error);
        }
        store_close(store);
    }
}

static int read_it(void)
{
    struct store *store = open_store("s");
    assert_holds(store, "k", VIEW("in the log"));
    assert_holds(store, "large", (struct view){ big, LARGE });
    struct put_call call = { .key = VIEW("k"), .body = VIEW("2") };
    assert_status(HF_DENIED, store_put(store, &call), &call.error);
    struct change_call change = { .key = VIEW("k") };
    assert_status(HF_UNSUPPORTED, store_change(store, &change), &change.error);
    store_close(store);
    return 0;
}

static int read_it_as_nobody(void)
{
    if (geteuid() != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        return 99;
    return read_it();
}

static void who_may_only_read_reads_the_log_that_stayed(void **state)
{
    (void)state;
    assert_int_equal(chmod(dir, 0755), 0);
    struct store *store = open_store("s");
    put_text(store, "large", (struct view){ big, LARGE });
    put_text(store, "k", VIEW("in the log"));
    store_close(store);
    assert_true(log_size() > 0);
    int status = in_child(read_it_as_nobody);
    if (status == 99)
        skip();
    assert_int_equal(status, 0);
    assert_true(log_size() > 0);
    store = open_store("s");
    assert_holds(store, "k", VIEW("in the log"));
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("of what eight processes change and are told, all is there once, whoever is killed",
           what_was_told_is_there_once),
        IT("a process in a tight loop does not keep another out",
           nobody_is_kept_out_by_a_tight_loop),
        IT("the log that stays behind is short, however often the store is opened",
           the_log_that_stays_is_short),
        IT("a kill loses nothing that was told", a_kill_loses_nothing_that_was_told),
        IT("who may only read reads the log that stayed behind",
           who_may_only_read_reads_the_log_that_stayed),
    };
    return sqlite_steps_run(tests, sizeof tests / sizeof tests[0]);
}
