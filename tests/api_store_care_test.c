/* SPDX-License-Identifier: Apache-2.0 */
/* api_store_care_test.c KIND: the promises of holdfast/store.h about copies, clients on a
 * store, the trace, the probe, the clock and restores, and those of holdfast/scrub.h. KIND is mem
 * or sqlite. */
#include "api_store_kit.h"

#include <stdio.h>
#include <string.h>

/* ---- copy ---------------------------------------------------------------------------- */

struct copied {
    size_t count;
    size_t stop_after;
    bool last_copied;
    uint32_t crc32c;
};

static bool see_copied(void *argument, const struct hf_store_copied *copied)
{
    struct copied *seen = argument;
    seen->last_copied = copied->copied;
    seen->crc32c = copied->crc32c;
    return ++seen->count != seen->stop_after;
}

static void an_object_is_copied_and_left_alone_when_it_is_equal(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    struct copied seen = { 0 };
    options.each = see_copied;
    options.each_argument = &seen;
    put_object(place, "a", "123456789");
    OK(hf_store_copy(place->store, "a", place->store, "b", &options, &report, &place->error));
    assert_object_holds(place->store, "b", "123456789");
    assert_true(seen.last_copied && seen.crc32c == 0xe3069283);
    assert_true(report.copied == 1 && report.copied_bytes == 9 && report.equal == 0);
    OK(hf_store_copy(place->store, "a", place->store, "b", &options, &report, &place->error));
    assert_true(!seen.last_copied && report.copied == 0 && report.equal == 1);
    put_object(place, "b", "other");
    options.if_absent = true;
    IS(HF_CONFLICT,
       hf_store_copy(place->store, "a", place->store, "b", &options, NULL, &place->error));
    options.if_absent = false;
    OK(hf_store_copy(place->store, "a", place->store, "b", &options, NULL, &place->error));
    assert_object_holds(place->store, "b", "123456789");
}

static void a_copy_that_makes_no_sense_is_refused(void **state)
{
    struct place *place = *state;
    put_object(place, "a", "1");
    IS(HF_NOT_FOUND,
       hf_store_copy(place->store, "none", place->store, "b", NULL, NULL, &place->error));
    IS(HF_INVALID,
       hf_store_copy(place->store, "a", place->store, "a", NULL, NULL, &place->error));
    IS(HF_INVALID, hf_store_copy(place->store, "a", place->store, ".holdfast/format.json", NULL,
                                 NULL, &place->error));
    IS(HF_INVALID,
       hf_store_copy_all(place->store, "a", place->store, "ab", NULL, NULL, &place->error));
}

static void all_objects_of_a_prefix_go_to_another_store(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    struct hf_store *other;
    unsigned steps = 0;
    OK(hf_store_open("mem:", NULL, &other, &place->error));
    put_object(place, "r/1", "one");
    put_object(place, "r/2", "two");
    put_object(place, "s", "three");
    options.count_first = true;
    options.progress = count_steps;
    options.progress_argument = &steps;
    OK(hf_store_copy_all(place->store, "r/", other, "copy/", &options, &report, &place->error));
    assert_true(report.copied == 2 && report.copied_bytes == 6 && report.vanished == 0);
    assert_true(steps > 0);
    assert_object_holds(other, "copy/1", "one");
    assert_object_holds(other, "copy/2", "two");
    OK(hf_store_copy_all(place->store, "", other, "", NULL, &report, &place->error));
    assert_int_equal(report.copied, 3);
    assert_object_holds(other, "s", "three");
    hf_store_close(other);
}

static void a_copy_onto_a_part_of_its_source_is_refused(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store *other;
    OK(hf_store_open("mem:", NULL, &other, &place->error));
    put_object(place, "r/1", "one");
    put_object(place, "r/r/1", "two");
    IS(HF_INVALID,
       hf_store_copy_all(place->store, "r/", place->store, "", NULL, NULL, &place->error));
    assert_object_holds(place->store, "r/1", "one");
    options.source_in_target = "copy/r/";
    IS(HF_INVALID,
       hf_store_copy(place->store, "r/1", other, "copy/2", &options, NULL, &place->error));
    IS(HF_INVALID,
       hf_store_copy_all(place->store, "r/", other, "copy/", &options, NULL, &place->error));
    assert_non_null(strstr(place->error.why, "'copy/r/1', which is part of the source"));
    assert_object_holds(other, "copy/1", "one");
    options.source_in_target = "copy/r/1x";
    OK(hf_store_copy_all(place->store, "r/", other, "copy/", &options, NULL, &place->error));
    hf_store_close(other);
}

static void a_copy_that_is_stopped_goes_on_with_the_next_call(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    struct copied seen = { .stop_after = 1 };
    put_object(place, "r/1", "one");
    put_object(place, "r/2", "two");
    options.each = see_copied;
    options.each_argument = &seen;
    OK(hf_store_copy_all(place->store, "r/", place->store, "t/", &options, &report,
                         &place->error));
    assert_int_equal(report.copied, 1);
    options.each = NULL;
    options.progress = say_stop;
    IS(HF_CANCELLED, hf_store_copy_all(place->store, "r/", place->store, "t/", &options, NULL,
                                       &place->error));
    options.progress = NULL;
    OK(hf_store_copy_all(place->store, "r/", place->store, "t/", &options, &report,
                         &place->error));
    assert_true(report.copied == 1 && report.equal == 1);
}

static void holdfasts_own_objects_are_copied_only_where_there_are_none(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_store *other;
    OK(hf_client_open_on(place->store, NULL, &client, &place->error));
    OK(hf_lock_new(client, "deploy", NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    OK(hf_store_open("mem:", NULL, &other, &place->error));
    OK(hf_store_copy_all(place->store, "", other, "", NULL, NULL, &place->error));
    OK(hf_lock_release(lock, &place->error));
    IS(HF_INVALID, hf_store_copy_all(place->store, "", other, "", NULL, NULL, &place->error));
    options.force = true;
    OK(hf_store_copy_all(place->store, "", other, "", &options, NULL, &place->error));
    hf_lock_free(lock);
    hf_client_close(client);
    hf_store_close(other);
}

/* What another client does when the sync comes to an object, after it was listed. */
struct meddler {
    struct place *place;
    const char *key, *writes; /* writes that object, */
    const char *also;         /* when it comes to this key for the ... */
    unsigned turn, seen;      /* ... time */
};

static bool meddle(void *argument, const char *key, size_t key_size)
{
    struct meddler *meddler = argument;
    assert_int_equal(strlen(key), key_size);
    if (strcmp(key, meddler->also) == 0 && ++meddler->seen == meddler->turn)
        put_object(meddler->place, meddler->key, meddler->writes);
    return true;
}

static void a_sync_never_overwrites_or_deletes_what_others_write_meanwhile(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    struct meddler meddler = { place, "to/a", "theirs", "from/a", .turn = 1 };
    options.sync = true;
    options.delete_extra = true;
    options.choose = meddle;
    options.choose_argument = &meddler;
    put_object(place, "from/a", "ours");
    IS(HF_CONFLICT, hf_store_copy_all(place->store, "from/", place->store, "to/", &options,
                                      NULL, &place->error));
    assert_object_holds(place->store, "to/a", "theirs");
    meddler = (struct meddler){ place, "to/a", "later", "from/a", .turn = 1 };
    IS(HF_CONFLICT, hf_store_copy_all(place->store, "from/", place->store, "to/", &options,
                                      NULL, &place->error));
    assert_object_holds(place->store, "to/a", "later");
    put_object(place, "to/b", "extra");
    meddler = (struct meddler){ place, "to/b", "theirs", "from/b", .turn = 2 };
    IS(HF_CONFLICT, hf_store_copy_all(place->store, "from/", place->store, "to/", &options,
                                      NULL, &place->error));
    assert_object_holds(place->store, "to/a", "ours");
    assert_object_holds(place->store, "to/b", "theirs");
    meddler = (struct meddler){ place, "from/b", "wanted", "from/b", .turn = 2 };
    OK(hf_store_copy_all(place->store, "from/", place->store, "to/", &options, &report,
                         &place->error));
    assert_true(report.deleted == 0 && report.copied == 0 && report.equal == 1);
    assert_object_holds(place->store, "to/b", "theirs"); /* the next sync copies it */
    OK(hf_store_copy_all(place->store, "from/", place->store, "to/", &options, &report,
                         &place->error));
    assert_object_holds(place->store, "to/b", "wanted");
    OK(hf_store_delete(place->store, "from/b", NULL, &place->error));
    meddler.also = "";
    OK(hf_store_copy_all(place->store, "from/", place->store, "to/", &options, &report,
                         &place->error));
    assert_true(report.deleted == 1 && report.equal == 1);
    assert_lists(place, "", NULL, "from/a to/a ");
}

/* A client of the target, which begins to use locks while the sync copies. */
struct newcomer {
    struct hf_store *store;
    struct hf_error error;
};

static bool come_with_locks(void *argument, const char *key, size_t key_size)
{
    struct newcomer *newcomer = argument;
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    options.force = true;
    options.if_absent = true;
    if (strcmp(key, "z") == 0 && key_size == 1)
        hf_store_put(newcomer->store, "default/meta/job.json", "{}", 2, &options, NULL,
                     &newcomer->error);
    return true;
}

static void a_sync_never_deletes_own_objects_that_appear_meanwhile(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct newcomer newcomer;
    OK(hf_store_open("mem:", NULL, &newcomer.store, &place->error));
    OK(hf_store_put(newcomer.store, "b", "extra", 5, NULL, NULL, &place->error));
    options.sync = true;
    options.delete_extra = true;
    options.choose = come_with_locks;
    options.choose_argument = &newcomer;
    put_object(place, "z", "1");
    IS(HF_INVALID,
       hf_store_copy_all(place->store, "", newcomer.store, "", &options, NULL, &place->error));
    assert_non_null(strstr(place->error.why, "default/meta/job.json"));
    assert_object_holds(newcomer.store, "default/meta/job.json", "{}");
    assert_object_holds(newcomer.store, "z", "1");
    options.force = true;
    OK(hf_store_copy_all(place->store, "", newcomer.store, "", &options, NULL, &place->error));
    hf_store_close(newcomer.store);
}

static void a_sync_of_many_pages_deletes_in_batches(void **state)
{
    struct place *place = *state;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    const unsigned count = strcmp(store_kind, "mem") == 0 ? 2100 : 20;
    char key[32];
    options.sync = true;
    options.delete_extra = true;
    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof key, "to/%04u", i);
        put_object(place, key, "x");
    }
    put_object(place, "from/0015", "y");
    put_object(place, "from/z", "z");
    OK(hf_store_copy_all(place->store, "from/", place->store, "to/", &options, &report,
                         &place->error));
    assert_true(report.deleted == count - 1 && report.copied == 2 && report.equal == 0);
    assert_lists(place, "to/", NULL, "to/0015 to/z ");
    IS(HF_INVALID, hf_store_copy_all(place->store, "to/", place->store, "t", &options, NULL,
                                     &place->error));
    options.sync = false;
    IS(HF_INVALID, hf_store_copy_all(place->store, "from/", place->store, "to/", &options, NULL,
                                     &place->error));
}

/* ---- Clients and the trace ----------------------------------------------------------- */

static void clients_share_a_store_and_keep_it(void **state)
{
    struct place *place = *state;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_client *one, *two;
    struct hf_lock *lock, *other;
    options.ns = "second";
    OK(hf_client_open_on(place->store, NULL, &one, &place->error));
    OK(hf_client_open_on(place->store, &options, &two, &place->error));
    hf_store_close(place->store);
    place->store = NULL;
    OK(hf_lock_new(one, "x", NULL, &lock, &place->error));
    OK(hf_lock_new(two, "x", NULL, &other, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    OK(hf_lock_acquire(other, 0, &place->error)); /* of another namespace */
    OK(hf_store_put(hf_client_store(one), "a", "1", 1, NULL, NULL, &place->error));
    assert_object_holds(hf_client_store(two), "a", "1");
    hf_lock_free(other);
    hf_client_close(two);
    hf_client_close(one); /* before its lock is freed */
    IS(HF_LOST, hf_lock_check(lock, &place->error));
    hf_lock_free(lock);
    options.ns = "metadata";
    place_open(place, NULL);
    IS(HF_INVALID, hf_client_open_on(place->store, &options, &one, &place->error));
    assert_null(one);
}

static void a_client_lends_its_store(void **state)
{
    struct place *place = *state;
    struct hf_client *client;
    OK(hf_client_open("mem:", NULL, &client, &place->error));
    OK(hf_store_put(hf_client_store(client), "a", "1", 1, NULL, NULL, &place->error));
    assert_object_holds(hf_client_store(client), "a", "1");
    hf_client_close(client);
}

struct traced {
    size_t count;
    struct hf_store_request last;
    char key[HF_KEY_BYTES_MAX + 1], why[HF_WHY_MAX], if_match[HF_ETAG_MAX];
};

static void see_request(void *argument, const struct hf_store_request *request)
{
    struct traced *traced = argument;
    traced->count++;
    traced->last = *request;
    snprintf(traced->key, sizeof traced->key, "%s", request->key);
    snprintf(traced->why, sizeof traced->why, "%s", request->why);
    snprintf(traced->if_match, sizeof traced->if_match, "%s",
             request->if_match ? request->if_match : "");
}

static void the_trace_tells_each_call(void **state)
{
    struct place *place = *state;
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct hf_store_put_options condition = HF_STORE_PUT_OPTIONS;
    struct traced traced = { .count = 0 };
    options.trace = see_request;
    options.trace_argument = &traced;
    hf_store_close(place->store);
    place_open(place, &options);
    assert_int_equal(traced.count, 1); /* what the bucket says of itself */
    assert_string_equal(traced.key, ".holdfast/format.json");
    condition.if_absent = true;
    OK(hf_store_put(place->store, "a\nb", "12", 2, &condition, NULL, &place->error));
    assert_int_equal(traced.count, 2);
    assert_int_equal(traced.last.call, HF_STORE_CALL_PUT);
    assert_string_equal(hf_store_call_name(traced.last.call), "put");
    assert_string_equal(traced.key, "a\nb");
    assert_true(traced.last.if_absent && traced.last.status == HF_OK && traced.last.etag);
    assert_int_equal(traced.last.sent_bytes, 2);
    assert_string_equal(traced.why, "");
    IS(HF_CONFLICT,
       hf_store_put(place->store, "a\nb", "12", 2, &condition, NULL, &place->error));
    assert_int_equal(traced.last.status, HF_CONFLICT);
    assert_string_equal(traced.why, "the object already exists");
    condition.if_absent = false;
    condition.if_match = "7f";
    IS(HF_CONFLICT,
       hf_store_put(place->store, "a\nb", "12", 2, &condition, NULL, &place->error));
    assert_string_equal(traced.if_match, "7f");
}

static void a_store_opened_for_clients_is_asked_once(void **state)
{
    struct place *place = *state;
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct hf_client *client;
    struct traced traced = { .count = 0 };
    options.coordinates = true;
    options.trace = see_request;
    options.trace_argument = &traced;
    hf_store_close(place->store);
    place_open(place, &options);
    assert_int_equal(traced.count, 1);
    OK(hf_client_open_on(place->store, NULL, &client, &place->error));
    assert_int_equal(traced.count, 1);
    hf_client_close(client);
}

static void an_unknown_feature_of_the_bucket_is_unsupported(void **state)
{
    struct place *place = *state;
    struct hf_store_put_options force = HF_STORE_PUT_OPTIONS;
    struct hf_client *client;
    const char *format =
        "{\"format\": \"holdfast.bucket/1\", \"features\": {\"compatible\": [], "
        "\"read_only\": [], \"incompatible\": [\"from-the-future\"]}}";
    force.force = true;
    OK(hf_store_put(place->store, ".holdfast/format.json", format, strlen(format), &force, NULL,
                    &place->error));
    IS(HF_UNSUPPORTED, hf_client_open_on(place->store, NULL, &client, &place->error));
    assert_null(client);
    assert_non_null(strstr(place->error.why, "from-the-future"));
}

/* ---- The probe, the clock, restores -------------------------------------------------- */

static bool count_findings(void *argument, const struct hf_store_finding *finding)
{
    uint32_t *count = argument;
    assert_true(finding->what[0] != '\0');
    assert_string_not_equal(hf_finding_name(finding->finding), "refused");
    ++*count;
    return true;
}

static void the_probe_accepts_this_store(void **state)
{
    struct place *place = *state;
    struct hf_store_probe_options options = HF_STORE_PROBE_OPTIONS;
    struct hf_store_probe_report report = HF_STORE_PROBE_REPORT;
    uint32_t count = 0;
    options.each = count_findings;
    options.argument = &count;
    options.no_save = true;
    OK(hf_store_probe(place->store, &options, &report, &place->error));
    assert_true(report.usable && report.findings == count && count > 5 && report.requests > 10);
    assert_true(report.delete_conditional && report.etag_fresh && report.list_ordered);
    assert_lists(place, "", NULL, ""); /* it cleans up, and was told not to keep it */
    OK(hf_store_probe(place->store, NULL, NULL, &place->error));
    assert_lists(place, "", NULL, ".holdfast/format.json ");
}

static void a_local_store_has_the_clock_of_the_machine(void **state)
{
    struct place *place = *state;
    struct hf_store_clock_report report = HF_STORE_CLOCK_REPORT;
    OK(hf_store_clock(place->store, &report, &place->error));
    assert_int_equal(report.kind, HF_STORE_CLOCK_BOOT);
    assert_string_equal(hf_store_clock_name(report.kind), "boot");
    assert_true(report.known && report.id[0] != '\0' && report.since_boot_us > 0);
    assert_true(report.earliest_us == report.latest_us && report.sample_count == 0);
    report = (struct hf_store_clock_report){ 0 };
    IS(HF_INVALID, hf_store_clock(place->store, &report, &place->error));
}

struct restored {
    size_t namespaces, tables, stop_after;
    uint64_t epoch;
};

static bool see_restored(void *argument, const struct hf_store_restored_info *info)
{
    struct restored *seen = argument;
    assert_true(!info->ns != !info->table);
    seen->namespaces += info->ns != NULL;
    seen->tables += info->table != NULL;
    if (info->ns)
        seen->epoch = info->epoch;
    return seen->namespaces + seen->tables != seen->stop_after;
}

static void after_a_restore_nothing_is_granted_and_tokens_are_higher(void **state)
{
    struct place *place = *state;
    struct hf_store_restored_options options = HF_STORE_RESTORED_OPTIONS;
    struct hf_store_restored_report report = HF_STORE_RESTORED_REPORT;
    struct restored seen = { 0 };
    struct hf_client *client;
    struct hf_lock *lock;
    OK(hf_client_open_on(place->store, NULL, &client, &place->error));
    OK(hf_lock_new(client, "deploy", NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    OK(hf_lock_release(lock, &place->error));
    options.each = see_restored;
    options.argument = &seen;
    options.dry_run = true;
    OK(hf_store_restored(place->store, &options, &report, &place->error));
    assert_true(seen.namespaces == 1 && report.namespaces == 1 && report.tables == seen.tables);
    OK(hf_lock_acquire(lock, 0, &place->error)); /* nothing was changed */
    OK(hf_lock_release(lock, &place->error));
    options.dry_run = false;
    seen = (struct restored){ .stop_after = 1 };
    IS(HF_CANCELLED, hf_store_restored(place->store, &options, NULL, &place->error));
    seen = (struct restored){ 0 };
    OK(hf_store_restored(place->store, &options, &report, &place->error));
    assert_true(report.tables >= 1 && report.barrier_ms >= 1000 && seen.epoch > 4096);
    IS(HF_HELD, hf_lock_acquire(lock, 0, &place->error));
    options.ns = "no/slash";
    IS(HF_INVALID, hf_store_restored(place->store, &options, &report, &place->error));
    hf_lock_free(lock);
    hf_client_close(client);
}

static bool see_epoch(void *argument, const struct hf_store_epoch_info *info)
{
    struct hf_store_epoch_info *seen = argument;
    *seen = *info;
    seen->ns = NULL;
    return true;
}

static void an_epoch_is_never_written_lower(void **state)
{
    struct place *place = *state;
    struct hf_store_epoch_info seen = { 0 };
    struct hf_client *client;
    struct hf_lock *lock;
    OK(hf_client_open_on(place->store, NULL, &client, &place->error));
    OK(hf_lock_new(client, "deploy", NULL, &lock, &place->error));
    OK(hf_lock_acquire(lock, 0, &place->error));
    uint64_t token = hf_lock_token(lock);
    OK(hf_store_repair_epoch(place->store, NULL, see_epoch, &seen, &place->error));
    assert_true(seen.known && !seen.lost && seen.epoch >= seen.epoch_before);
    assert_true(seen.epoch >= token >> 32 && seen.highest_token >= token);
    OK(hf_store_repair_epoch(place->store, "default", see_epoch, &seen, &place->error));
    assert_true(seen.epoch >= token >> 32);
    IS(HF_INVALID, hf_store_repair_epoch(place->store, "A B", NULL, NULL, &place->error));
    hf_lock_free(lock);
    hf_client_close(client);
}

/* ---- scrub --------------------------------------------------------------------------- */

struct scrubbed {
    enum hf_scrub_kind kind;
    char key[64];
    size_t findings, steps;
    size_t stop_after; /* so many findings or steps */
};

static bool see_scrub_finding(void *argument, const struct hf_scrub_finding *finding)
{
    struct scrubbed *seen = argument;
    seen->kind = finding->kind;
    snprintf(seen->key, sizeof seen->key, "%.*s", (int)finding->key_size, finding->key);
    return ++seen->findings != seen->stop_after;
}

static bool see_scrub_step(void *argument, const struct hf_store_scrub_report *report)
{
    struct scrubbed *seen = argument;
    (void)report;
    return ++seen->steps != seen->stop_after;
}

static void force_object(struct place *place, const char *key, const char *text)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    options.force = true;
    OK(hf_store_put(place->store, key, text, strlen(text), &options, NULL, &place->error));
}

static void a_scrub_reads_everything_and_names_what_is_damaged(void **state)
{
    struct place *place = *state;
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    struct scrubbed seen = { 0 };
    options.finding = see_scrub_finding;
    options.progress = see_scrub_step;
    options.argument = &seen;
    OK(hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(report.complete && report.objects == 0);
    put_object(place, "a", "123");
    put_object(place, "b", "");
    OK(hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(report.complete && report.objects == 2 && report.bytes_read == 3);
    assert_true(report.documents == 0 && report.position_size == 0 && seen.findings == 0);
    force_object(place, "metadata/catalog.json", "{}");
    OK(hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(report.damaged == 1 && report.documents == 1 && seen.findings == 1);
    assert_int_equal(seen.kind, HF_SCRUB_DAMAGED);
    assert_string_equal(seen.key, "metadata/catalog.json");
    force_object(place, ".holdfast/later", "{}");
    OK(hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(report.unknown == 1 && report.damaged == 1);
    OK(hf_store_scrub(place->store, NULL, NULL, &place->error));
    assert_string_equal(hf_scrub_kind_name(HF_SCRUB_TOO_NEW), "too-new");
    assert_string_equal(hf_scrub_kind_text((enum hf_scrub_kind)99), "unknown");
}

static void a_scrub_that_is_stopped_says_where_it_continues(void **state)
{
    struct place *place = *state;
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    struct scrubbed seen = { .stop_after = 2 };
    char after[HF_SCRUB_POSITION_MAX];
    put_object(place, "a", "1");
    put_object(place, "b", "2");
    put_object(place, "c", "3");
    options.progress = see_scrub_step;
    options.argument = &seen;
    IS(HF_CANCELLED, hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(!report.complete && strcmp(report.position, "a") == 0);
    options.progress = NULL;
    options.bytes_max = 1;
    for (size_t i = 0; i < 2; i++) {
        memcpy(after, report.position, sizeof after);
        options.after = after;
        OK(hf_store_scrub(place->store, &options, &report, &place->error));
        assert_true(!report.complete && report.objects == 1);
    }
    assert_string_equal(report.position, "c");
    options.after = "c";
    OK(hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(report.complete && report.objects == 0 && report.position_size == 0);
    options = HF_STORE_SCRUB_OPTIONS;
    options.prefix = "b";
    OK(hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(report.complete && report.objects == 1);
    options.bytes_max = 1;
    put_object(place, "b", "too large");
    OK(hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(report.complete && report.objects == 0 && report.skipped == 1);
}

/* The bare key of the catalog would mean that its chunks were read as well. */
static void a_scrub_that_is_stopped_in_a_catalog_continues_with_its_chunks(void **state)
{
    struct place *place = *state;
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    struct scrubbed seen = { .stop_after = 1 };
    force_object(place, "metadata/catalog.json", "{}");
    options.bytes_max = 1000;
    options.progress = see_scrub_step;
    options.argument = &seen;
    IS(HF_CANCELLED, hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(!report.complete && report.skipped == 1);
    assert_string_equal(report.position, "metadata/catalog.json#");
    seen.steps = 0;
    options.documents = true; /* no chunk is read */
    IS(HF_CANCELLED, hf_store_scrub(place->store, &options, &report, &place->error));
    assert_string_equal(report.position, "metadata/catalog.json");
}

static void a_finding_can_end_a_scrub(void **state)
{
    struct place *place = *state;
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    struct scrubbed seen = { .stop_after = 1 };
    force_object(place, ".holdfast/later", "");
    force_object(place, "metadata/later", "");
    options.finding = see_scrub_finding;
    options.argument = &seen;
    OK(hf_store_scrub(place->store, &options, &report, &place->error));
    assert_true(report.unknown == 1 && !report.complete);
    options.after = report.position;
    options.after_size = HF_SCRUB_POSITION_MAX * 2;
    char long_position[HF_SCRUB_POSITION_MAX * 2];
    memset(long_position, 'x', sizeof long_position);
    options.after = long_position;
    IS(HF_INVALID, hf_store_scrub(place->store, &options, &report, &place->error));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(an_object_is_copied_and_left_alone_when_it_is_equal),
        CASE(a_scrub_reads_everything_and_names_what_is_damaged),
        CASE(a_scrub_that_is_stopped_says_where_it_continues),
        CASE(a_scrub_that_is_stopped_in_a_catalog_continues_with_its_chunks),
        CASE(a_finding_can_end_a_scrub),
        CASE(a_copy_that_makes_no_sense_is_refused),
        CASE(all_objects_of_a_prefix_go_to_another_store),
        CASE(a_copy_onto_a_part_of_its_source_is_refused),
        CASE(a_copy_that_is_stopped_goes_on_with_the_next_call),
        CASE(holdfasts_own_objects_are_copied_only_where_there_are_none),
        CASE(a_sync_never_overwrites_or_deletes_what_others_write_meanwhile),
        CASE(a_sync_never_deletes_own_objects_that_appear_meanwhile),
        CASE(a_sync_of_many_pages_deletes_in_batches),
        CASE(clients_share_a_store_and_keep_it),
        CASE(a_client_lends_its_store),
        CASE(the_trace_tells_each_call),
        CASE(a_store_opened_for_clients_is_asked_once),
        CASE(an_unknown_feature_of_the_bucket_is_unsupported),
        CASE(the_probe_accepts_this_store),
        CASE(a_local_store_has_the_clock_of_the_machine),
        CASE(after_a_restore_nothing_is_granted_and_tokens_are_higher),
        CASE(an_epoch_is_never_written_lower),
    };
    if (argc != 2)
        return 2;
    store_kind = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
