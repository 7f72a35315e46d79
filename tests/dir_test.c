/* SPDX-License-Identifier: Apache-2.0 */
/* dir_test.c: properties of `dir:` stores only: names on disk, files changed by hand, links,
 * `a` beside `a/b`, marks and leftovers of dead writers. The promises of all stores are in
 * store_contract.c. */
#include "alloc.h"
#include "base/check.h"
#include "base/prng.h"
#include "dir_path.h"
#include "store/dir/file.h"
#include "store/dir/lock.h"
#include "store/dir/name.h"
#include "store/store.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOREIGN_ETAG_SIZE 33

struct fixture {
    char *folder;
    struct store *store;
    int root;
};

static struct store *open_url(const char *folder, const char *options)
{
    char url[URL_BYTES_MAX];
    struct hf_error error;
    struct store *store = NULL;
    int size = snprintf(url, sizeof url, "dir:%s%s", folder, options);
    assert_status(HF_OK,
                  store_open(env_real(), (struct view){ url, (size_t)size }, &store, &error),
                  &error);
    return store;
}

static struct fixture fixture_make(const char *options)
{
    struct fixture f = { .folder = test_dir_make() };
    f.store = open_url(f.folder, options);
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

static bool exists(int at, const char *path)
{
    return faccessat(at, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct mono_time soon(void)
{
    return mono_add(env_now(env_real()), SPAN_MS(20));
}

static enum hf_status put(struct store *store, const char *key, const char *body,
                          struct condition condition, struct etag *ret_etag)
{
    struct put_call call = { .key = view_of(key),
                             .body = view_of(body),
                             .condition = condition };
    enum hf_status status = store_put(store, &call);
    if (status == HF_OK && ret_etag)
        *ret_etag = call.etag;
    if (status != HF_OK && status != HF_CONFLICT)
        fprintf(stderr, "put %s: %s\n", key, call.error.why);
    return status;
}

static const struct condition always = { .kind = CONDITION_ALWAYS };

static enum hf_status get(struct store *store, const char *key, char text[64],
                          struct etag *ret_etag)
{
    struct buffer body = BUFFER_INIT(63);
    struct get_call call = { .key = view_of(key), .body = &body };
    enum hf_status status = store_get(store, &call);
    if (status == HF_OK) {
        memcpy(text, buffer_view(&body).data, body.size);
        text[body.size] = '\0';
        *ret_etag = call.info.etag;
    }
    buffer_release(&body);
    return status;
}

static void expect_object(struct store *store, const char *key, const char *body)
{
    char text[64];
    struct etag etag;
    assert_int_equal(get(store, key, text, &etag), HF_OK);
    assert_string_equal(text, body);
}

static enum hf_status delete_always(struct store *store, const char *key)
{
    struct delete_call call = { .key = view_of(key) };
    return store_delete(store, &call);
}

/* ---- Names --------------------------------------------------------------------------- */

/* Keys made of what is hard: separators, dots, marks, long runs. */
static struct view random_key(struct prng *prng, char space[KEY_BYTES_MAX])
{
    static const char hard[] = { '/', '.', '%', '-', '+', 'a', '\0', '\x7f', '\xff', 'A' };
    size_t size = 1 + prng_below(prng, prng_below(prng, 4) == 0 ? KEY_BYTES_MAX : 12);
    bool run = prng_below(prng, 3) == 0;
    for (size_t i = 0; i < size; i++)
        space[i] = run && prng_below(prng, 50) != 0 ? 'x'
                   : prng_below(prng, 8) == 0       ? (char)prng_next(prng)
                                                    : hard[prng_below(prng, sizeof hard)];
    return (struct view){ space, size };
}

static void check_components(const struct dir_path *path)
{
    struct view rest = { path->text, path->size };
    while (rest.size > 0) {
        struct view name = view_cut(&rest, '/');
        assert_true(name.size > 0 && name.size + 1 <= 255);
        assert_false(view_equal(name, VIEW(".")) || view_equal(name, VIEW("..")));
    }
}

static void round_trip(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(7);
    for (int i = 0; i < 20000; i++) {
        char space[KEY_BYTES_MAX];
        char again[KEY_BYTES_MAX];
        size_t size = 0;
        struct dir_path path;
        struct view key = random_key(&prng, space);
        dir_path_encode(key, &path);
        check_components(&path);
        assert_true(dir_path_decode((struct view){ path.text, path.size }, again, &size));
        assert_true(view_equal(key, (struct view){ again, size }));
        memcpy(path.text + path.size, "%", 2);
        assert_true(dir_path_decode((struct view){ path.text, path.size + 1 }, again, &size));
        assert_true(view_equal(key, (struct view){ again, size }));
    }
}

static void only_canonical(void **state)
{
    (void)state;
    static const char *const strange[] = {
        "",     "%",    "%lock", "%tmp", ".",    "..",   "a//b",  "a/",        "%41", "%2f",
        "%2F",  "%e9",  "a%-",   "%-%+", "x%+",  "a%/b", "%2E.",  ".%2E",      "%2",  "a%zz",
        "\x01", "\xff", "%25%%", "/a",   "%-/.", "%2Ea", "a%+/b", "%2E%2E%2E",
    };
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        char key[KEY_BYTES_MAX];
        size_t size;
        if (dir_path_decode(view_of(strange[i]), key, &size))
            fail_msg("'%s' is no key's path, but was taken for one", strange[i]);
    }
}

static int compare_views(const void *a, const void *b)
{
    return view_compare(*(const struct view *)a, *(const struct view *)b);
}

/* Pages of seven, walked to the end, are the sorted keys. */
static void check_pages(struct store *store, const struct view *keys, size_t count)
{
    char after[KEY_BYTES_MAX];
    size_t at = 0;
    size_t after_size = 0;
    bool more = true;
    while (more) {
        struct list_call list = { .after = { after, after_size }, .max = 7 };
        assert_status(HF_OK, store_list(store, &list), &list.error);
        for (size_t i = 0; i < list.count; i++, at++)
            assert_true(at < count && view_equal(keys[at], list.entries[i].key));
        more = list.more;
        if (list.count > 0) {
            after_size = list.entries[list.count - 1].key.size;
            memcpy(after, list.entries[list.count - 1].key.data, after_size);
        }
        list_release(&list);
    }
    assert_int_equal(at, count);
}

static void listed_in_order(void **state)
{
    (void)state;
    struct fixture f = fixture_make("?sync=off");
    struct prng prng = prng_seeded(11);
    static char space[300][KEY_BYTES_MAX];
    struct view keys[300];
    size_t count = 0;
    for (size_t i = 0; i < 300; i++) {
        struct put_call call = { .key = random_key(&prng, space[i]), .condition = if_absent() };
        if (store_put(f.store, &call) == HF_OK)
            keys[count++] = call.key;
        else
            assert_int_equal(call.error.status, HF_CONFLICT);
    }
    qsort(keys, count, sizeof keys[0], compare_views);
    check_pages(f.store, keys, count);
    fixture_release(&f);
}

/* More names in one directory than one reading of it keeps. */
static void large_folder(void **state)
{
    (void)state;
    enum { MANY = 2500 };
    struct fixture f = fixture_make("?sync=off");
    static char space[MANY][16];
    static struct view keys[MANY];
    for (size_t i = 0; i < MANY; i++) {
        int size = snprintf(space[i], sizeof space[i], "d/%05zu", i);
        keys[i] = (struct view){ space[i], (size_t)size };
        struct put_call call = { .key = keys[i] };
        assert_status(HF_OK, store_put(f.store, &call), &call.error);
    }
    size_t at = 0;
    struct list_call list = { .max = LIST_PAGE_MAX };
    for (bool more = true; more;) {
        struct view after = at > 0 ? keys[at - 1] : VIEW("");
        list = (struct list_call){ .after = after };
        assert_status(HF_OK, store_list(f.store, &list), &list.error);
        for (size_t i = 0; i < list.count; i++, at++)
            assert_true(at < MANY && view_equal(keys[at], list.entries[i].key));
        more = list.more;
        list_release(&list);
    }
    assert_int_equal(at, MANY);
    list = (struct list_call){ .prefix = VIEW("d/"), .delimiter = VIEW("0"), .max = 2 };
    assert_status(HF_OK, store_list(f.store, &list), &list.error);
    assert_int_equal(list.count, 1);
    list_release(&list);
    fixture_release(&f);
}

static void readable(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    assert_int_equal(put(f.store, "jobs/db 1.json", "{}", always, NULL), HF_OK);
    int fd = openat(f.root, "jobs/db 1.json", O_RDONLY | O_CLOEXEC);
    char text[8] = "";
    assert_true(fd >= 0 && read(fd, text, sizeof text) == 2);
    assert_string_equal(text, "{}");
    close(fd);
    fixture_release(&f);
}

/* ---- By hand ------------------------------------------------------------------------- */

static void foreign_file(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    char text[64];
    struct etag etag;
    struct etag again;
    write_by_hand(f.root, "note", "by hand");
    assert_int_equal(get(f.store, "note", text, &etag), HF_OK);
    assert_string_equal(text, "by hand");
    assert_int_equal(etag.size, FOREIGN_ETAG_SIZE);
    struct list_call list = { .max = 10 };
    assert_status(HF_OK, store_list(f.store, &list), &list.error);
    assert_int_equal(list.count, 1);
    assert_true(etag_equal(&list.entries[0].info.etag, &etag));
    list_release(&list);
    assert_int_equal(put(f.store, "note", "x", if_absent(), NULL), HF_CONFLICT);
    assert_int_equal(put(f.store, "note", "ours", if_match(&etag), &again), HF_OK);
    assert_true(again.size < FOREIGN_ETAG_SIZE);
    assert_int_equal(put(f.store, "note", "x", if_match(&etag), NULL), HF_CONFLICT);
    fixture_release(&f);
}

static void changed_by_hand(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    char text[64];
    struct etag ours;
    struct etag theirs;
    assert_int_equal(put(f.store, "k", "ours", always, &ours), HF_OK);
    write_by_hand(f.root, "k", "hand"); /* same inode, same size, and it keeps the label */
    assert_int_equal(get(f.store, "k", text, &theirs), HF_OK);
    assert_string_equal(text, "hand");
    assert_int_equal(theirs.size, FOREIGN_ETAG_SIZE);
    assert_int_equal(put(f.store, "k", "x", if_match(&ours), NULL), HF_CONFLICT);
    assert_int_equal(put(f.store, "k", "y", if_match(&theirs), NULL), HF_OK);
    fixture_release(&f);
}

static void strange_files(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    char text[64];
    struct etag etag;
    assert_int_equal(mkfifoat(f.root, "pipe", 0666), 0);
    write_by_hand(f.root, "%zz", "no key");
    assert_int_equal(get(f.store, "pipe", text, &etag), HF_INVALID);
    assert_int_equal(put(f.store, "pipe", "x", always, NULL), HF_INVALID);
    assert_int_equal(delete_always(f.store, "pipe"), HF_INVALID);
    check_pages(f.store, NULL, 0);
    assert_true(exists(f.root, "pipe") && exists(f.root, "%zz"));
    fixture_release(&f);
}

static void links(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    char *outside = test_dir_make();
    int out = open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char text[64];
    char path[4096];
    struct etag etag;
    write_by_hand(out, "secret", "secret");
    snprintf(path, sizeof path, "%s/secret", outside);
    assert_int_equal(symlinkat(path, f.root, "file"), 0);
    assert_int_equal(symlinkat(outside, f.root, "folder"), 0);
    static const char *const keys[] = { "file", "folder", "folder/secret", "folder/new/x" };
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(get(f.store, keys[i], text, &etag), HF_INVALID);
        assert_int_equal(put(f.store, keys[i], "x", always, NULL), HF_INVALID);
        assert_int_equal(put(f.store, keys[i], "x", if_absent(), NULL), HF_INVALID);
        assert_int_equal(delete_always(f.store, keys[i]), HF_INVALID);
    }
    assert_int_equal(get(f.store, "../secret", text, &etag), HF_NOT_FOUND);
    check_pages(f.store, NULL, 0);
    assert_true(exists(out, "secret") && !exists(out, "new") && exists(f.root, "folder"));
    assert_int_equal(dir_open_stepwise(f.root, "folder/secret", O_RDONLY), -1);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(dir_open_stepwise(f.root, "../x", O_RDONLY), -1);
    close(out);
    test_dir_remove(outside);
    fixture_release(&f);
}

static void stepwise(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    assert_int_equal(put(f.store, "a/b/c", "deep", always, NULL), HF_OK);
    static const char *const paths[] = { "a", "a/b", "a/b/c", "a/x", "x/y", "a/b/c/d", "." };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        errno = 0;
        int fast = dir_open_beneath(f.root, paths[i], O_RDONLY);
        int fast_errno = errno;
        errno = 0;
        int slow = dir_open_stepwise(f.root, paths[i], O_RDONLY);
        assert_int_equal(fast >= 0, slow >= 0);
        if (fast < 0)
            assert_int_equal(errno, fast_errno);
        else {
            close(fast);
            close(slow);
        }
    }
    fixture_release(&f);
}

/* ---- `a` beside `a/b` ---------------------------------------------------------------- */

static void both_ways(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    struct etag etag;
    char text[64];
    struct etag now;
    assert_int_equal(put(f.store, "a", "file", always, &etag), HF_OK);
    assert_int_equal(put(f.store, "a/b", "below", always, NULL), HF_OK);
    assert_true(exists(f.root, "a%") && exists(f.root, "a/b"));
    assert_int_equal(get(f.store, "a", text, &now), HF_OK);
    assert_true(etag_equal(&etag, &now));
    assert_int_equal(put(f.store, "a", "next", if_match(&etag), NULL), HF_OK);
    expect_object(f.store, "a", "next");
    assert_int_equal(delete_always(f.store, "a/b"), HF_OK);
    assert_false(exists(f.root, "a"));
    expect_object(f.store, "a", "next");
    assert_int_equal(delete_always(f.store, "a"), HF_OK);
    assert_int_equal(get(f.store, "a", text, &now), HF_NOT_FOUND);
    assert_int_equal(put(f.store, "d/e", "below", always, NULL), HF_OK);
    assert_int_equal(put(f.store, "d", "file", if_absent(), NULL), HF_OK);
    assert_int_equal(put(f.store, "d", "file", if_absent(), NULL), HF_CONFLICT);
    expect_object(f.store, "d", "file");
    expect_object(f.store, "d/e", "below");
    fixture_release(&f);
}

/* A crash between link and unlink of some other tool may leave both; the plain one counts. */
static void leftover_aside(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    char text[64];
    struct etag etag;
    assert_int_equal(put(f.store, "a", "real", always, NULL), HF_OK);
    write_by_hand(f.root, "a%", "meaningless");
    const struct view key = VIEW("a");
    expect_object(f.store, "a", "real");
    check_pages(f.store, &key, 1);
    assert_int_equal(delete_always(f.store, "a"), HF_OK);
    assert_int_equal(get(f.store, "a", text, &etag), HF_NOT_FOUND);
    fixture_release(&f);
}

enum { RACE_ROUNDS = 60, MOVES = 60 };

static void count_up(struct store *store)
{
    for (int done = 0; done < RACE_ROUNDS;) {
        char text[64];
        struct etag etag;
        check(get(store, "a", text, &etag) == HF_OK);
        char next[64];
        snprintf(next, sizeof next, "%ld", strtol(text, NULL, 10) + 1);
        enum hf_status status = put(store, "a", next, if_match(&etag), NULL);
        check(status == HF_OK || status == HF_CONFLICT);
        done += status == HF_OK;
    }
}

static void come_and_go(struct store *store)
{
    for (int i = 0; i < 4 * RACE_ROUNDS; i++) {
        check(put(store, "a/b", "below", always, NULL) == HF_OK);
        check(delete_always(store, "a/b") == HF_OK);
    }
}

/* Nobody deletes what make_way has made, so no listing shows less than the one before it. */
static void keep_listing(struct store *store)
{
    size_t seen = 0;
    while (seen < 2 * MOVES) {
        struct list_call list = { .prefix = VIEW("way/") };
        check(store_list(store, &list) == HF_OK);
        check(list.count >= seen);
        seen = list.count;
        list_release(&list);
    }
}

/* A name that is moved aside in each round anew. */
static void make_way(struct store *store)
{
    for (int i = 0; i < MOVES; i++) {
        char key[32];
        char below[40];
        snprintf(key, sizeof key, "way/%d", i);
        snprintf(below, sizeof below, "%s/b", key);
        check(put(store, key, "x", if_absent(), NULL) == HF_OK);
        check(put(store, below, "y", if_absent(), NULL) == HF_OK);
    }
}

static void racing(void **state)
{
    (void)state;
    static void (*const players[])(struct store *) = { count_up,    count_up,     come_and_go,
                                                       come_and_go, keep_listing, make_way };
    enum { PLAYERS = sizeof players / sizeof players[0] };
    struct fixture f = fixture_make("?sync=off");
    pid_t pids[PLAYERS];
    assert_int_equal(put(f.store, "a", "0", always, NULL), HF_OK);
    for (size_t i = 0; i < PLAYERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            players[i](open_url(f.folder, "?sync=off"));
            _exit(0);
        }
    }
    for (size_t i = 0; i < PLAYERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    expect_object(f.store, "a", "120");
    fixture_release(&f);
}

static void forked(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    char text[64];
    struct etag etag;
    assert_int_equal(put(f.store, "k", "v", always, NULL), HF_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool refused = put(f.store, "k", "w", always, NULL) == HF_INVALID &&
                       get(f.store, "k", text, &etag) == HF_INVALID &&
                       delete_always(f.store, "k") == HF_INVALID;
        store_close(f.store);
        _exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_object(f.store, "k", "v");
    assert_int_equal(put(f.store, "k", "x", always, NULL), HF_OK);
    fixture_release(&f);
}

/* All put and delete the one object of a folder, which comes and goes with it: whoever is slow
 * finds the folder gone each time it looks. */
static void crowd(struct store *store)
{
    for (int i = 0; i < 2 * RACE_ROUNDS; i++) {
        check(put(store, "deep/down/x", "here", always, NULL) == HF_OK);
        check(delete_always(store, "deep/down/x") == HF_OK);
    }
}

static void crowded(void **state)
{
    (void)state;
    enum { PLAYERS = 8 };
    struct fixture f = fixture_make("?sync=off");
    pid_t pids[PLAYERS];
    for (size_t i = 0; i < PLAYERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            crowd(open_url(f.folder, "?sync=off"));
            _exit(0);
        }
    }
    for (size_t i = 0; i < PLAYERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    fixture_release(&f);
}

/* ---- Marks and leftovers ------------------------------------------------------------- */

static void set_mark(int root, const char *path, char value)
{
    int fd = openat(root, "%marks", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, &value, 1, dir_stripe(view_of(path))) == 1);
    close(fd);
}

static char get_mark(int root, const char *path)
{
    char value = 2;
    int fd = openat(root, "%marks", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pread(fd, &value, 1, dir_stripe(view_of(path))) == 1);
    close(fd);
    return value;
}

static void mark_of_the_dead(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    assert_int_equal(put(f.store, "a/k", "v", always, NULL), HF_OK);
    assert_int_equal(get_mark(f.root, "a/k"), 0);
    set_mark(f.root, "a/k", 1);
    expect_object(f.store, "a/k", "v");
    assert_int_equal(get_mark(f.root, "a/k"), 0);
    set_mark(f.root, "a/k", 1);
    assert_int_equal(put(f.store, "a/k", "w", always, NULL), HF_OK);
    assert_int_equal(get_mark(f.root, "a/k"), 0);
    set_mark(f.root, "zz", 1);
    const struct view key = VIEW("a/k");
    check_pages(f.store, &key, 1);
    assert_int_equal(get_mark(f.root, "zz"), 0);
    fixture_release(&f);
}

/* Holds a byte of the lock file as another task would. */
static int hold_at(int root, int64_t at, short type)
{
    int fd = openat(root, "%lock", O_RDWR | O_CLOEXEC);
    struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
    assert_true(fd >= 0 && fcntl(fd, F_OFD_SETLK, &range) == 0);
    return fd;
}

static int hold(int root, const char *path)
{
    return hold_at(root, dir_stripe(view_of(path)), F_WRLCK);
}

static void mark_of_the_living(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    struct buffer body = BUFFER_INIT(64);
    assert_int_equal(put(f.store, "a/k", "v", always, NULL), HF_OK);
    assert_int_equal(put(f.store, "b", "v", always, NULL), HF_OK);
    int fd = hold(f.root, "a/k");
    set_mark(f.root, "a/k", 1);
    struct get_call early = { .key = VIEW("a/k"), .body = &body, .deadline = soon() };
    assert_int_equal(store_get(f.store, &early), HF_UNAVAILABLE);
    struct list_call list = { .max = 1, .deadline = soon() };
    assert_int_equal(store_list(f.store, &list), HF_UNAVAILABLE);
    assert_false(list.more);
    struct put_call late = { .key = VIEW("a/k"), .deadline = soon() };
    assert_int_equal(store_put(f.store, &late), HF_UNAVAILABLE);
    close(fd);
    expect_object(f.store, "a/k", "v");
    buffer_release(&body);
    fixture_release(&f);
}

/* In a child, whose limit ends with it. */
static void few_descriptors(void **state)
{
    static char keys[100][16];
    struct put_call puts[100];
    struct rlimit few = { 40, 40 };
    char *folder = test_dir_make();
    int ended = !state;
    pid_t child = fork();
    if (child == 0) {
        struct store *store = open_url(folder, "");
        for (size_t i = 0; i < 100; i++) {
            snprintf(keys[i], sizeof keys[i], "%zu/k", i);
            puts[i] = (struct put_call){ .key = view_of(keys[i]), .body = VIEW("v") };
        }
        _exit(setrlimit(RLIMIT_NOFILE, &few) || store_put_many(store, puts, 100) != HF_OK);
    }
    assert_true(child > 0 && waitpid(child, &ended, 0) == child && ended == 0);
    test_dir_remove(folder);
}

/* Somebody has made the folder and not synced it yet: an object in it would not be durable. */
static void folder_not_durable(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    char text[64];
    struct etag etag;
    assert_int_equal(mkdirat(f.root, "a", 0777), 0);
    int fd = hold(f.root, "a/");
    set_mark(f.root, "a/", 1);
    struct put_call early = { .key = VIEW("a/k"), .deadline = soon() };
    assert_int_equal(store_put(f.store, &early), HF_UNAVAILABLE);
    assert_int_equal(get(f.store, "a/k", text, &etag), HF_NOT_FOUND);
    close(fd);
    assert_int_equal(put(f.store, "a/k", "v", always, NULL), HF_OK);
    assert_int_equal(get_mark(f.root, "a/"), 0);
    fixture_release(&f);
}

/* Between two readings of a name that moves, a listing could see neither. */
static void listing_and_moving(void **state)
{
    (void)state;
    struct fixture f = fixture_make("?sync=off");
    assert_int_equal(put(f.store, "a", "v", always, NULL), HF_OK);
    int lister = hold_at(f.root, DIR_LOCK_MOVE, F_RDLCK);
    struct put_call below = { .key = VIEW("a/b"), .deadline = soon() };
    assert_int_equal(store_put(f.store, &below), HF_UNAVAILABLE);
    assert_true(exists(f.root, "a") && !exists(f.root, "a%"));
    struct list_call beside = { .deadline = soon() };
    assert_status(HF_OK, store_list(f.store, &beside), &beside.error);
    list_release(&beside);
    close(lister);
    int mover = hold_at(f.root, DIR_LOCK_MOVE, F_WRLCK);
    struct list_call list = { .deadline = soon() };
    assert_int_equal(store_list(f.store, &list), HF_UNAVAILABLE);
    close(mover);
    assert_int_equal(put(f.store, "a/b", "v", always, NULL), HF_OK);
    fixture_release(&f);
}

static void leftovers(void **state)
{
    (void)state;
    struct fixture f = fixture_make("");
    assert_int_equal(put(f.store, "k", "v", always, NULL), HF_OK);
    assert_int_equal(mkdirat(f.root, "%tmp/00000000dead", 0777), 0);
    write_by_hand(f.root, "%tmp/00000000dead/half", "half an obj");
    struct stat alive;
    struct store *second = open_url(f.folder, "");
    assert_false(exists(f.root, "%tmp/00000000dead"));
    assert_int_equal(fstatat(f.root, "%tmp", &alive, 0), 0);
    assert_int_equal(alive.st_nlink, 3); /* the first store lives, and so does its folder */
    store_close(second);
    assert_int_equal(put(f.store, "k", "w", always, NULL), HF_OK);
    fixture_release(&f);
}

/* ---- Opening ------------------------------------------------------------------------- */

static enum hf_status try_open(const char *url)
{
    struct store *store = NULL;
    struct hf_error error;
    enum hf_status status = store_open(env_real(), view_of(url), &store, &error);
    assert_true(status == HF_OK || error.why[0] != '\0');
    store_close(store);
    return status;
}

static void opening(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    char url[4200];
    snprintf(url, sizeof url, "dir:%s/new", folder);
    assert_int_equal(try_open(url), HF_OK);
    assert_int_equal(try_open(url), HF_OK);
    snprintf(url, sizeof url, "dir:%s/no/such", folder);
    assert_int_equal(try_open(url), HF_NOT_FOUND);
    snprintf(url, sizeof url, "dir:%s/new/%%25lock", folder);
    assert_int_equal(try_open(url), HF_INVALID);
    assert_int_equal(try_open("dir:"), HF_INVALID);
    assert_int_equal(try_open("dir:/tmp?sync=maybe"), HF_INVALID);
    assert_int_equal(try_open("dir:/tmp?speed=11"), HF_INVALID);
    assert_int_equal(try_open("dir:/proc"), HF_UNSUPPORTED);
    test_dir_remove(folder);
}

static void without_memory(void **state)
{
    (void)state;
    struct fixture f = fixture_make("?sync=off");
    bool failed = true;
    for (long n = 0; failed; n++) {
        alloc_fail_after(n);
        struct list_call list = { .max = 10 };
        char text[64];
        struct etag etag;
        write_by_hand(f.root, "foreign", "x");
        enum hf_status written = put(f.store, "a/b", "v", always, NULL);
        enum hf_status read = get(f.store, "foreign", text, &etag);
        enum hf_status listed = store_list(f.store, &list);
        failed = alloc_stop();
        list_release(&list);
        assert_true(written == HF_OK || written == HF_UNAVAILABLE);
        assert_true(read == HF_OK || read == HF_UNAVAILABLE);
        assert_true(listed == HF_OK || listed == HF_UNAVAILABLE);
        assert_int_equal(failed, written != HF_OK || read != HF_OK || listed != HF_OK);
    }
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("every key has a path and comes back from it", round_trip),
        IT("no other path is taken for a key", only_canonical),
        IT("keys of all kinds are listed in byte order", listed_in_order),
        IT("a folder of thousands is listed page by page", large_folder),
        IT("an object is a plain file under its own name", readable),
        IT("a file put there by hand is an object", foreign_file),
        IT("a file changed by hand is another version", changed_by_hand),
        IT("what is no plain file is left alone", strange_files),
        IT("symbolic links lead nowhere", links),
        IT("without openat2 paths are opened the same", stepwise),
        IT("a and a/b make way for each other, whichever came first", both_ways),
        IT("a leftover aside of a plain file means nothing", leftover_aside),
        IT("racing processes lose no write and no listing to names that move", racing),
        IT("a forked child is refused and does no harm to its parent", forked),
        IT("a folder that comes and goes keeps nobody out", crowded),
        IT("the mark of a dead writer is settled by who finds it", mark_of_the_dead),
        IT("nobody is told what a living writer has not made durable", mark_of_the_living),
        IT("a process with few descriptors makes a large batch", few_descriptors),
        IT("no object is put into a folder that is not durable", folder_not_durable),
        IT("no name moves aside while its folder is listed", listing_and_moving),
        IT("temporary files of the dead are removed, of the living kept", leftovers),
        IT("a store is opened where it can be, else the reason is told", opening),
        IT("no allocation that fails does harm", without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
