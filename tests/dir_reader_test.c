/* SPDX-License-Identifier: Apache-2.0 */
/* dir_reader_test.c: readers of a `dir:` store without write permission. They see everything
 * that is durable, and can never block a writer. Needs root, to run as another user. */
#include "store/dir/lock.h"
#include "store/store.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

struct fixture {
    char *folder;
    struct store *store;
    int root;
};

static struct store *open_store(const char *folder)
{
    char url[URL_BYTES_MAX];
    struct hf_error error;
    struct store *store = NULL;
    snprintf(url, sizeof url, "dir:%s", folder);
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    return store;
}

static struct fixture fixture_make(void)
{
    struct fixture f = { .folder = test_dir_make() };
    assert_int_equal(chmod(f.folder, 0755), 0);
    f.root = open(f.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f.root >= 0);
    f.store = open_store(f.folder);
    return f;
}

static void fixture_release(struct fixture *f)
{
    store_close(f->store);
    close(f->root);
    test_dir_remove(f->folder);
}

static enum hf_status put(struct store *store, const char *key)
{
    struct put_call call = { .key = view_of(key), .body = VIEW("v") };
    struct mono_time now = env_now(env_real());
    call.deadline = mono_add(now, SPAN_S(2));
    return store_put(store, &call);
}

static enum hf_status get(struct store *store, const char *key)
{
    struct buffer body = BUFFER_INIT(64);
    struct get_call call = { .key = view_of(key), .body = &body };
    enum hf_status status = store_get(store, &call);
    bool right = view_equal(buffer_view(&body), VIEW("v"));
    buffer_release(&body);
    return status == HF_OK && !right ? HF_CORRUPT : status;
}

static size_t count(struct store *store, enum hf_status *ret_status)
{
    struct list_call list = { .deadline = mono_add(env_now(env_real()), SPAN_MS(200)) };
    *ret_status = store_list(store, &list);
    size_t found = list.count;
    list_release(&list);
    return found;
}

/* Somebody else in a process of its own, in the store's folder. It writes a byte once it has done
 * what it is for, with which it returns, and waits for the end of its input. */
struct stranger {
    pid_t pid;
    int to, from;
};

static struct stranger stranger_start(const struct fixture *f, char (*deed)(void))
{
    int input[2], output[2];
    assert_true(pipe2(input, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0);
    struct stranger stranger = { .pid = fork() };
    assert_true(stranger.pid >= 0);
    if (stranger.pid == 0) {
        close(input[1]);
        char said = '?', end;
        if (fchdir(f->root) == 0 && setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 &&
            setuid(NOBODY) == 0)
            said = deed();
        (void)!write(output[1], &said, 1);
        (void)!read(input[0], &end, 1);
        _exit(0);
    }
    close(input[0]);
    close(output[1]);
    stranger.to = input[1];
    stranger.from = output[0];
    return stranger;
}

static char stranger_says(const struct stranger *stranger)
{
    char said = '!';
    assert_int_equal(read(stranger->from, &said, 1), 1);
    return said;
}

static void stranger_stop(struct stranger *stranger)
{
    int status;
    close(stranger->to);
    close(stranger->from);
    assert_int_equal(waitpid(stranger->pid, &status, 0), stranger->pid);
}

/* Locks all of every file of the store that it can open. */
static char lock_all(void)
{
    static const char *const names[] = { "%lock", "%marks", "%bell" };
    struct flock all = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int fd = open(names[i], O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &all) != 0)
            return 'f';
    }
    return 'd';
}

static void readers_keep_nobody_out(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct fixture f = fixture_make();
    struct stranger stranger = stranger_start(&f, lock_all);
    assert_int_equal(stranger_says(&stranger), 'd');
    assert_int_equal(put(f.store, "k"), HF_OK);
    assert_int_equal(put(f.store, "k/below"), HF_OK); /* k moves aside */
    struct store *newcomer = open_store(f.folder);
    assert_int_equal(put(newcomer, "new"), HF_OK);
    store_close(newcomer);
    stranger_stop(&stranger);
    fixture_release(&f);
}

/* The mark is that of somebody who writes just now: it holds the stripe. */
static char read_all(void)
{
    enum hf_status status;
    struct store *store = open_store(".");
    if (get(store, "k") != HF_OK)
        return 'g';
    if (count(store, &status) != 1 || status != HF_OK)
        return 'l';
    if (put(store, "k") != HF_DENIED)
        return 'p';
    store_close(store);
    return 'd';
}

static void readers_read(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct fixture f = fixture_make();
    assert_int_equal(put(f.store, "k"), HF_OK);
    int64_t stripe = dir_stripe(VIEW("k"));
    int lock = openat(f.root, "%lock", O_RDWR | O_CLOEXEC);
    int marks = openat(f.root, "%marks", O_RDWR | O_CLOEXEC);
    struct flock held = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = stripe, .l_len = 1
    };
    assert_int_equal(fcntl(lock, F_OFD_SETLK, &held), 0);
    assert_int_equal(pwrite(marks, "\1", 1, stripe), 1);
    struct stranger stranger = stranger_start(&f, read_all);
    assert_int_equal(stranger_says(&stranger), 'd');
    stranger_stop(&stranger);
    char mark = 0;
    assert_int_equal(pread(marks, &mark, 1, stripe), 1);
    assert_int_equal(mark, 1); /* not theirs to clear */
    close(lock);
    close(marks);
    fixture_release(&f);
}

/* ---- Moves --------------------------------------------------------------------------- */

static char list_while_moving(void)
{
    enum hf_status status;
    struct store *store = open_store(".");
    count(store, &status);
    store_close(store);
    return status == HF_UNAVAILABLE ? 'u' : status == HF_OK ? 'd' : '?';
}

static void readers_wait_for_moves(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct fixture f = fixture_make();
    assert_int_equal(put(f.store, "k"), HF_OK);
    int marks = openat(f.root, "%marks", O_RDWR | O_CLOEXEC);
    uint64_t moves = 7;
    assert_int_equal(pwrite(marks, &moves, 8, DIR_STRIPES), 8);
    struct stranger stranger = stranger_start(&f, list_while_moving);
    assert_int_equal(stranger_says(&stranger), 'u');
    stranger_stop(&stranger);
    /* The mover died: the next who opens the store to write says so. */
    store_close(open_store(f.folder));
    stranger = stranger_start(&f, list_while_moving);
    assert_int_equal(stranger_says(&stranger), 'd');
    stranger_stop(&stranger);
    assert_int_equal(put(f.store, "k/below"), HF_OK);
    assert_int_equal(pread(marks, &moves, 8, DIR_STRIPES), 8);
    assert_int_equal(moves, 10);
    close(marks);
    fixture_release(&f);
}

/* ---- Modes --------------------------------------------------------------------------- */

static mode_t mode_of(int root, const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode & 0777;
}

static void modes_follow_umask(void **state)
{
    (void)state;
    static const struct {
        mode_t umask, lock, marks;
    } rows[] = {
        { 022, 0600, 0644 }, { 002, 0660, 0664 }, { 0, 0666, 0666 }, { 077, 0600, 0600 }
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mode_t before = umask(rows[i].umask);
        struct fixture f = fixture_make();
        assert_int_equal(mode_of(f.root, "%lock"), rows[i].lock);
        assert_int_equal(mode_of(f.root, "%marks"), rows[i].marks);
        fixture_release(&f);
        umask(before);
    }
}

/* It had one file for both, which everybody could read. */
static void earlier_versions(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    assert_int_equal(put(f.store, "k"), HF_OK);
    store_close(f.store);
    assert_int_equal(unlinkat(f.root, "%marks", 0), 0);
    int lock = openat(f.root, "%lock", O_RDWR | O_CLOEXEC);
    assert_true(fchmod(lock, 0644) == 0 && ftruncate(lock, DIR_STRIPES) == 0);
    assert_int_equal(pwrite(lock, "\1", 1, dir_stripe(VIEW("k"))), 1);
    close(lock);
    f.store = open_store(f.folder);
    assert_int_equal(get(f.store, "k"), HF_OK);
    assert_int_equal(put(f.store, "k"), HF_OK);
    assert_int_equal(mode_of(f.root, "%lock"), 0600);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("who may only read a store keeps no writer out, whatever it locks",
           readers_keep_nobody_out),
        IT("who may only read a store reads and lists it, while others write too",
           readers_read),
        IT("who may only read lists nothing while a file moves, and goes on when its mover "
           "died",
           readers_wait_for_moves),
        IT("only those who may write to the lock file can read it", modes_follow_umask),
        IT("a store of an earlier version is opened, and its lock file closed to readers",
           earlier_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
