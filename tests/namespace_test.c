/* SPDX-License-Identifier: Apache-2.0 */
/* namespace_test.c KIND: namespaces whose locks on paths are in pages, through holdfast.h: how they
 * are created, that they hold more locks than one table, and that every call that reads or clears
 * tables finds the pages. KIND is mem or sqlite. */
#include "api_store_kit.h"
#include "env/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIXES   24
#define LOCKS_MANY 1200 /* more than one table holds */

static void create_pages(struct place *place, uint32_t pages, uint32_t segments)
{
    const struct hf_placement placement = { sizeof placement, pages, segments };
    OK(hf_namespace_create(place->store, "many", &placement, &place->error));
}

static struct hf_client *open_client(struct place *place, const char *ns)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *client;
    options.ns = ns;
    OK(hf_client_open_on(place->store, &options, &client, &place->error));
    return client;
}

static struct hf_lock *new_lock(struct place *place, struct hf_client *client,
                                const char *scope)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock;
    options.ttl_ms = 600000;
    options.no_renewal = true;
    OK(hf_lock_new(client, scope, &options, &lock, &place->error));
    return lock;
}

static struct hf_lock *hold(struct place *place, struct hf_client *client, const char *scope)
{
    struct hf_lock *lock = new_lock(place, client, scope);
    OK(hf_lock_acquire(lock, 0, &place->error));
    return lock;
}

/* ---- Creation ------------------------------------------------------------------------ */

static void a_namespace_with_pages_is_created_once(void **state)
{
    struct place *place = *state;
    struct hf_placement placement = HF_PLACEMENT;
    OK(hf_namespace_placement(place->store, "many", &placement, &place->error));
    assert_true(placement.pages == 0 && placement.segments == 1);
    IS(HF_INVALID, hf_namespace_create(place->store, "many", &placement, &place->error));
    create_pages(place, 64, 2);
    create_pages(place, 64, 2);
    OK(hf_namespace_placement(place->store, "many", &placement, &place->error));
    assert_true(placement.pages == 64 && placement.segments == 2);
    placement.pages = 128;
    IS(HF_MISMATCH, hf_namespace_create(place->store, "many", &placement, &place->error));
    IS(HF_INVALID, hf_namespace_create(place->store, "a/b", &placement, &place->error));
    IS(HF_INVALID, hf_namespace_create(place->store, "data", &placement, &place->error));
    IS(HF_INVALID, hf_namespace_placement(place->store, "A", &placement, &place->error));
    OK(hf_namespace_placement(place->store, "other", &placement, &place->error));
    assert_int_equal(placement.pages, 0);
}

static void clients_of_before_are_refused_and_those_of_after_are_not(void **state)
{
    struct place *place = *state;
    struct hf_client *before = open_client(place, "many");
    create_pages(place, 64, 1);
    struct hf_client *after = open_client(place, "many");
    struct hf_lock *stale = new_lock(place, before, "path:/a");
    IS(HF_UNSUPPORTED, hf_lock_acquire(stale, 0, &place->error));
    hf_lock_free(hold(place, before, "deploy"));
    hf_lock_free(hold(place, after, "path:/a"));
    hf_lock_free(stale);
    hf_client_close(before);
    hf_client_close(after);
}

static void scopes_that_do_not_fit_into_a_page_are_refused(void **state)
{
    static const char *const apart[] = { "path:/a/b", "path:/c/d" };
    static const char *const together[] = { "path:/a/b", "tree:/a/c" };
    struct place *place = *state;
    struct hf_lock *lock;
    create_pages(place, 64, 1);
    struct hf_client *client = open_client(place, "many");
    IS(HF_INVALID, hf_lock_new(client, "tree:/", NULL, &lock, &place->error));
    assert_non_null(strstr(place->error.why, "at least 1 segment;"));
    IS(HF_INVALID, hf_lock_new_many(client, apart, 2, NULL, &lock, &place->error));
    assert_non_null(strstr(place->error.why, "different pages"));
    assert_non_null(strstr(place->error.why, "use a lock for each"));
    OK(hf_lock_new_many(client, together, 2, NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    struct hf_lock *inside = new_lock(place, client, "path:/a/c/x");
    IS(HF_HELD, hf_lock_acquire(inside, 0, &place->error));
    hf_lock_free(inside);
    hf_lock_free(lock);
    hf_client_close(client);
}

/* ---- Many locks ---------------------------------------------------------------------- */

static enum hf_status take_many(struct place *place, struct hf_client *client,
                                struct hf_lock **locks, size_t *ret_taken)
{
    enum hf_status status = HF_OK;
    size_t i = 0;
    for (; i < LOCKS_MANY && status == HF_OK; i++) {
        char scope[64];
        snprintf(scope, sizeof scope, "path:/p%zu/f%zu", i % PREFIXES, i);
        locks[i] = new_lock(place, client, scope);
        status = hf_lock_acquire(locks[i], 0, &place->error);
    }
    *ret_taken = i;
    return status;
}

static bool count_lease(void *argument, const struct hf_lease_info *lease)
{
    (void)lease;
    ++*(size_t *)argument;
    return true;
}

static size_t count_listed(struct place *place, struct hf_client *client, const char *start)
{
    size_t count = 0;
    OK(hf_locks_list(client, start, NULL, count_lease, &count, &place->error));
    return count;
}

static void pages_hold_more_locks_than_one_table(void **state)
{
    struct place *place = *state;
    static struct hf_lock *locks[LOCKS_MANY];
    size_t taken;
    struct hf_client *plain = open_client(place, "few");
    enum hf_status status = take_many(place, plain, locks, &taken);
    assert_true(status != HF_OK && taken == 1001);
    for (size_t i = 0; i < taken; i++)
        hf_lock_free(locks[i]);
    hf_client_close(plain);
    create_pages(place, 256, 1);
    struct hf_client *client = open_client(place, "many");
    OK(take_many(place, client, locks, &taken));
    assert_int_equal(count_listed(place, client, ""), LOCKS_MANY);
    assert_int_equal(count_listed(place, client, "path:/p7/"), LOCKS_MANY / PREFIXES);
    struct hf_lock *again = new_lock(place, client, "tree:/p7");
    IS(HF_HELD, hf_lock_acquire(again, 0, &place->error));
    hf_lock_free(again);
    for (size_t i = 0; i < taken; i++)
        hf_lock_free(locks[i]);
    hf_client_close(client);
}

/* ---- Whatever reads tables ----------------------------------------------------------- */

struct requests {
    size_t lists, reads;
};

static void count_request(void *argument, const struct hf_store_request *request)
{
    struct requests *requests = argument;
    requests->lists += request->call == HF_STORE_CALL_LIST;
    requests->reads += request->call == HF_STORE_CALL_GET;
}

static void a_listing_reads_only_the_page_that_it_needs(void **state)
{
    struct place *place = *state;
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct requests requests = { 0 };
    create_pages(place, 256, 1);
    struct hf_client *client = open_client(place, "many");
    struct hf_lock *locks[8];
    for (size_t i = 0; i < 8; i++) {
        char scope[32];
        snprintf(scope, sizeof scope, "path:/p%zu/x", i);
        locks[i] = hold(place, client, scope);
    }
    struct hf_store *mine = place->store;
    if (strcmp(store_kind, "mem") != 0) { /* a store in memory cannot be opened twice */
        options.trace = count_request;
        options.trace_argument = &requests;
        place_open(place, &options);
        struct hf_client *reader = open_client(place, "many");
        requests = (struct requests){ 0 };
        assert_int_equal(count_listed(place, reader, "path:/p3/"), 1);
        assert_true(requests.lists == 1 && requests.reads == 1);
        assert_int_equal(count_listed(place, reader, "path:"), 8);
        hf_client_close(reader);
        hf_store_close(place->store);
        place->store = mine;
    }
    for (size_t i = 0; i < 8; i++)
        hf_lock_free(locks[i]);
    hf_client_close(client);
}

static bool count_change(void *argument, enum hf_change change,
                         const struct hf_lease_info *lease)
{
    (void)change, (void)lease;
    ++*(size_t *)argument;
    return true;
}

static void locks_in_pages_are_shown_watched_adopted_and_broken(void **state)
{
    struct place *place = *state;
    struct hf_table_info table = HF_TABLE_INFO;
    char text[HF_LEASE_TEXT_MAX];
    size_t count = 0;
    struct hf_watch *watch;
    struct hf_lock *adopted;
    create_pages(place, 16, 1);
    struct hf_client *client = open_client(place, "many");
    OK(hf_watch_new(client, "tree:", NULL, &watch, &place->error));
    OK(hf_watch_look(watch, count_change, &count, &place->error));
    count = 0;
    struct hf_lock *lock = hold(place, client, "tree:/a");
    OK(hf_watch_look(watch, count_change, &count, &place->error));
    assert_int_equal(count, 1);
    hf_watch_free(watch);
    OK(hf_locks_show(client, "path:/a/b", &table, count_lease, NULL, &count, &place->error));
    assert_true(!table.absent && strncmp(table.table, "many/paths/", 11) == 0);
    assert_int_equal(count, 2);
    OK(hf_lock_text(lock, text, &place->error));
    assert_non_null(strstr(text, ":many/paths/"));
    OK(hf_lock_adopt(client, text, NULL, &adopted, &place->error));
    OK(hf_fenced_put(adopted, "out", "1", 1, &place->error));
    IS(HF_INVALID, hf_fenced_put(adopted, "many/paths/3.json", "1", 1, &place->error));
    hf_lock_detach(adopted);
    OK(hf_break(client, text, "ann", "test", &place->error));
    IS(HF_LOST, hf_lock_renew(lock, &place->error));
    hf_lock_free(lock);
    hf_client_close(client);
}

static void note_failure(void *argument, const char *about, const struct hf_error *why)
{
    (void)argument;
    fail_msg("%s: %s", about, why->why);
}

static void a_sweep_clears_pages_and_leaves_the_placement(void **state)
{
    struct place *place = *state;
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    struct hf_sweep_report report = HF_SWEEP_REPORT;
    struct hf_lock_options brief = HF_LOCK_OPTIONS;
    struct hf_placement placement = HF_PLACEMENT;
    struct hf_lock *lock;
    create_pages(place, 16, 1);
    struct hf_client *client = open_client(place, "many");
    brief.ttl_ms = 200;
    brief.no_renewal = true;
    OK(hf_lock_new(client, "path:/a/b", &brief, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    hf_lock_detach(lock);
    options.full = true;
    options.failed = note_failure;
    for (int i = 0; i < 3000 && report.leases_cleared == 0; i++) {
        env_sleep(env_real(), SPAN_MS(10));
        OK(hf_sweep(client, &options, &report, &place->error));
    }
    assert_true(report.leases_cleared > 0);
    options.all_namespaces = true;
    OK(hf_sweep(client, &options, &report, &place->error));
    assert_object_holds(place->store, "many/paths.json",
                        "{\"format\":\"holdfast.leases/2\",\"pages\":16,\"segments\":1}\n");
    OK(hf_namespace_placement(place->store, "many", &placement, &place->error));
    assert_int_equal(placement.pages, 16);
    hf_client_close(client);
}

static void a_restore_bars_the_pages_and_an_epoch_counts_their_tokens(void **state)
{
    struct place *place = *state;
    struct hf_store_restored_report report = HF_STORE_RESTORED_REPORT;
    create_pages(place, 16, 1);
    struct hf_client *client = open_client(place, "many");
    struct hf_lock *lock = hold(place, client, "path:/a/b");
    uint64_t token = hf_lock_token(lock);
    hf_lock_detach(lock);
    struct hf_store_delete_options force = HF_STORE_DELETE_OPTIONS;
    force.force = true;
    OK(hf_store_delete(place->store, ".holdfast/epoch/many.json", &force, &place->error));
    OK(hf_store_delete(place->store, ".holdfast/epoch-copy/many.json", &force, &place->error));
    lock = new_lock(place, client, "path:/other/page");
    IS(HF_CORRUPT, hf_lock_acquire(lock, 0, &place->error));
    OK(hf_store_repair_epoch(place->store, "many", NULL, NULL, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    assert_true(hf_lock_token(lock) >> 32 > token >> 32);
    hf_lock_free(lock);
    OK(hf_store_restored(place->store, NULL, &report, &place->error));
    assert_int_equal(report.tables, 2);
    lock = new_lock(place, client, "path:/a/c");
    IS(HF_HELD, hf_lock_acquire(lock, 0, &place->error));
    hf_lock_free(lock);
    hf_client_close(client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        { "a namespace with pages is created once", a_namespace_with_pages_is_created_once,
          place_set_up, place_tear_down, NULL },
        { "clients that were opened before are refused, and later ones are not",
          clients_of_before_are_refused_and_those_of_after_are_not, place_set_up,
          place_tear_down, NULL },
        { "scopes that do not fit into one page are refused, with advice",
          scopes_that_do_not_fit_into_a_page_are_refused, place_set_up, place_tear_down, NULL },
        { "more locks than one table holds are held in pages",
          pages_hold_more_locks_than_one_table, place_set_up, place_tear_down, NULL },
        { "a listing reads only the page that it needs",
          a_listing_reads_only_the_page_that_it_needs, place_set_up, place_tear_down, NULL },
        { "locks in pages are shown, watched, adopted and broken",
          locks_in_pages_are_shown_watched_adopted_and_broken, place_set_up, place_tear_down,
          NULL },
        { "a sweep clears pages, and leaves the placement",
          a_sweep_clears_pages_and_leaves_the_placement, place_set_up, place_tear_down, NULL },
        { "a restore bars the pages, and a rebuilt epoch is above their tokens",
          a_restore_bars_the_pages_and_an_epoch_counts_their_tokens, place_set_up,
          place_tear_down, NULL },
    };
    if (argc != 2)
        return 2;
    store_kind = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
