/* SPDX-License-Identifier: Apache-2.0 */
/* process_race_test.c KIND: eight processes, each with its own open store, race for one object.
 * There must always be exactly one winner. KIND is dir, sqlite, or url ($HOLDFAST_TEST_URL). */
#include "store/store.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 8

static char url[4200];
static unsigned rounds = 200;

/* Shared between the processes. */
struct race {
    pthread_barrier_t barrier;
    atomic_uint winners;
    atomic_uint winner;
    atomic_uint strange; /* answers that are neither OK nor CONFLICT */
    atomic_uint rounds_without_one_winner;
    struct etag etag; /* of the version that the next round replaces */
    char prefix[17];
};

static void put_once(struct store *store, struct race *race, unsigned round, unsigned number,
                     bool by_match)
{
    char key[64], body[64];
    snprintf(key, sizeof key, "processes-%s/%u", race->prefix, by_match ? 0 : round);
    snprintf(body, sizeof body, "round %u process %u", round, number);
    struct put_call put = { .key = view_of(key),
                            .body = view_of(body),
                            .condition =
                                by_match && round > 0 ? if_match(&race->etag) : if_absent() };
    enum hf_status status = store_put(store, &put);
    if (status == HF_OK) {
        atomic_fetch_add(&race->winners, 1);
        atomic_store(&race->winner, number);
    } else if (status != HF_CONFLICT && status != HF_UNSURE) {
        fprintf(stderr, "round %u process %u: %s\n", round, number, put.error.why);
        atomic_fetch_add(&race->strange, 1);
    }
}

/* Process 0 looks who won, and whether the winner's bytes are there. */
static void judge(struct store *store, struct race *race, unsigned round, bool by_match)
{
    char key[64], expected[64];
    struct buffer body = BUFFER_INIT(KIB);
    snprintf(key, sizeof key, "processes-%s/%u", race->prefix, by_match ? 0 : round);
    snprintf(expected, sizeof expected, "round %u process %u", round,
             atomic_load(&race->winner));
    struct get_call get = { .key = view_of(key), .body = &body };
    bool good = store_get(store, &get) == HF_OK && atomic_load(&race->winners) == 1 &&
                view_equal(buffer_view(&body), view_of(expected));
    if (!good)
        atomic_fetch_add(&race->rounds_without_one_winner, 1);
    race->etag = get.info.etag;
    atomic_store(&race->winners, 0);
    buffer_release(&body);
}

static void run_process(struct race *race, unsigned number, bool by_match)
{
    struct store *store = NULL;
    struct hf_error error;
    bool opened = store_open(env_real(), view_of(url), &store, &error) == HF_OK;
    if (!opened) {
        fprintf(stderr, "open: %s\n", error.why);
        atomic_fetch_add(&race->strange, 1);
    }
    for (unsigned round = 0; round < rounds; round++) {
        pthread_barrier_wait(&race->barrier);
        if (opened)
            put_once(store, race, round, number, by_match);
        pthread_barrier_wait(&race->barrier);
        if (number == 0 && opened)
            judge(store, race, round, by_match);
        pthread_barrier_wait(&race->barrier);
    }
    store_close(store);
}

static void race_processes(bool by_match)
{
    struct race *race =
        mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(race != MAP_FAILED);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&race->barrier, &shared, PROCESSES);
    env_random_hex(env_real(), 16, race->prefix);
    pid_t children[PROCESSES];
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            run_process(race, i, by_match);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status = 1;
        waitpid(children[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(atomic_load(&race->strange), 0);
    assert_int_equal(atomic_load(&race->rounds_without_one_winner), 0);
    munmap(race, sizeof *race);
}

static void one_process_creates(void **state)
{
    (void)state;
    race_processes(/* by_match */ false);
}

static void one_process_replaces(void **state)
{
    (void)state;
    race_processes(/* by_match */ true);
}

int main(int argc, char **argv)
{
    char *folder = test_dir_make();
    const char *given = getenv("HOLDFAST_TEST_URL");
    const char *wanted_rounds = getenv("HOLDFAST_TEST_ROUNDS");
    struct view kind = view_of(argc == 2 ? argv[1] : "");
    if (view_equal(kind, VIEW("dir")))
        snprintf(url, sizeof url, "dir:%s/bucket", folder);
    else if (view_equal(kind, VIEW("sqlite")))
        snprintf(url, sizeof url, "sqlite:%s/store.db", folder);
    else if (view_equal(kind, VIEW("url")) && given)
        snprintf(url, sizeof url, "%s", given);
    else
        return 2;
    if (wanted_rounds)
        rounds = (unsigned)strtoul(wanted_rounds, NULL, 10);
    const struct CMUnitTest tests[] = {
        IT("of eight processes that put if absent exactly one wins", one_process_creates),
        IT("of eight processes that put if match one ETag exactly one wins",
           one_process_replaces),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_dir_remove(folder);
    return failed;
}
