/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_test.c: properties of the sqlite store beyond the common contract: where large objects
 * are and who removes leftovers of dead writers, groups of writes, other processes, full and
 * read-only disks. */
#include "alloc.h"
#include "sqlite_steps.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Large objects ------------------------------------------------------------------- */

static void an_object_moves_between_row_and_file_and_leaves_nothing(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    static const size_t sizes[] = { 0,     SQLITE_INLINE_MAX, LARGE, 5,
                                    LARGE, 2 * LARGE,         LARGE, SQLITE_INLINE_MAX };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(big, (int)('a' + i), sizeof big);
        put_text(store, "k", (struct view){ big, sizes[i] });
        assert_holds(store, "k", (struct view){ big, sizes[i] });
        assert_int_equal(count_files("s.objects"), sizes[i] > SQLITE_INLINE_MAX);
    }
    put_text(store, "k", (struct view){ big, LARGE });
    struct delete_call gone = { .key = VIEW("k") };
    assert_status(HF_OK, store_delete(store, &gone), &gone.error);
    assert_int_equal(count_files("s.objects"), 0);
    store_close(store);
}

static void a_refused_large_put_leaves_no_file(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct etag old = put_text(store, "k", VIEW("1"));
    put_text(store, "k", VIEW("2"));
    struct put_call call = { .key = VIEW("k"),
                             .body = { big, LARGE },
                             .condition = if_absent() };
    assert_int_equal(store_put(store, &call), HF_CONFLICT);
    call.condition = if_match(&old);
    assert_int_equal(store_put(store, &call), HF_CONFLICT);
    call.key = VIEW("gone");
    assert_int_equal(store_put(store, &call), HF_NOT_FOUND);
    assert_int_equal(count_files("s.objects"), 0);
    store_close(store);
}

/* Replaces the object and its file, over and over, until told to stop. */
struct rewriter {
    struct store *store;
    bool stop;
};

static void rewrite(void *argument)
{
    struct rewriter *rewriter = argument;
    char *body = malloc(LARGE);
    assert_non_null(body);
    for (int i = 0; !__atomic_load_n(&rewriter->stop, __ATOMIC_SEQ_CST); i++) {
        memset(body, 'a' + i % 26, LARGE);
        struct put_call call = { .key = VIEW("k"), .body = { body, LARGE } };
        if (store_put(rewriter->store, &call) != HF_OK)
            break;
    }
    free(body);
}

static void a_reader_whose_file_vanishes_finds_the_new_one(void **state)
{
    (void)state;
    struct store *store = open_store("s?sync=off");
    put_text(store, "k", (struct view){ big, LARGE });
    struct rewriter rewriter = { .store = store };
    struct env_task *task;
    struct hf_error error;
    assert_status(HF_OK, env_task_start(env_real(), rewrite, &rewriter, &task, &error), &error);
    for (int i = 0; i < 500; i++) {
        struct buffer got = BUFFER_INIT(MIB);
        struct get_call call = { .key = VIEW("k"), .body = &got };
        assert_status(HF_OK, store_get(store, &call), &call.error);
        assert_int_equal(got.size, LARGE);
        for (size_t at = 1; at < got.size; at++)
            assert_int_equal(got.data[at], got.data[0]);
        buffer_release(&got);
    }
    __atomic_store_n(&rewriter.stop, true, __ATOMIC_SEQ_CST);
    env_task_join(env_real(), task);
    assert_int_equal(count_files("s.objects"), 1);
    store_close(store);
}

static void a_lost_or_cut_file_is_corrupt(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    struct hf_error error;
    put_text(store, "k", (struct view){ big, LARGE });
    DIR *walk = opendir(in_dir("s.objects"));
    const struct dirent *entry;
    while ((entry = readdir(walk)) && entry->d_name[0] == '.')
        ;
    assert_non_null(entry);
    int fd = openat(dirfd(walk), entry->d_name, O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 10), 0);
    close(fd);
    assert_int_equal(get_status(store, "k", &error), HF_CORRUPT);
    assert_int_equal(unlinkat(dirfd(walk), entry->d_name, 0), 0);
    closedir(walk);
    assert_int_equal(get_status(store, "k", &error), HF_CORRUPT);
    put_text(store, "k", VIEW("well again"));
    assert_holds(store, "k", VIEW("well again"));
    store_close(store);
}

/* ---- Orphans ------------------------------------------------------------------------- */

static bool die_at_the_end(void *argument, uint64_t done, uint64_t total)
{
    (void)argument;
    if (done == total)
        _exit(7);
    return true;
}

static int put_file_and_die(void)
{
    struct store *store = open_store("s");
    int fd = open(in_dir("source"), O_RDONLY | O_CLOEXEC);
    struct put_call call = { .key = VIEW("k") };
    store_put_file(store, &call, fd, &(struct progress){ die_at_the_end, NULL });
    return 1;
}

static void the_file_of_a_dead_writer_is_swept_on_open(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "kept", (struct view){ big, LARGE });
    store_close(store);
    write_file("source", big, sizeof big);
    assert_int_equal(in_child(put_file_and_die), 7);
    assert_int_equal(count_files("s.objects"), 2);
    store = open_store("s");
    assert_int_equal(count_files("s.objects"), 1);
    assert_holds(store, "kept", (struct view){ big, LARGE });
    struct hf_error error;
    assert_int_equal(get_status(store, "k", &error), HF_NOT_FOUND);
    store_close(store);
}

static bool open_another(void *argument, uint64_t done, uint64_t total)
{
    (void)argument;
    (void)done;
    (void)total;
    store_close(open_store("s"));
    return true;
}

static void the_file_of_a_living_writer_is_not_swept(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    write_file("source", big, sizeof big);
    int fd = open(in_dir("source"), O_RDONLY | O_CLOEXEC);
    struct put_call call = { .key = VIEW("k") };
    struct progress progress = { open_another, NULL };
    assert_status(HF_OK, store_put_file(store, &call, fd, &progress), &call.error);
    close(fd);
    assert_holds(store, "k", (struct view){ big, sizeof big });
    store_close(store);
}

static void files_of_another_database_and_of_people_are_not_swept(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "k", (struct view){ big, LARGE });
    store_close(store);
    write_file("s.objects/note.txt", "mine", 4);
    assert_int_equal(unlink(in_dir("s")), 0);
    store = open_store("s");
    struct hf_error error;
    assert_int_equal(get_status(store, "k", &error), HF_NOT_FOUND);
    assert_int_equal(count_files("s.objects"), 2);
    store_close(store);
}

/* ---- Groups -------------------------------------------------------------------------- */

#define TASKS  64
#define ROUNDS 40

struct member {
    struct store *store;
    unsigned number;
    unsigned firsts; /* times it was the one to create an object of all */
    bool wrong;
    struct env_task *task;
};

static void expect(struct member *member, enum hf_status got, enum hf_status wanted)
{
    if (got != wanted)
        member->wrong = true;
}

/* Writes that must succeed, that must not, and one that one of all tasks wins, all mixed. */
static void write_mixed(void *argument)
{
    struct member *member = argument;
    struct store *store = member->store;
    char mine[32], ours[32], body[64];
    struct etag etag = { 0 }, stale = { 0 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        snprintf(mine, sizeof mine, "mine/%u", member->number);
        snprintf(ours, sizeof ours, "ours/%u", round);
        snprintf(body, sizeof body, "task %u round %u", member->number, round);
        struct put_call own = { .key = view_of(mine),
                                .body = view_of(body),
                                .condition = etag.size ? if_match(&etag) : if_absent() };
        expect(member, store_put(store, &own), HF_OK);
        stale = etag;
        etag = own.etag;
        struct put_call first = { .key = view_of(ours),
                                  .body = view_of(body),
                                  .condition = if_absent() };
        enum hf_status status = store_put(store, &first);
        member->firsts += status == HF_OK;
        if (status != HF_OK)
            expect(member, status, HF_CONFLICT);
        struct delete_call no = { .key = view_of(mine), .condition = if_match(&stale) };
        if (stale.size)
            expect(member, store_delete(store, &no), HF_CONFLICT);
        struct put_call late = { .key = VIEW("never"), .condition = if_match(&etag) };
        expect(member, store_put(store, &late), HF_NOT_FOUND);
    }
}

static void each_write_of_a_group_is_answered_for_itself(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    static struct member members[TASKS];
    struct hf_error error;
    unsigned firsts = 0;
    for (unsigned i = 0; i < TASKS; i++) {
        members[i] = (struct member){ .store = store, .number = i };
        assert_status(HF_OK,
                      env_task_start(env_real(), write_mixed, &members[i], &members[i].task,
                                     &error),
                      &error);
    }
    for (unsigned i = 0; i < TASKS; i++) {
        env_task_join(env_real(), members[i].task);
        assert_false(members[i].wrong);
        firsts += members[i].firsts;
    }
    assert_int_equal(firsts, ROUNDS);
    for (unsigned i = 0; i < TASKS; i++) {
        char key[32], body[64];
        snprintf(key, sizeof key, "mine/%u", i);
        snprintf(body, sizeof body, "task %u round %u", i, ROUNDS - 1);
        assert_holds(store, key, view_of(body));
    }
    store_close(store);
}

/* ---- Reading by the connection that writes ------------------------------------------- */

/* Files of this name that this process has open. */
static size_t count_open(const char *name)
{
    char path[PATH_MAX], link[PATH_MAX], to[PATH_MAX];
    assert_non_null(realpath(in_dir(name), path));
    DIR *fds = opendir("/proc/self/fd");
    assert_non_null(fds);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(fds));) {
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
        ssize_t size = readlink(link, to, sizeof to - 1);
        to[size < 0 ? 0 : size] = '\0';
        count += strcmp(to, path) == 0;
    }
    closedir(fds);
    return count;
}

static void the_first_reads_need_no_connection_of_their_own(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "k", VIEW("1"));
    assert_int_equal(count_open("s"), 1);
    for (int i = 0; i < 4; i++)
        assert_holds(store, "k", VIEW("1"));
    assert_int_equal(count_open("s"), 1);
    assert_holds(store, "k", VIEW("1"));
    assert_int_equal(count_open("s"), 2);
    store_close(store);
}

struct visitor {
    struct store *store;
    bool writes;
    bool wrong;
    struct env_task *task;
};

static void visit(void *argument)
{
    struct visitor *visitor = argument;
    char bytes[64];
    for (int i = 0; i < 8; i++) {
        struct buffer body = { .data = bytes, .capacity = sizeof bytes, .max = sizeof bytes };
        struct put_call put = { .key = VIEW("k"), .body = VIEW("the same") };
        struct get_call get = { .key = VIEW("k"), .body = &body };
        enum hf_status status =
            visitor->writes ? store_put(visitor->store, &put) : store_get(visitor->store, &get);
        bool same = visitor->writes || view_equal(buffer_view(&body), VIEW("the same"));
        visitor->wrong = visitor->wrong || status != HF_OK || !same;
    }
}

static void whoever_writes_waits_for_a_read_by_its_connection(void **state)
{
    (void)state;
    struct visitor visitors[6];
    struct hf_error error;
    struct store *first = open_store("s?sync=off");
    put_text(first, "k", VIEW("the same"));
    store_close(first);
    for (int round = 0; round < 40; round++) {
        struct store *store = open_store("s?sync=off");
        for (size_t i = 0; i < 6; i++) {
            visitors[i] = (struct visitor){ .store = store, .writes = i % 2 == 0 };
            assert_status(HF_OK,
                          env_task_start(env_real(), visit, &visitors[i], &visitors[i].task,
                                         &error),
                          &error);
        }
        for (size_t i = 0; i < 6; i++) {
            env_task_join(env_real(), visitors[i].task);
            assert_false(visitors[i].wrong);
        }
        store_close(store);
    }
}

static void a_batch_of_a_thousand_of_all_sizes_is_one_call(void **state)
{
    (void)state;
    struct store *store = open_store("s?sync=off");
    static struct put_call puts[BATCH_MAX];
    static char keys[BATCH_MAX][16];
    for (size_t i = 0; i < BATCH_MAX; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
        puts[i] = (struct put_call){ .key = view_of(keys[i]),
                                     .body = { big, i % 50 == 0 ? LARGE : i },
                                     .condition = if_absent() };
    }
    assert_int_equal(store_put_many(store, puts, BATCH_MAX), HF_OK);
    assert_int_equal(count_files("s.objects"), BATCH_MAX / 50);
    store_close(store);
}

static void a_write_waits_for_another_process_and_gives_up_in_time(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    sqlite3 *other;
    put_text(store, "k", VIEW("1"));
    assert_int_equal(sqlite3_open(in_dir("s"), &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct mono_time start = env_now(env_real());
    struct put_call call = { .key = VIEW("k"),
                             .body = VIEW("2"),
                             .deadline = mono_add(start, SPAN_MS(50)) };
    assert_int_equal(store_put(store, &call), HF_UNAVAILABLE);
    assert_non_null(strstr(call.error.why, "busy"));
    assert_false(mono_before(env_now(env_real()), call.deadline));
    assert_holds(store, "k", VIEW("1"));
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    put_text(store, "k", VIEW("3"));
    store_close(store);
}

/* A put in a task of its own. */
struct caller {
    struct store *store;
    struct span patience;
    enum hf_status status;
    struct env_task *task;
};

static void call_put(void *argument)
{
    struct caller *caller = argument;
    struct put_call call = { .key = VIEW("k"),
                             .body = VIEW("2"),
                             .deadline = mono_add(env_now(env_real()), caller->patience) };
    caller->status = store_put(caller->store, &call);
}

static void start_caller(struct caller *caller)
{
    struct hf_error error;
    assert_status(HF_OK, env_task_start(env_real(), call_put, caller, &caller->task, &error),
                  &error);
}

/* The first leads, and would wait for the database until the deadline of the second. */
static void a_leader_gives_up_in_time_though_others_wait_longer(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    sqlite3 *other;
    put_text(store, "k", VIEW("1"));
    assert_int_equal(sqlite3_open(in_dir("s"), &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    struct caller first = { .store = store, .patience = SPAN_MS(200) };
    struct caller second = { .store = store, .patience = SPAN_S(10) };
    start_caller(&first);
    while (access(in_dir("s-writers"), F_OK) != 0) /* until it has found the database busy */
        env_sleep(env_real(), SPAN_MS(1));
    start_caller(&second);
    env_task_join(env_real(), first.task);
    assert_int_equal(first.status, HF_UNAVAILABLE);
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    env_task_join(env_real(), second.task);
    assert_int_equal(second.status, HF_OK);
    assert_holds(store, "k", VIEW("2"));
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    store_close(store);
}

static void the_log_of_writes_stays_bounded(void **state)
{
    (void)state;
    struct store *store = open_store("s?sync=off");
    for (int i = 0; i < 6000; i++)
        put_text(store, "k", (struct view){ big, 1000 });
    struct stat st;
    assert_int_equal(stat(in_dir("s-wal"), &st), 0);
    assert_true(st.st_size > 0 && (size_t)st.st_size < 6 * MIB);
    store_close(store);
    assert_int_equal(stat(in_dir("s-wal"), &st), 0);
    assert_true((size_t)st.st_size < 6 * MIB);
    store = open_store("s");
    assert_holds(store, "k", (struct view){ big, 1000 });
    store_close(store);
}

static void a_moved_file_is_noticed(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "k", VIEW("1"));
    assert_int_equal(rename(in_dir("s"), in_dir("elsewhere")), 0);
    struct put_call call = { .key = VIEW("k"), .body = VIEW("2") };
    assert_int_equal(store_put(store, &call), HF_UNAVAILABLE);
    assert_non_null(strstr(call.error.why, "moved"));
    store_close(store);
}

/* ---- Processes ----------------------------------------------------------------------- */

#define PROCESSES  8
#define INCREMENTS 100

static enum hf_status increment(struct store *store)
{
    struct buffer got = BUFFER_INIT(64);
    struct get_call get = { .key = VIEW("counter"), .body = &got };
    enum hf_status status = store_get(store, &get);
    if (status == HF_OK) {
        char next[32];
        snprintf(next, sizeof next, "%lu", strtoul(buffer_text(&got), NULL, 10) + 1);
        struct put_call set = { .key = VIEW("counter"),
                                .body = view_of(next),
                                .condition = if_match(&get.info.etag) };
        status = store_put(store, &set);
    }
    buffer_release(&got);
    return status;
}

static int count_up(void)
{
    struct store *store = open_store("s");
    int done = 0;
    enum hf_status status = HF_OK;
    while (done < INCREMENTS && (status == HF_OK || status == HF_CONFLICT)) {
        status = increment(store);
        done += status == HF_OK;
    }
    store_close(store);
    return done == INCREMENTS ? 0 : 1;
}

static void eight_processes_count_without_losing_one(void **state)
{
    (void)state;
    struct store *store = open_store("s");
    put_text(store, "counter", VIEW("0"));
    pid_t pids[PROCESSES];
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++)
        if ((pids[i] = fork()) == 0) {
            setenv("CMOCKA_TEST_ABORT", "1", 1);
            _exit(count_up());
        }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    char sum[32];
    snprintf(sum, sizeof sum, "%d", PROCESSES * INCREMENTS);
    assert_holds(store, "counter", view_of(sum));
    store_close(store);
}

static struct store *inherited;

static int use_inherited(void)
{
    struct hf_error error;
    struct put_call call = { .key = VIEW("k"), .body = VIEW("child") };
    struct delete_call gone = { .key = VIEW("k") };
    struct list_call list = { .max = 10 };
    bool refused = get_status(inherited, "k", &error) == HF_INVALID &&
                   store_put(inherited, &call) == HF_INVALID &&
                   store_delete(inherited, &gone) == HF_INVALID &&
                   store_list(inherited, &list) == HF_INVALID;
    store_close(inherited);
    struct store *own = open_store("s");
    put_text(own, "child", VIEW("here"));
    store_close(own);
    return refused ? 0 : 1;
}

static void a_store_is_refused_in_a_forked_child_and_goes_on_in_the_parent(void **state)
{
    (void)state;
    inherited = open_store("s");
    put_text(inherited, "k", VIEW("parent"));
    assert_int_equal(in_child(use_inherited), 0);
    assert_holds(inherited, "k", VIEW("parent"));
    assert_holds(inherited, "child", VIEW("here"));
    put_text(inherited, "k", VIEW("again"));
    store_close(inherited);
}

static void two_names_of_one_file_are_one_store(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("a"), 0777), 0);
    assert_int_equal(symlink("a/real", in_dir("link")), 0);
    struct store *real = open_store("a/real");
    struct store *link = open_store("link");
    put_text(real, "k", (struct view){ big, LARGE });
    assert_holds(link, "k", (struct view){ big, LARGE });
    struct etag etag = put_text(link, "k", (struct view){ big, 2 * LARGE });
    struct put_call call = { .key = VIEW("k"),
                             .body = VIEW("small"),
                             .condition = if_match(&etag) };
    assert_status(HF_OK, store_put(real, &call), &call.error);
    assert_int_equal(count_files("a/real.objects"), 0);
    assert_int_not_equal(access(in_dir("link.objects"), F_OK), 0);
    store_close(link);
    put_text(real, "k", VIEW("after the other was closed"));
    store_close(real);
}

/* ---- Full and read-only disks -------------------------------------------------------- */

/* A file system of its own, seen by this process alone and gone with it. */
static bool mount_small(const char *options)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("small", dir, "tmpfs", 0, options) == 0;
}

static int fill_the_disk(void)
{
    if (!mount_small("size=3m"))
        return 99;
    struct store *store = open_store("s");
    struct put_call call = { .body = { big, 60000 } };
    char key[16];
    int done = 0;
    enum hf_status status = HF_OK;
    while (status == HF_OK && done < 1000) {
        snprintf(key, sizeof key, "k%d", done);
        call.key = view_of(key);
        status = store_put(store, &call);
        done += status == HF_OK;
    }
    assert_status(HF_UNAVAILABLE, status, &call.error);
    struct put_call large = { .key = VIEW("large"), .body = { big, sizeof big } };
    assert_status(HF_UNAVAILABLE, store_put(store, &large), &large.error);
    assert_int_equal(count_files("s.objects"), 0);
    for (int i = 0; i < done; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_holds(store, key, (struct view){ big, 60000 });
    }
    assert_int_equal(mount("small", dir, "tmpfs", MS_REMOUNT, "size=8m"), 0);
    put_text(store, "room again", (struct view){ big, sizeof big });
    store_close(store);
    store = open_store("s");
    assert_holds(store, "k0", (struct view){ big, 60000 });
    assert_holds(store, "room again", (struct view){ big, sizeof big });
    store_close(store);
    return 0;
}

static void a_full_disk_is_unavailable_and_loses_nothing(void **state)
{
    (void)state;
    int status = in_child(fill_the_disk);
    if (status == 99)
        skip();
    assert_int_equal(status, 0);
}

static int open_read_only(void)
{
    if (!mount_small("size=3m"))
        return 99;
    struct store *store = open_store("s");
    put_text(store, "k", VIEW("1"));
    store_close(store);
    assert_int_equal(mount("small", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=3m"), 0);
    struct hf_error error;
    store = open_store("s");
    assert_holds(store, "k", VIEW("1"));
    struct put_call call = { .key = VIEW("k"), .body = VIEW("2") };
    assert_status(HF_DENIED, store_put(store, &call), &call.error);
    store_close(store);
    assert_status(HF_DENIED, try_open("new", &store, &error), &error);
    return 0;
}

static void a_read_only_disk_is_read(void **state)
{
    (void)state;
    int status = in_child(open_read_only);
    if (status == 99)
        skip();
    assert_int_equal(status, 0);
}

static int read_as_nobody(void)
{
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 99;
    struct store *store = open_store("s");
    assert_holds(store, "k", VIEW("1"));
    assert_holds(store, "large", (struct view){ big, LARGE });
    struct put_call call = { .key = VIEW("k"), .body = VIEW("2") };
    assert_status(HF_DENIED, store_put(store, &call), &call.error);
    call.body = (struct view){ big, LARGE };
    assert_status(HF_DENIED, store_put(store, &call), &call.error);
    struct delete_call gone = { .key = VIEW("k") };
    assert_status(HF_DENIED, store_delete(store, &gone), &gone.error);
    store_close(store);
    return 0;
}

static void who_may_only_read_reads_beside_a_writer(void **state)
{
    (void)state;
    assert_int_equal(chmod(dir, 0755), 0);
    struct store *store = open_store("s");
    put_text(store, "k", VIEW("1"));
    put_text(store, "large", (struct view){ big, LARGE });
    int status = geteuid() == 0 ? in_child(read_as_nobody) : 99;
    assert_holds(store, "k", VIEW("1"));
    store_close(store);
    if (status == 99)
        skip();
    assert_int_equal(status, 0);
}

/* ---- Memory -------------------------------------------------------------------------- */

/* One of each call that allocates; false when one of them had no memory. */
static bool use_all(struct store *store, int fd)
{
    struct put_call puts[2] = { { .key = VIEW("a"), .body = VIEW("1") },
                                { .key = VIEW("b"), .body = { big, LARGE } } };
    struct delete_call deletes[2] = { { .key = VIEW("a") }, { .key = VIEW("b") } };
    struct put_call stream = { .key = VIEW("c") };
    enum hf_status statuses[3] = { store_put_many(store, puts, 2),
                                   store_put_file(store, &stream, fd, NULL),
                                   store_delete_many(store, deletes, 2) };
    bool good = true;
    for (size_t i = 0; i < 3; i++) {
        assert_true(statuses[i] == HF_OK || statuses[i] == HF_UNAVAILABLE);
        good = good && statuses[i] == HF_OK;
    }
    return good;
}

static void a_call_without_memory_is_unavailable(void **state)
{
    (void)state;
    write_file("source", "abc", 3);
    int fd = open(in_dir("source"), O_RDONLY | O_CLOEXEC);
    long failures = 0;
    int without_it = 0;
    for (bool failed = true; failed; failures++) {
        struct store *store = NULL;
        struct hf_error error;
        alloc_fail_after(failures);
        enum hf_status status = try_open("s", &store, &error);
        bool good = status == HF_OK && use_all(store, fd);
        failed = alloc_stop();
        assert_true(good || failed);
        without_it += good && failed;
        if (status != HF_OK)
            assert_int_equal(status, HF_UNAVAILABLE);
        store_close(store);
    }
    assert_true(failures > 3);
    assert_int_equal(without_it, 1); /* a commit that is written page by page */
    close(fd);
    assert_int_equal(count_files("s.objects"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("an object moves between row and file and leaves nothing behind",
           an_object_moves_between_row_and_file_and_leaves_nothing),
        IT("a refused large put leaves no file", a_refused_large_put_leaves_no_file),
        IT("a reader whose file vanishes finds the new one",
           a_reader_whose_file_vanishes_finds_the_new_one),
        IT("a lost or cut file of an object is corrupt", a_lost_or_cut_file_is_corrupt),
        IT("the file of a dead writer is swept on open",
           the_file_of_a_dead_writer_is_swept_on_open),
        IT("the file of a living writer is not swept",
           the_file_of_a_living_writer_is_not_swept),
        IT("files of another database and of people are not swept",
           files_of_another_database_and_of_people_are_not_swept),
        IT("each write of a group is answered for itself",
           each_write_of_a_group_is_answered_for_itself),
        IT("the first reads need no connection of their own",
           the_first_reads_need_no_connection_of_their_own),
        IT("whoever writes waits for a read by its connection",
           whoever_writes_waits_for_a_read_by_its_connection),
        IT("a batch of a thousand of all sizes is one call",
           a_batch_of_a_thousand_of_all_sizes_is_one_call),
        IT("a write waits for another process and gives up in time",
           a_write_waits_for_another_process_and_gives_up_in_time),
        IT("a task that leads gives up in time though others wait longer",
           a_leader_gives_up_in_time_though_others_wait_longer),
        IT("the log of writes stays bounded", the_log_of_writes_stays_bounded),
        IT("a moved file is noticed", a_moved_file_is_noticed),
        IT("eight processes count without losing one",
           eight_processes_count_without_losing_one),
        IT("a store is refused in a forked child and goes on in the parent",
           a_store_is_refused_in_a_forked_child_and_goes_on_in_the_parent),
        IT("two names of one file are one store", two_names_of_one_file_are_one_store),
        IT("a full disk is unavailable and loses nothing",
           a_full_disk_is_unavailable_and_loses_nothing),
        IT("a store on a read-only disk can be read; to write to it is denied",
           a_read_only_disk_is_read),
        IT("who may only read reads beside a writer", who_may_only_read_reads_beside_a_writer),
        IT("a call without memory is unavailable", a_call_without_memory_is_unavailable),
    };
    return sqlite_steps_run(tests, sizeof tests / sizeof tests[0]);
}
