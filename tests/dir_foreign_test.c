/* SPDX-License-Identifier: Apache-2.0 */
/* dir_foreign_test.c: files of a `dir:` store that another program writes while the store reads
 * their bytes or computes their ETags; and files that other users must be able to read. */
#include "store/store.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char *folder;
    struct store *store;
    int root;
};

static struct fixture fixture_make(void)
{
    struct fixture f = { .folder = test_dir_make() };
    char url[URL_BYTES_MAX];
    struct hf_error error;
    int size = snprintf(url, sizeof url, "dir:%s", f.folder);
    assert_status(HF_OK,
                  store_open(env_real(), (struct view){ url, (size_t)size }, &f.store, &error),
                  &error);
    f.root = open(f.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f.root >= 0);
    return f;
}

static void fixture_release(struct fixture *f)
{
    store_close(f->store);
    close(f->root);
    test_dir_remove(f->folder);
}

static void write_by_hand(int at, const char *path, const char *text)
{
    int fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

struct shrinking {
    int root;
    bool done;
};

static bool shrink(void *argument, uint64_t done, uint64_t total)
{
    struct shrinking *file = argument;
    (void)done;
    (void)total;
    if (!file->done)
        write_by_hand(file->root, "k", "short");
    return file->done = true;
}

static void shrinks_while_read(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    struct shrinking file = { .root = f.root };
    struct progress progress = { shrink, &file };
    char text[64] = "";
    write_by_hand(f.root, "k", "a much longer text");
    int fd = openat(f.root, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct get_call get_file = { .key = VIEW("k") };
    assert_status(HF_OK, store_get_file(f.store, &get_file, fd, &progress), &get_file.error);
    assert_int_equal(get_file.info.size, 5);
    assert_int_equal(read(fd, text, sizeof text), 5);
    assert_string_equal(text, "short");
    close(fd);
    fixture_release(&f);
}

/* Six files of holes, half a gigabyte each, for whose ETags 20 ms do not suffice. */
static void page_ends_early(void **state)
{
    (void)state;
    struct fixture f = fixture_make();
    for (char name[] = "0"; name[0] < '6'; name[0]++) {
        write_by_hand(f.root, name, "");
        int fd = openat(f.root, name, O_WRONLY | O_CLOEXEC);
        assert_int_equal(ftruncate(fd, 512 * MIB), 0);
        close(fd);
    }
    struct list_call list = { .deadline = mono_add(env_now(env_real()), SPAN_MS(20)) };
    assert_status(HF_OK, store_list(f.store, &list), &list.error);
    assert_in_range(list.count, 1, 5);
    assert_true(list.more);
    list_release(&list);
    fixture_release(&f);
}

/* A private file of the same file system, given to the store as an object. */
static void give_private_file(struct fixture *f, struct view key)
{
    char path[4096];
    snprintf(path, sizeof path, "%s-given-XXXXXX", f->folder);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "large", 5) == 5);
    struct put_call put = { .key = key, .give = true };
    assert_status(HF_OK, store_put_file(f->store, &put, fd, NULL), &put.error);
    close(fd);
    unlink(path);
}

static void assert_alike(struct fixture *f, const char *one, const char *other, mode_t mode)
{
    struct stat a, b;
    assert_int_equal(fstatat(f->root, one, &a, 0), 0);
    assert_int_equal(fstatat(f->root, other, &b, 0), 0);
    assert_int_equal(a.st_mode & 07777, mode);
    assert_int_equal(b.st_mode & 07777, mode);
    assert_int_equal(a.st_gid, b.st_gid);
}

static void modes_follow_umask(void **state)
{
    (void)state;
    static const mode_t masks[] = { 022, 002, 027, 077 };
    struct fixture f = fixture_make();
    mode_t before = umask(022);
    if (geteuid() == 0) /* the folder of a group: what is made there is the group's */
        assert_int_equal(fchown(f.root, (uid_t)-1, 12345), 0);
    assert_int_equal(fchmod(f.root, 02775), 0);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        umask(masks[i]);
        struct put_call put = { .key = VIEW("small"), .body = VIEW("small") };
        assert_status(HF_OK, store_put(f.store, &put), &put.error);
        give_private_file(&f, VIEW("large"));
        assert_alike(&f, "small", "large", 0666 & ~masks[i]);
    }
    umask(before);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a file that shrinks while it is read leaves nothing behind", shrinks_while_read),
        IT("a listing that has to read much ends its page early", page_ends_early),
        IT("large objects have the mode and group of small ones", modes_follow_umask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
