/* SPDX-License-Identifier: Apache-2.0 */
/* dir_speed.c: measures how fast a `dir:` store writes: new objects and overwrites, with and
 * without sync, by one process and by several on separate keys. It prints figures and checks
 * nothing. */
#include "base/check.h"
#include "store/store.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 2

struct load {
    const char *name;
    const char *options;
    bool overwrite;
    bool match;
};

static const struct load loads[] = {
    { "put new, sync", "", false, false },
    { "overwrite, sync", "", true, false },
    { "overwrite if match, sync", "", true, true },
    { "put new, sync=off", "?sync=off", false, false },
    { "overwrite, sync=off", "?sync=off", true, false },
    { "overwrite if match, sync=off", "?sync=off", true, true },
};

static struct store *open_store(const char *folder, const struct load *load)
{
    char url[4096];
    struct hf_error error;
    struct store *store;
    int size = snprintf(url, sizeof url, "dir:%s%s", folder, load->options);
    check(store_open(env_real(), (struct view){ url, (size_t)size }, &store, &error) == HF_OK);
    return store;
}

/* Puts for SECONDS; returns how many. */
static uint64_t run_one(const char *folder, const struct load *load, int process)
{
    struct env *env = env_real();
    struct store *store = open_store(folder, load);
    struct mono_time end = mono_add(env_now(env), SPAN_S(SECONDS));
    static const char body[1024];
    uint64_t done = 0;
    struct etag etag = { .size = 0 };
    while (mono_before(env_now(env), end)) {
        char key[64];
        int size =
            snprintf(key, sizeof key, "p%d/%06" PRIu64, process, load->overwrite ? 0 : done);
        struct put_call put = { .key = { key, (size_t)size }, .body = { body, sizeof body } };
        if (load->match && etag.size > 0)
            put.condition = if_match(&etag);
        check(store_put(store, &put) == HF_OK);
        etag = put.etag;
        done++;
    }
    store_close(store);
    return done;
}

static uint64_t run_many(const char *folder, const struct load *load, int processes)
{
    uint64_t total = 0;
    int ends[2];
    check(pipe(ends) == 0);
    for (int i = 0; i < processes; i++) {
        if (fork() == 0) {
            uint64_t done = run_one(folder, load, i);
            check(write(ends[1], &done, sizeof done) == sizeof done);
            _exit(0);
        }
    }
    for (int i = 0; i < processes; i++) {
        uint64_t done;
        check(read(ends[0], &done, sizeof done) == sizeof done);
        total += done;
    }
    while (wait(NULL) > 0)
        ;
    close(ends[0]);
    close(ends[1]);
    return total / SECONDS;
}

int main(void)
{
    static const int counts[] = { 1, 2, 8 };
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        printf("%-30s", loads[i].name);
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            char *folder = test_dir_make();
            printf("  %d: %7" PRIu64 "/s", counts[j], run_many(folder, &loads[i], counts[j]));
            fflush(stdout);
            test_dir_remove(folder);
        }
        printf("\n");
    }
    return 0;
}
