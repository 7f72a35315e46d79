/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_queue_test.c: processes that write to one `sqlite:` store queue for its lock. Nobody
 * starves, nobody waits for the dead or for long, and a store that only one process writes to has
 * no queue. */
#include "env/env.h"
#include "store/sqlite/queue.h"
#include "store/store.h"
#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 8
#define RUN_FOR   SPAN_MS(600)

static char *folder;
static char database[4200], writers[4300], url[4300];

static void start(void)
{
    folder = test_dir_make();
    snprintf(database, sizeof database, "%s/s.db", folder);
    snprintf(writers, sizeof writers, "%s" WRITE_QUEUE_ENDING, database);
    snprintf(url, sizeof url, "sqlite:%s?sync=off", database);
    FILE *file = fopen(database, "w"); /* which gives the queue its mode */
    assert_non_null(file);
    fclose(file);
}

static void finish(void)
{
    test_dir_remove(folder);
}

static struct write_queue queue_new(void)
{
    struct write_queue queue;
    write_queue_init(&queue, env_real(), database);
    return queue;
}

static int64_t ms_since(struct mono_time begun)
{
    return mono_since(env_now(env_real()), begun).us / 1000;
}

static void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

/* Waits until another process says so; leases of the test end a process that does not. */
static void await_true(atomic_bool *flag)
{
    while (!atomic_load(flag))
        env_sleep(env_real(), SPAN_MS(1));
}

/* ---- Turns --------------------------------------------------------------------------- */

static void the_first_need_not_wait(void **state)
{
    (void)state;
    start();
    struct write_queue queue = queue_new();
    write_queue_enter(&queue); /* has not joined: nothing happens */
    assert_null(queue.page);
    assert_int_equal(access(writers, F_OK), -1);
    for (int i = 0; i < 1000; i++) {
        assert_false(write_queue_wait(&queue)); /* it is its turn at once */
        write_queue_leave(&queue);
        write_queue_leave(&queue); /* does nothing */
    }
    assert_int_equal(access(writers, F_OK), 0);
    write_queue_release(&queue);
    finish();
}

/* The second is called when the first leaves. */
struct pair {
    atomic_bool first_in, second_drew;
};

static void a_turn_comes_when_the_one_before_ends(void **state)
{
    (void)state;
    start();
    struct pair *pair = shared_memory(sizeof *pair);
    pid_t child = fork();
    if (child == 0) {
        struct write_queue queue = queue_new();
        write_queue_wait(&queue);
        atomic_store(&pair->first_in, true);
        await_true(&pair->second_drew);
        env_sleep(env_real(), SPAN_MS(5));
        write_queue_leave(&queue);
        env_sleep(env_real(), SPAN_S(10)); /* keeps its seat until it is killed */
        _exit(0);
    }
    await_true(&pair->first_in);
    struct write_queue queue = queue_new();
    struct mono_time begun = env_now(env_real());
    atomic_store(&pair->second_drew, true);
    write_queue_wait(&queue);
    int64_t took = ms_since(begun);
    assert_false(write_queue_wait(&queue)); /* our turn */
    write_queue_leave(&queue);
    assert_true(took < 5000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    write_queue_release(&queue);
    munmap(pair, sizeof *pair);
    finish();
}

/* A process that has its turn and then ends, or stays. */
static pid_t start_holder(atomic_bool *in, bool stays)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    struct write_queue queue = queue_new();
    write_queue_wait(&queue);
    atomic_store(in, true);
    while (stays)
        pause();
    _exit(0);
}

static void the_dead_are_passed_over(void **state)
{
    (void)state;
    start();
    atomic_bool *in = shared_memory(sizeof *in);
    struct write_queue queue = queue_new();
    int64_t least = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        atomic_store(in, false);
        waitpid(start_holder(in, /* stays */ false), NULL, 0);
        assert_true(atomic_load(in));
        struct mono_time begun = env_now(env_real());
        write_queue_wait(&queue);
        int64_t took = ms_since(begun);
        least = took < least ? took : least;
        assert_false(write_queue_wait(&queue)); /* our turn */
        write_queue_leave(&queue);
    }
    assert_true(least < QUEUE_WAIT.us / 1000 - QUEUE_SLICE_MS); /* not only at the end */
    write_queue_release(&queue);
    munmap(in, sizeof *in);
    finish();
}

static void nobody_waits_long_for_the_stopped(void **state)
{
    (void)state;
    start();
    atomic_bool *in = shared_memory(sizeof *in);
    pid_t child = start_holder(in, /* stays */ true);
    await_true(in);
    struct write_queue queue = queue_new();
    struct mono_time begun = env_now(env_real());
    assert_true(write_queue_wait(&queue));
    assert_true(ms_since(begun) >= QUEUE_WAIT.us / 1000 - QUEUE_SLICE_MS);
    assert_true(ms_since(begun) < 5000); /* on a busy machine */
    write_queue_leave(&queue);
    /* The next one does not wait for it again. */
    begun = env_now(env_real());
    for (int i = 0; i < 1000; i++) {
        assert_false(write_queue_wait(&queue));
        write_queue_leave(&queue);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    write_queue_release(&queue);
    munmap(in, sizeof *in);
    finish();
}

/* Those who leave without their turn do not hold up those behind them. */
static void a_place_that_was_given_up_is_skipped(void **state)
{
    (void)state;
    start();
    atomic_bool *in = shared_memory(sizeof *in);
    pid_t child = start_holder(in, /* stays */ true);
    await_true(in);
    struct write_queue second = queue_new(), third = queue_new();
    assert_true(write_queue_wait(&second)); /* has passed over the first: it is its turn */
    assert_true(write_queue_wait(&third));  /* and the second over in the same way */
    write_queue_leave(&third);
    write_queue_leave(&second);
    assert_false(write_queue_wait(&second));
    write_queue_leave(&second);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    write_queue_release(&second);
    write_queue_release(&third);
    munmap(in, sizeof *in);
    finish();
}

/* ---- Turns that are kept ------------------------------------------------------------- */

/* As after many writes in quick succession: the turn will be kept if another process waits. */
static void look_busy(struct write_queue *queue)
{
    queue->kept.returns = UINT32_MAX / 2;
    queue->kept.since = env_now(env_real());
}

/* A process that waits for its turn, and ends it at once. */
static pid_t start_next(atomic_bool *waits)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    struct write_queue queue = queue_new();
    atomic_store(waits, true);
    write_queue_wait(&queue);
    bool ours = !write_queue_wait(&queue);
    write_queue_leave(&queue);
    _exit(ours ? 0 : 1);
}

static bool next_had_its_turn(pid_t child)
{
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Keeps its turn after a write, with another process behind it. On a busy machine, the other may
 * already have passed over it by then. */
static pid_t keep_before_another(struct write_queue *queue, atomic_bool *waits)
{
    for (int i = 0; i < 50; i++) {
        atomic_store(waits, false);
        write_queue_wait(queue);
        pid_t next = start_next(waits);
        await_true(waits);
        env_sleep(env_real(), SPAN_MS(10)); /* until it has drawn its number */
        look_busy(queue);
        write_queue_leave(queue);
        if (queue->kept.now)
            return next;
        next_had_its_turn(next);
    }
    fail_msg("no turn was kept");
    return -1;
}

static void a_turn_that_is_kept_in_vain_is_taken_soon(void **state)
{
    (void)state;
    start();
    atomic_bool *waits = shared_memory(sizeof *waits);
    struct write_queue queue = queue_new();
    int64_t least = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        pid_t next = keep_before_another(&queue, waits);
        struct mono_time kept = env_now(env_real());
        assert_true(next_had_its_turn(next));
        least = ms_since(kept) < least ? ms_since(kept) : least;
        write_queue_enter(&queue); /* sees that its turn was taken, and draws another number */
        assert_false(queue.kept.now);
        write_queue_leave(&queue);
    }
    assert_true(least < QUEUE_SLICE_MS);
    write_queue_release(&queue);
    munmap(waits, sizeof *waits);
    finish();
}

static void a_turn_is_kept_for_a_few_writes_only(void **state)
{
    (void)state;
    start();
    atomic_bool *waits = shared_memory(sizeof *waits);
    struct write_queue queue = queue_new();
    pid_t next = keep_before_another(&queue, waits);
    uint32_t number = queue.number, writes = 1;
    while (queue.kept.now && writes < 1000) {
        write_queue_enter(&queue);
        if (queue.number != number) /* the other process has taken the turn */
            break;
        look_busy(&queue);
        write_queue_leave(&queue);
        writes++;
    }
    assert_true(writes <= QUEUE_KEPT_WRITES_MAX);
    assert_true(next_had_its_turn(next));
    write_queue_leave(&queue);
    write_queue_release(&queue);
    munmap(waits, sizeof *waits);
    finish();
}

/* Nobody need wait for a client that was closed while its turn was kept. */
static void a_turn_that_is_kept_ends_with_its_store(void **state)
{
    (void)state;
    start();
    atomic_bool *waits = shared_memory(sizeof *waits);
    struct write_queue queue = queue_new();
    pid_t next = keep_before_another(&queue, waits);
    write_queue_release(&queue);
    assert_true(next_had_its_turn(next));
    munmap(waits, sizeof *waits);
    finish();
}

/* ---- The file ------------------------------------------------------------------------ */

#define FILE_BYTES 8192
#define MAGIC      "holdfast queue 1"

static void fill_bytes(const char *bytes, size_t size)
{
    FILE *file = fopen(writers, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void fill(const char *text)
{
    fill_bytes(text, strlen(text));
}

static void a_file_of_another_kind_is_left_alone(void **state)
{
    (void)state;
    char bytes[8193], after[8192];
    start();
    memset(bytes, 'x', sizeof bytes);
    bytes[8192] = '\0';
    static const char *const texts[] = { "not a queue", NULL };
    for (int i = 0; i < 2; i++) {
        const char *text = texts[i] ? texts[i] : bytes;
        fill(text);
        struct write_queue queue = queue_new();
        assert_false(write_queue_wait(&queue));
        assert_true(queue.unusable && !queue.page);
        write_queue_leave(&queue);
        write_queue_release(&queue);
        int fd = open(writers, O_RDONLY);
        assert_int_equal(read(fd, after, sizeof after), (ssize_t)strlen(text));
        assert_memory_equal(after, text, strlen(text));
        close(fd);
    }
    finish();
}

static void an_empty_file_is_filled(void **state)
{
    (void)state;
    struct stat st;
    start();
    fill(""); /* its creator has died */
    struct write_queue queue = queue_new();
    assert_false(write_queue_wait(&queue));
    assert_non_null(queue.page);
    write_queue_leave(&queue);
    write_queue_release(&queue);
    assert_int_equal(stat(writers, &st), 0);
    assert_int_equal(st.st_size, 8192);
    finish();
}

/* A process was killed while it filled the file, or the disk was full, or the power failed. */
static void a_file_that_was_not_finished_is_filled(void **state)
{
    (void)state;
    static const char ours[FILE_BYTES] = MAGIC, zeros[FILE_BYTES];
    static const char other[FILE_BYTES] = { [FILE_BYTES - 1] = 'x' };
    static const struct {
        const char *bytes;
        size_t size;
        bool filled;
    } rows[] = {
        { ours, 3, true },
        { ours, 16, true },
        { ours, 4096, true },
        { ours, FILE_BYTES, true },
        { zeros, 100, true },
        { zeros, FILE_BYTES, true },
        { other, FILE_BYTES, false },
        { MAGIC "!", 17, false },
    };
    char after[FILE_BYTES];
    start();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fill_bytes(rows[i].bytes, rows[i].size);
        struct write_queue queue = queue_new();
        assert_false(write_queue_wait(&queue));
        assert_int_equal(queue.page != NULL, rows[i].filled);
        write_queue_leave(&queue);
        write_queue_release(&queue);
        int fd = open(writers, O_RDONLY);
        ssize_t size = read(fd, after, sizeof after);
        assert_int_equal(size, rows[i].filled ? FILE_BYTES : (ssize_t)rows[i].size);
        assert_memory_equal(after, rows[i].filled ? MAGIC : rows[i].bytes, 16);
        close(fd);
    }
    finish();
}

/* The numbers of a new file, which follow its first 16 bytes. */
static void fill_numbers(uint32_t next, uint32_t serving)
{
    static char bytes[FILE_BYTES] = MAGIC;
    const uint32_t numbers[] = { next, serving };
    memcpy(bytes + 16, numbers, sizeof numbers);
    fill_bytes(bytes, sizeof bytes);
}

/* Whatever the numbers are, the first need not wait, and the second waits for the first. */
static void no_numbers_stop_the_queue(void **state)
{
    (void)state;
    static const uint32_t rows[][2] = {
        { 0, 0 },
        { UINT32_MAX, UINT32_MAX },
        { UINT32_MAX - 1, UINT32_MAX - 1 },
        { 5, 1000 },
        { 0, UINT32_MAX },
        { UINT32_C(1) << 30, 5 },
        { 5, UINT32_C(1) << 31 },
        { UINT32_C(1) << 31, 0 },
        { 0, UINT32_C(3) << 30 },
    };
    start();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fill_numbers(rows[i][0], rows[i][1]);
        struct write_queue first = queue_new(), second = queue_new();
        for (int turn = 0; turn < 3; turn++) {
            /* One number that nobody has may be passed over at first. */
            bool waited = write_queue_wait(&first);
            assert_true(!waited || (turn == 0 && rows[i][0] - rows[i][1] == 1));
            assert_true(write_queue_wait(&second));
            write_queue_leave(&first);
            assert_false(write_queue_wait(&second));
            write_queue_leave(&second);
        }
        write_queue_release(&first);
        write_queue_release(&second);
        assert_int_equal(unlink(writers), 0);
    }
    finish();
}

/* A shared lock of a reader on a seat would keep a writer from taking it. */
static void only_who_may_write_may_open_the_queue(void **state)
{
    (void)state;
    static const mode_t rows[][2] = { { 0644, 0600 }, { 0664, 0660 }, { 0666, 0666 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stat st;
        start();
        assert_int_equal(chmod(database, rows[i][0]), 0);
        struct write_queue queue = queue_new();
        assert_false(write_queue_wait(&queue));
        assert_int_equal(stat(writers, &st), 0);
        assert_int_equal(st.st_mode & 07777, rows[i][1]);
        write_queue_leave(&queue);
        write_queue_release(&queue);
        finish();
    }
}

static void no_store_is_named_like_a_queue(void **state)
{
    (void)state;
    start();
    char name[4400];
    struct store *store;
    struct hf_error error;
    snprintf(name, sizeof name, "sqlite:%s", writers);
    assert_int_equal(store_open(env_real(), view_of(name), &store, &error), HF_INVALID);
    assert_non_null(strstr(error.why, WRITE_QUEUE_ENDING));
    finish();
}

/* ---- A store ------------------------------------------------------------------------- */

struct crowd {
    atomic_uint opened; /* so many have opened the store, and wait until they may write */
    atomic_bool go;
    atomic_bool over;
    atomic_ulong done[PROCESSES];
    atomic_uint failed;
};

static void write_until_over(struct crowd *crowd, size_t number)
{
    struct store *store;
    struct hf_error error;
    char key[16];
    snprintf(key, sizeof key, "own-%zu", number);
    if (store_open(env_real(), view_of(url), &store, &error) != HF_OK) {
        atomic_fetch_add(&crowd->failed, 1);
        return;
    }
    atomic_fetch_add(&crowd->opened, 1);
    await_true(&crowd->go);
    while (!atomic_load(&crowd->over)) {
        struct put_call put = { .key = view_of(key), .body = VIEW("x") };
        if (store_put(store, &put) == HF_OK)
            atomic_fetch_add(&crowd->done[number], 1);
        else
            atomic_fetch_add(&crowd->failed, 1);
    }
    store_close(store);
}

static pid_t start_writer(struct crowd *crowd, size_t number)
{
    pid_t child = fork();
    if (child == 0) {
        write_until_over(crowd, number);
        _exit(0);
    }
    return child;
}

/* Whether the process that wrote least wrote at least an eighth as often as the one that wrote
 * most. */
static bool is_run_fair(void)
{
    start();
    struct crowd *crowd = shared_memory(sizeof *crowd);
    pid_t children[PROCESSES];
    for (size_t i = 0; i < PROCESSES; i++)
        children[i] = start_writer(crowd, i);
    while (atomic_load(&crowd->opened) < PROCESSES)
        env_sleep(env_real(), SPAN_MS(1));
    atomic_store(&crowd->go, true);
    env_sleep(env_real(), RUN_FOR);
    atomic_store(&crowd->over, true);
    unsigned long least = ULONG_MAX, most = 0;
    for (size_t i = 0; i < PROCESSES; i++) {
        waitpid(children[i], NULL, 0);
        unsigned long done = atomic_load(&crowd->done[i]);
        least = done < least ? done : least;
        most = done > most ? done : most;
    }
    print_message("the least %lu, the most %lu\n", least, most);
    assert_int_equal(atomic_load(&crowd->failed), 0);
    assert_int_equal(access(writers, F_OK), 0);
    assert_true(least > 0);
    munmap(crowd, sizeof *crowd);
    finish();
    return least >= most / 8;
}

/* A loaded machine may keep a process from running for a while, so it has several tries, and the
 * bound is generous: without the queue, the ratio is near 0. */
static void no_process_starves(void **state)
{
    (void)state;
    bool fair = false;
    for (int i = 0; i < 8 && !fair; i++)
        fair = is_run_fair();
    assert_true(fair);
}

/* Overwrites the numbers and slots of the queue, and sometimes removes the file. */
static void scribble(unsigned round)
{
    uint32_t numbers[64];
    if (round % 50 == 49)
        unlink(writers);
    int fd = open(writers, O_RDWR);
    if (fd < 0)
        return;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        numbers[i] = (uint32_t)env_random_below(env_real(), UINT32_MAX);
    off_t at = 16 + (off_t)env_random_below(env_real(), FILE_BYTES - 16 - sizeof numbers);
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size == FILE_BYTES)
        (void)!pwrite(fd, numbers, sizeof numbers, round % 2 ? 16 : at);
    close(fd);
}

/* Whatever happens to the file, and to the processes in the queue, all writes are made. */
static void the_queue_is_only_advice(void **state)
{
    (void)state;
    start();
    struct crowd *crowd = shared_memory(sizeof *crowd);
    pid_t children[PROCESSES];
    atomic_store(&crowd->go, true);
    for (size_t i = 0; i < PROCESSES; i++)
        children[i] = start_writer(crowd, i);
    for (unsigned round = 0; round < 300; round++) {
        size_t victim = round % 3;
        scribble(round);
        env_sleep(env_real(), SPAN_MS(2));
        if (round % 10 == 0) {
            kill(children[victim], SIGKILL);
            waitpid(children[victim], NULL, 0);
            children[victim] = start_writer(crowd, victim);
        }
    }
    atomic_store(&crowd->over, true);
    for (size_t i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
        assert_true(atomic_load(&crowd->done[i]) > 0);
    }
    assert_int_equal(atomic_load(&crowd->failed), 0);
    munmap(crowd, sizeof *crowd);
    finish();
}

static void one_process_alone_has_no_queue(void **state)
{
    (void)state;
    start();
    struct store *store;
    struct hf_error error;
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    for (int i = 0; i < 100; i++) {
        struct put_call put = { .key = VIEW("k"), .body = VIEW("x") };
        assert_status(HF_OK, store_put(store, &put), &put.error);
    }
    store_close(store);
    assert_int_equal(access(writers, F_OK), -1);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the first need not wait", the_first_need_not_wait),
        IT("a turn comes when the one before ends", a_turn_comes_when_the_one_before_ends),
        IT("the dead are passed over", the_dead_are_passed_over),
        IT("nobody waits long for the stopped", nobody_waits_long_for_the_stopped),
        IT("a place that was given up is skipped", a_place_that_was_given_up_is_skipped),
        IT("a turn that is kept in vain is taken soon",
           a_turn_that_is_kept_in_vain_is_taken_soon),
        IT("a turn is kept for a few writes only", a_turn_is_kept_for_a_few_writes_only),
        IT("a turn that is kept ends with its store", a_turn_that_is_kept_ends_with_its_store),
        IT("a file of another kind is left alone", a_file_of_another_kind_is_left_alone),
        IT("an empty file is filled", an_empty_file_is_filled),
        IT("a file that was not finished is filled, and no other",
           a_file_that_was_not_finished_is_filled),
        IT("whatever the numbers are, they do not stop the queue", no_numbers_stop_the_queue),
        IT("only who may write to the store may open its queue",
           only_who_may_write_may_open_the_queue),
        IT("no store is named like a queue", no_store_is_named_like_a_queue),
        IT("no process starves", no_process_starves),
        IT("whatever happens to the file and to its processes, all writes are made",
           the_queue_is_only_advice),
        IT("one process alone has no queue", one_process_alone_has_no_queue),
    };
    return cmocka_run_group_tests_name("sqlite_queue", tests, NULL, NULL);
}
