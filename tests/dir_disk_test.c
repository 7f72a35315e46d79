/* SPDX-License-Identifier: Apache-2.0 */
/* dir_disk_test.c: a `dir:` store on a full disk and in a directory without write permission.
 *
 * Each test mounts what it needs in the mount namespace of its own child process, so nothing is
 * left behind. This needs root, or a system that allows user namespaces. Otherwise the test is
 * skipped and says so. */
#include "base/check.h"
#include "store/store.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANNOT 77 /* exit status of a child that may not mount */

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

/* A mount namespace: as root, or as root of a user namespace that only we are in. */
static bool enter_namespace(void)
{
    char map[64];
    unsigned user = getuid();
    unsigned group = getgid();
    if (user != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
            return false;
        write_text("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1", user);
        write_text("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %u 1", group);
        write_text("/proc/self/gid_map", map);
    } else if (unshare(CLONE_NEWNS) != 0) {
        return false;
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void in_namespace(void (*run)(const char *folder))
{
    char *folder = test_dir_make();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!enter_namespace())
            _exit(CANNOT);
        run(folder);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    test_dir_remove(folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT) {
        print_message("# skipped: needs root, or namespaces for users\n");
        skip();
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static struct store *open_url(const char *folder)
{
    char url[4200];
    struct hf_error error;
    struct store *store = NULL;
    int size = snprintf(url, sizeof url, "dir:%s", folder);
    enum hf_status status =
        store_open(env_real(), (struct view){ url, (size_t)size }, &store, &error);
    return status == HF_OK ? store : NULL;
}

/* A small disk with user attributes: memory where the kernel keeps them there, else a loop
 * mount, which takes root. */
static struct store *open_small(const char *folder)
{
    if (mount("none", folder, "tmpfs", 0, "size=1m") == 0) {
        struct store *store = open_url(folder);
        struct put_call put = { .key = VIEW("first") };
        if (store && store_put(store, &put) == HF_OK)
            return store;
        store_close(store);
        umount(folder);
    }
    char command[9000];
    snprintf(command, sizeof command,
             "truncate -s 2M '%s.img' && mkfs.ext4 -q -F '%s.img' && "
             "mount -o loop '%s.img' '%s'; status=$?; rm -f '%s.img'; exit $status",
             folder, folder, folder, folder, folder);
    if (system(command) != 0)
        _exit(CANNOT);
    return open_url(folder);
}

static enum hf_status put_sized(struct store *store, const char *key, size_t size, char fill,
                                struct hf_error *error)
{
    char *body = malloc(size);
    check(body);
    memset(body, fill, size);
    struct put_call put = { .key = view_of(key), .body = { body, size } };
    enum hf_status status = store_put(store, &put);
    *error = put.error;
    free(body);
    return status;
}

static void check_is(struct store *store, const char *key, size_t size, char fill)
{
    struct buffer body = BUFFER_INIT(MIB);
    struct get_call get = { .key = view_of(key), .body = &body };
    check(store_get(store, &get) == HF_OK && body.size == size);
    for (size_t i = 0; i < size; i++)
        check(body.data[i] == fill);
    buffer_release(&body);
}

static void fill_disk(const char *folder)
{
    struct store *store = open_small(folder);
    struct hf_error error;
    check(store);
    check(put_sized(store, "kept", 1000, 'k', &error) == HF_OK);
    enum hf_status status = HF_OK;
    int count = 0;
    for (; status == HF_OK && count < 1000; count++) {
        char key[32];
        snprintf(key, sizeof key, "f/%d", count);
        status = put_sized(store, key, 64 * KIB, 'f', &error);
    }
    check(status == HF_UNAVAILABLE && strstr(error.why, "No space left"));
    check(put_sized(store, "kept", 512 * KIB, 'x', &error) == HF_UNAVAILABLE);
    check_is(store, "kept", 1000, 'k');
    check_is(store, "f/0", 64 * KIB, 'f');
    struct delete_call gone = { .key = VIEW("f/0") };
    check(store_delete(store, &gone) == HF_OK);
    check(put_sized(store, "kept", 2000, 'n', &error) == HF_OK);
    check_is(store, "kept", 2000, 'n');
    store_close(store);
}

static void read_only(const char *folder)
{
    struct hf_error error;
    struct store *store = open_url(folder);
    check(store && put_sized(store, "a/k", 1000, 'k', &error) == HF_OK);
    store_close(store);
    check(mount(folder, folder, NULL, MS_BIND, NULL) == 0);
    check(mount(NULL, folder, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
    store = open_url(folder);
    check(store);
    check_is(store, "a/k", 1000, 'k');
    check(put_sized(store, "a/k", 10, 'x', &error) == HF_DENIED && error.why[0]);
    check(put_sized(store, "new/k", 10, 'x', &error) == HF_DENIED);
    struct delete_call gone = { .key = VIEW("a/k") };
    check(store_delete(store, &gone) == HF_DENIED);
    struct list_call list = { .max = 10 };
    check(store_list(store, &list) == HF_OK && list.count == 1);
    list_release(&list);
    check_is(store, "a/k", 1000, 'k');
    store_close(store);
}

static void full_disk_test(void **state)
{
    (void)state;
    in_namespace(fill_disk);
}

static void read_only_test(void **state)
{
    (void)state;
    in_namespace(read_only);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a full disk refuses puts, keeps objects and allows deletes", full_disk_test),
        IT("a read-only folder is read, and refuses writes", read_only_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
