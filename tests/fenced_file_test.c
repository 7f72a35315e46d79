/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_file_test.c: fenced objects from and to files, in bounded memory, and read while they
 * are written, on real stores. */
#include "base/hash.h"
#include "lock/client_inside.h"
#include "lock/fence.h"
#include "store/stream.h"
#include "test.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define OBJECT "data/object"

/* ---- A client, a lock that it holds, and two files ----------------------------------- */

struct place_to_test {
    char *folder;
    struct hf_client *client;
    struct hf_lock *lock;
    int from, to;
};

static int open_file(const char *folder, const char *name, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, flags | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static int set_up(void **state)
{
    struct place_to_test *at = calloc(1, sizeof *at);
    char url[4096];
    struct hf_error error;
    assert_non_null(at);
    at->folder = test_dir_make();
    snprintf(url, sizeof url, "sqlite:%s/store.db", at->folder);
    assert_status(HF_OK, hf_client_open(url, NULL, &at->client, &error), &error);
    assert_status(HF_OK, hf_lock_new(at->client, "job", NULL, &at->lock, &error), &error);
    assert_status(HF_OK, hf_lock_acquire(at->lock, 0, &error), &error);
    at->from = open_file(at->folder, "from", O_RDWR);
    at->to = open_file(at->folder, "to", O_RDWR);
    *state = at;
    return 0;
}

static int tear_down(void **state)
{
    struct place_to_test *at = *state;
    close(at->from);
    close(at->to);
    hf_lock_free(at->lock);
    hf_client_close(at->client);
    test_dir_remove(at->folder);
    free(at);
    return 0;
}

#define AT(sentence, function)                          \
    {                                                   \
        (sentence), (function), set_up, tear_down, NULL \
    }

/* Bytes that differ from place to place, in pieces. */
static void fill(int fd, uint64_t size)
{
    static char piece[STREAM_PIECE];
    struct hf_error error;
    assert_status(HF_OK, file_set_size(fd, 0, &error), &error);
    for (uint64_t at = 0; at < size; at += sizeof piece) {
        for (size_t i = 0; i < sizeof piece; i++)
            piece[i] = (char)((at / sizeof piece * 131 + i) >> 3);
        size_t part = size - at < sizeof piece ? (size_t)(size - at) : sizeof piece;
        assert_status(HF_OK, file_write_at(fd, (struct view){ piece, part }, at, &error),
                      &error);
    }
}

static void assert_same_files(int a, int b)
{
    static char left[STREAM_PIECE], right[STREAM_PIECE];
    struct hf_error error;
    uint64_t sizes[2];
    assert_status(HF_OK, file_size(a, &sizes[0], &error), &error);
    assert_status(HF_OK, file_size(b, &sizes[1], &error), &error);
    assert_int_equal(sizes[0], sizes[1]);
    for (uint64_t at = 0; at < sizes[0]; at += sizeof left) {
        size_t got[2];
        assert_status(HF_OK, file_read_at(a, left, sizeof left, at, &got[0], &error), &error);
        assert_status(HF_OK, file_read_at(b, right, sizeof right, at, &got[1], &error), &error);
        assert_int_equal(got[0], got[1]);
        assert_memory_equal(left, right, got[0]);
    }
}

/* ---- Files --------------------------------------------------------------------------- */

static void a_file_is_written_and_read_back(void **state)
{
    struct place_to_test *at = *state;
    const uint64_t sizes[] = { 0,   1,       FENCE_INLINE_MAX,      FENCE_INLINE_MAX + 1,
                               100, 3000000, STREAM_PIECE,          STREAM_PIECE + 1,
                               17,  0,       SQLITE_INLINE_MAX + 1, 5 };
    struct hf_error error;
    uint64_t token;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fill(at->from, sizes[i]);
        assert_status(HF_OK, hf_fenced_put_file(at->lock, OBJECT, at->from, &error), &error);
        assert_status(HF_OK, hf_fenced_get_file(at->client, OBJECT, at->to, &token, &error),
                      &error);
        assert_int_equal(token, hf_lock_token(at->lock));
        assert_same_files(at->from, at->to); /* also when the file had been longer */
        void *data; /* hashed at once it is what was hashed in pieces */
        size_t size;
        assert_status(HF_OK,
                      hf_fenced_get(at->client, OBJECT, 16 * MIB, &data, &size, NULL, &error),
                      &error);
        assert_int_equal(size, sizes[i]);
        hf_free(data);
    }
}

static void files_that_cannot_serve_are_invalid(void **state)
{
    struct place_to_test *at = *state;
    struct hf_error error;
    int ends[2];
    fill(at->from, 5000);
    assert_int_equal(pipe(ends), 0);
    assert_status(HF_INVALID, hf_fenced_put_file(at->lock, OBJECT, ends[0], &error), &error);
    assert_status(HF_OK, hf_fenced_put_file(at->lock, OBJECT, at->from, &error), &error);
    assert_status(HF_INVALID, hf_fenced_get_file(at->client, OBJECT, ends[1], NULL, &error),
                  &error);
    int blind = open_file(at->folder, "to", O_WRONLY);
    assert_status(HF_INVALID, hf_fenced_get_file(at->client, OBJECT, blind, NULL, &error),
                  &error);
    assert_non_null(strstr(error.why, "reading"));
    close(blind);
    close(ends[0]);
    close(ends[1]);
}

/* The bytes under a key of the store itself, changed in one place. */
static void damage_body(struct place_to_test *at)
{
    struct store *store = at->client->store;
    struct list_call list = { .prefix = VIEW(OBJECT ".hf/") };
    struct buffer body = BUFFER_INIT(16 * MIB);
    assert_status(HF_OK, store_list(store, &list), &list.error);
    assert_int_equal(list.count, 1);
    struct get_call get = { .key = list.entries[0].key, .body = &body };
    assert_status(HF_OK, store_get(store, &get), &get.error);
    body.data[body.size / 2] ^= 1;
    struct put_call put = { .key = list.entries[0].key, .body = buffer_view(&body) };
    assert_status(HF_OK, store_put(store, &put), &put.error);
    buffer_release(&body);
    list_release(&list);
}

static void a_damaged_body_is_noticed(void **state)
{
    struct place_to_test *at = *state;
    struct hf_error error;
    fill(at->from, 1000000);
    assert_status(HF_OK, hf_fenced_put_file(at->lock, OBJECT, at->from, &error), &error);
    damage_body(at);
    assert_status(HF_CORRUPT, hf_fenced_get_file(at->client, OBJECT, at->to, NULL, &error),
                  &error);
}

static long memory_kib(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

static void a_large_file_is_never_whole_in_memory(void **state)
{
    struct place_to_test *at = *state;
    const uint64_t size = 96 * (uint64_t)MIB;
    struct hf_error error;
    fill(at->from, size);
    long before = memory_kib();
    assert_status(HF_OK, hf_fenced_put_file(at->lock, OBJECT, at->from, &error), &error);
    assert_status(HF_OK, hf_fenced_get_file(at->client, OBJECT, at->to, NULL, &error), &error);
    long more = memory_kib() - before;
    assert_same_files(at->from, at->to);
    if (more > 16 * 1024)
        fail_msg("%ld KiB for a file of 96 MiB", more);
}

/* ---- Written and read at once -------------------------------------------------------- */

#define VERSIONS 400

struct reading {
    struct hf_client *client;
    atomic_bool done;
    uint64_t seen;
    uint64_t changes;
    char failure[200];
};

/* A version is its number, repeated; every third is large. */
static size_t size_of_version(uint64_t version)
{
    return (version % 3 == 0 ? 1500 : 20) * sizeof version;
}

static bool is_version(const void *data, size_t size, uint64_t *ret_version)
{
    uint64_t word;
    if (size < sizeof word || size % sizeof word != 0)
        return false;
    memcpy(ret_version, data, sizeof word);
    for (size_t at = 0; at < size; at += sizeof word) {
        memcpy(&word, (const char *)data + at, sizeof word);
        if (word != *ret_version)
            return false;
    }
    return size == size_of_version(*ret_version);
}

static void keep_reading(void *argument)
{
    struct reading *reading = argument;
    while (!atomic_load(&reading->done) && reading->failure[0] == '\0') {
        void *data;
        size_t size;
        uint64_t version = 0;
        struct hf_error error;
        enum hf_status status =
            hf_fenced_get(reading->client, OBJECT, MIB, &data, &size, NULL, &error);
        if (status != HF_OK) {
            snprintf(reading->failure, sizeof reading->failure, "%.190s", error.why);
            continue;
        }
        if (!is_version(data, size, &version) || version < reading->seen)
            snprintf(reading->failure, sizeof reading->failure, "read a torn or older one");
        reading->changes += version != reading->seen;
        reading->seen = version;
        hf_free(data);
    }
}

static void write_version(struct hf_lock *lock, uint64_t version)
{
    uint64_t words[1500];
    struct hf_error error;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        words[i] = version;
    assert_status(HF_OK, hf_fenced_put(lock, OBJECT, words, size_of_version(version), &error),
                  &error);
}

static void readers_always_see_a_whole_version(void **state)
{
    struct place_to_test *at = *state;
    struct env *env = env_real();
    struct reading readings[2] = { { .client = at->client }, { .client = at->client } };
    struct env_task *tasks[2];
    struct hf_error error;
    write_version(at->lock, 1);
    for (size_t i = 0; i < 2; i++)
        assert_status(HF_OK, env_task_start(env, keep_reading, &readings[i], &tasks[i], &error),
                      &error);
    for (uint64_t version = 2; version <= VERSIONS; version++)
        write_version(at->lock, version);
    for (size_t i = 0; i < 2; i++) {
        atomic_store(&readings[i].done, true);
        env_task_join(env, tasks[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        if (readings[i].failure[0] != '\0')
            fail_msg("%s", readings[i].failure);
        assert_true(readings[i].changes > 5);
    }
}

/* Several threads write with one handle: each write is told OK, and the last called stands or is
 * followed by none. */
struct writing {
    struct hf_lock *lock;
    unsigned number;
    enum hf_status worst;
};

static void keep_writing(void *argument)
{
    struct writing *writing = argument;
    static char bytes[FENCE_INLINE_MAX + 1000];
    for (unsigned i = 0; i < 50; i++) {
        size_t size = (i + writing->number) % 2 ? sizeof bytes : 10;
        enum hf_status status = hf_fenced_put(writing->lock, OBJECT, bytes, size, NULL);
        if (status != HF_OK)
            writing->worst = status;
    }
}

static void threads_with_one_handle_leave_one_body_at_most(void **state)
{
    struct place_to_test *at = *state;
    struct env *env = env_real();
    struct writing writings[4];
    struct env_task *tasks[4];
    struct hf_error error;
    for (unsigned i = 0; i < 4; i++) {
        writings[i] = (struct writing){ .lock = at->lock, .number = i };
        assert_status(HF_OK, env_task_start(env, keep_writing, &writings[i], &tasks[i], &error),
                      &error);
    }
    for (unsigned i = 0; i < 4; i++) {
        env_task_join(env, tasks[i]);
        assert_int_equal(writings[i].worst, HF_OK);
    }
    struct list_call list = { .prefix = VIEW(OBJECT ".hf/") };
    assert_status(HF_OK, store_list(at->client->store, &list), &list.error);
    assert_true(list.count <= 1);
    list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT("a file is written and read back, whatever its size",
           a_file_is_written_and_read_back),
        AT("a pipe, or a file that cannot be read back, is INVALID",
           files_that_cannot_serve_are_invalid),
        AT("a damaged body is noticed when it is read to a file", a_damaged_body_is_noticed),
        AT("a large file is never whole in memory", a_large_file_is_never_whole_in_memory),
        AT("readers of an object that is overwritten always see a whole version",
           readers_always_see_a_whole_version),
        AT("threads that write with one handle leave one body at most",
           threads_with_one_handle_leave_one_body_at_most),
    };
    return cmocka_run_group_tests_name("fenced objects and files", tests, NULL, NULL);
}
