/* SPDX-License-Identifier: Apache-2.0 */
/* api_client_kit.c: opens a client of an empty store for each test. */
#include "api_client_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *kind = "mem";

static int set_up(void **state)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    options.holder = "ada";
    place->folder = test_dir_make();
    snprintf(place->url, sizeof place->url, "mem:");
    if (strcmp(kind, "sqlite") == 0)
        snprintf(place->url, sizeof place->url, "sqlite:%s/store.db", place->folder);
    OK(hf_client_open(place->url, &options, &place->client, &place->error));
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    hf_client_close(place->client);
    test_dir_remove(place->folder);
    free(place);
    return 0;
}

bool place_is_shared(const struct place *place)
{
    return strncmp(place->url, "mem:", 4) != 0;
}

struct hf_client *place_other_client(struct place *place)
{
    struct hf_client *client;
    assert_true(place_is_shared(place));
    assert_status(HF_OK, hf_client_open(place->url, NULL, &client, &place->error),
                  &place->error);
    return client;
}

struct hf_lock *place_lock(struct place *place, const char *scope, int64_t ttl_ms)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    options.ttl_ms = ttl_ms;
    options.no_renewal = true;
    OK(hf_lock_new(place->client, scope, &options, &lock, &place->error));
    return lock;
}

struct hf_lock *place_held(struct place *place, const char *scope)
{
    struct hf_lock *lock = place_lock(place, scope, 30000);
    OK(hf_lock_acquire(lock, 0, &place->error));
    return lock;
}

struct hf_lock *place_waiting(struct place *place, const char *scope)
{
    struct hf_lock *lock = place_lock(place, scope, 30000);
    IS(HF_HELD, hf_lock_begin(lock, &place->error));
    return lock;
}

int place_file(struct place *place, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/file", place->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

char *place_read(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(fd, text, (size_t)size, 0), size);
    return text;
}

int place_run(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    int failed = 0;
    if (argc > 1)
        kind = argv[1];
    struct CMUnitTest *all = calloc(count, sizeof *all);
    if (!all)
        return 1;
    for (size_t i = 0; i < count; i++) {
        all[i] = tests[i];
        all[i].setup_func = set_up;
        all[i].teardown_func = tear_down;
    }
    failed = _cmocka_run_group_tests(kind, all, count, NULL, NULL);
    free(all);
    return failed;
}
