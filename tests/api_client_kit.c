#include "api_client_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *kind = "mem";

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    place->folder = test_dir_make();
    snprintf(place->url, sizeof place->url, "mem:");
    if (strcmp(kind, "sqlite") == 0)
        snprintf(place->url, sizeof place->url, "sqlite:%s/store.db", place->folder);
    assert_status(HF_OK, hf_client_open(place->url, NULL, &place->client, &place->error),
                  &place->error);
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
