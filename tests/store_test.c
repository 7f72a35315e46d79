/* SPDX-License-Identifier: Apache-2.0 */
/* store_test.c KIND: checks one kind of store against the contract. Kinds are local stores,
 * each in a new directory, or "url", which takes the store from $HOLDFAST_TEST_URL. */
#include "fault_store.h"
#include "meter.h"
#include "store_contract.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

struct subject {
    const char *kind;
    char *folder;
    struct contract contract;
    struct meter meter;
};

static struct subject subject;

static struct store *open_url(const char *url)
{
    struct store *store = NULL;
    struct hf_error error;
    assert_status(HF_OK, store_open(env_real(), view_of(url), &store, &error), &error);
    return store;
}

static struct store *open_in_folder(const char *format)
{
    char url[4200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(url, sizeof url, format, subject.folder);
#pragma GCC diagnostic pop
    return open_url(url);
}

static struct store *open_dir(void)
{
    return open_in_folder("dir:%s/bucket");
}

static struct store *open_dir_without_sync(void)
{
    return open_in_folder("dir:%s/bucket?sync=off");
}

static struct store *open_sqlite(void)
{
    return open_in_folder("sqlite:%s/store.db");
}

static struct store *open_mem(void)
{
    return open_url("mem:");
}

/* With a plan of delays only, the contract must hold as it stands. */
static struct store *open_fault(void)
{
    struct fault_plan plan = { .seed = 1, .delay = 20000, .delay_max = SPAN_MS(1) };
    struct store *store = NULL;
    struct hf_error error;
    assert_status(HF_OK, store_fault(open_mem(), &plan, &store, &error), &error);
    return store;
}

static struct store *open_observed(void)
{
    struct store *store = NULL;
    struct hf_error error;
    meter_init(&subject.meter, env_real());
    assert_status(HF_OK,
                  store_observe(open_mem(), meter_observer(&subject.meter), &store, &error),
                  &error);
    return store;
}

static struct store *open_from_environment(void)
{
    const char *url = getenv("HOLDFAST_TEST_URL");
    assert_non_null(url);
    return open_url(url);
}

struct kind {
    const char *name;
    struct store *(*open)(void);
    bool any_bytes;
    unsigned rounds;
};

static const struct kind kinds[] = {
    { "mem", open_mem, true, 200 },
    { "fault", open_fault, true, 20 },
    { "observed", open_observed, true, 20 },
    { "dir", open_dir, true, 200 },
    { "dir-without-sync", open_dir_without_sync, true, 200 },
    { "sqlite", open_sqlite, true, 200 },
    { "url", open_from_environment, false, 200 },
};

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (view_equal(view_of(kinds[i].name), view_of(name)))
            return &kinds[i];
    return NULL;
}

static int set_up(void **state)
{
    (void)state;
    const struct kind *kind = find_kind(subject.kind);
    assert_non_null(kind);
    if (!kind) /* at -O3, the compiler asks */
        return 1;
    subject.folder = test_dir_make();
    const char *rounds = getenv("HOLDFAST_TEST_ROUNDS");
    subject.contract = (struct contract){ .env = env_real(),
                                          .store = kind->open(),
                                          .any_bytes = kind->any_bytes,
                                          .racers = 64,
                                          .rounds = rounds ? (unsigned)strtoul(rounds, NULL, 10)
                                                           : kind->rounds };
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_close(subject.contract.store);
    test_dir_remove(subject.folder);
    return 0;
}

static void hold_to_row(void **state)
{
    if (!contract_run(&subject.contract, *state))
        fail_msg("%s", subject.contract.failure);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !find_kind(argv[1])) {
        fprintf(stderr, "usage: store_test KIND\n");
        return 2;
    }
    subject.kind = argv[1];
    struct CMUnitTest tests[128];
    size_t count = 0;
    const struct contract_row *row;
    while ((row = contract_row(count)) && count < sizeof tests / sizeof tests[0]) {
        void *state = (void *)(uintptr_t)row;
        tests[count++] = (struct CMUnitTest){ row->sentence, hold_to_row, NULL, NULL, state };
    }
    return _cmocka_run_group_tests(argv[1], tests, count, set_up, tear_down);
}
