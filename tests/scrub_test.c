/* SPDX-License-Identifier: Apache-2.0 */
/* scrub_test.c: a scrub that remembers its position goes on there, whatever the keys are, and
 * whatever is wrong with its note in the store. It gets further with each slice, ends when it is
 * told to, and passes nothing silently. */
#include "scripted_store.h"
#include "store/bucket.h"
#include "store/handle.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE ".holdfast/sweep/.scrub.json"

struct scene {
    struct store *mem;
    struct script script;
    struct hf_store *store;
    struct hf_error error;
    char read[200]; /* the keys of the objects that were read, each followed by a blank */
};

#define OK(call)         assert_status(HF_OK, call, &scene->error)
#define IS(status, call) assert_status(status, call, &scene->error)

static void open_handle(struct scene *scene)
{
    OK(store_handle_new(&scene->script.base, NULL, NULL, &scene->store, &scene->error));
}

/* What each get reads, except the note and the format document. */
static void note_read_key(void *argument, struct script_call *call)
{
    struct scene *scene = argument;
    size_t used = strlen(scene->read);
    if (call->get->error.status != HF_OK || view_starts_with(call->key, VIEW(".holdfast/")))
        return;
    assert_true(used + call->key.size + 1 < sizeof scene->read);
    for (size_t i = 0; i < call->key.size; i++) /* NUL as 0 */
        scene->read[used++] = call->key.data[i] ? call->key.data[i] : '0';
    memcpy(scene->read + used, " ", 2);
}

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    OK(store_open(env_real(), VIEW("mem:"), &scene->mem, &scene->error));
    script_init(&scene->script, scene->mem);
    script_rule(&scene->script, .name = "see", .on = ON_GET, .reply = note_read_key,
                .argument = scene);
    open_handle(scene);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    store_handle_drop(scene->store);
    store_close(scene->mem);
    free(scene);
    return 0;
}

static void put_object(struct scene *scene, struct view key, struct view body)
{
    struct put_call put = { .key = key, .body = body };
    assert_int_equal(store_put(scene->mem, &put), HF_OK);
}

/* Objects of one byte each. */
static void put_objects(struct scene *scene, const char *const keys[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_object(scene, view_of(keys[i]), VIEW("1"));
}

static void assert_note_has(struct scene *scene, const char *part)
{
    struct buffer text = BUFFER_INIT(100000);
    struct get_call get = { .key = VIEW(NOTE), .body = &text };
    assert_int_equal(store_get(scene->mem, &get), HF_OK);
    if (!strstr(buffer_text(&text), part))
        fail_msg("%s is not in %s", part, buffer_text(&text));
    buffer_release(&text);
}

/* One object, which is not the note, and its key. "": the end. */
static enum hf_status scrub_slice(struct scene *scene, const char *expected)
{
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    enum hf_status status;
    options.remember = true;
    options.bytes_max = 1;
    scene->read[0] = '\0';
    do
        status = hf_store_scrub(scene->store, &options, &report, &scene->error);
    while (scene->read[0] == '\0' && !report.complete);
    assert_string_equal(scene->read, expected);
    return status;
}

/* ---- Keys ---------------------------------------------------------------------------- */

static void a_remembered_position_may_be_any_bytes(void **state)
{
    struct scene *scene = *state;
    put_objects(scene, (const char *const[]){ "a\xff", "a\xff\xff", "c" }, 3);
    put_object(scene, (struct view){ "b\0c", 3 }, VIEW("1"));
    put_object(scene, (struct view){ "b\0d", 3 }, VIEW("1"));
    OK(scrub_slice(scene, "a\xff "));
    assert_note_has(scene, "\"scrub_after\":\"a\",\"scrub_after_hex\":\"61ff\"");
    OK(scrub_slice(scene, "a\xff\xff "));
    OK(scrub_slice(scene, "b0c "));
    assert_note_has(scene, "\"scrub_after\":\"b\",\"scrub_after_hex\":\"620063\"");
    OK(scrub_slice(scene, "b0d "));
    OK(scrub_slice(scene, "c "));
    assert_note_has(scene, "\"scrub_after\":\"c\"}");
    OK(scrub_slice(scene, "")); /* the end */
    OK(scrub_slice(scene, "a\xff "));
}

/* A version that does not know the hexadecimal position keeps it, and changes the other one. */
static void a_position_of_an_earlier_version_is_read(void **state)
{
    struct scene *scene = *state;
    put_objects(scene, (const char *const[]){ "a", "b", "c", "d\xff", "e" }, 5);
    put_object(scene, VIEW(NOTE),
               VIEW("{\"format\":\"holdfast.sweep/1\",\"scrub_after\":\"a\"}"));
    OK(scrub_slice(scene, "b "));
    put_object(scene, VIEW(NOTE),
               VIEW("{\"format\":\"holdfast.sweep/1\",\"scrub_after\":\"b\","
                    "\"scrub_after_hex\":\"64ff\",\"more\":{\"x\":1}}"));
    OK(scrub_slice(scene, "c "));
    assert_note_has(scene, "\"scrub_after\":\"c\",\"more\":{\"x\":1}}");
    put_object(scene, VIEW(NOTE),
               VIEW("{\"format\":\"holdfast.sweep/1\",\"scrub_after\":\"d\","
                    "\"scrub_after_hex\":\"64ff\"}"));
    OK(scrub_slice(scene, "e "));
}

/* ---- Trouble ------------------------------------------------------------------------- */

static void a_damaged_note_is_none(void **state)
{
    struct scene *scene = *state;
    static char long_text[70000];
    static const char *const bad[] = {
        "{",
        "",
        "[]",
        "{\"format\":\"holdfast.sweep/9\",\"scrub_after\":\"a\"}",
        "{\"format\":\"holdfast.sweep/1\",\"scrub_after\":\"a\",\"scrub_after\":\"b\"}",
    };
    put_objects(scene, (const char *const[]){ "a", "b" }, 2);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_object(scene, VIEW(NOTE), view_of(bad[i]));
        OK(scrub_slice(scene, "a "));
        OK(scrub_slice(scene, "b "));
    }
    snprintf(long_text, sizeof long_text,
             "{\"format\":\"holdfast.sweep/1\",\"scrub_after\":\"%01500d\"}", 0);
    /* no key is so long */
    put_object(scene, VIEW(NOTE), view_of(long_text));
    OK(scrub_slice(scene, "a "));
    memset(long_text, ' ', sizeof long_text);
    put_object(scene, VIEW(NOTE), (struct view){ long_text, sizeof long_text });
    OK(scrub_slice(scene, "a "));
    OK(scrub_slice(scene, "b "));
    script_rule(&scene->script, .name = "note", .on = ON_GET, .key = NOTE,
                .fate = REFUSE(HF_CORRUPT), .times = 1);
    OK(scrub_slice(scene, "a "));
    OK(scrub_slice(scene, "b "));
}

static void without_its_note_a_scrub_goes_on_and_the_failure_is_told(void **state)
{
    struct scene *scene = *state;
    put_objects(scene, (const char *const[]){ "a", "b", "c", "d" }, 4);
    OK(scrub_slice(scene, "a "));
    script_rule(&scene->script, .name = "note", .on = ON_GET, .key = NOTE,
                .fate = REFUSE(HF_DENIED));
    IS(HF_DENIED, scrub_slice(scene, "b "));
    assert_non_null(strstr(scene->error.why, NOTE));
    IS(HF_DENIED, scrub_slice(scene, "c "));
    script_drop(&scene->script, "note");
    OK(scrub_slice(scene, "b ")); /* the note is the only one that all processes know */
    script_rule(&scene->script, .name = "note", .on = ON_PUT, .key = NOTE,
                .fate = REFUSE(HF_DENIED));
    IS(HF_DENIED, scrub_slice(scene, "c "));
    assert_non_null(strstr(scene->error.why, NOTE));
    IS(HF_DENIED, scrub_slice(scene, "d "));
    IS(HF_DENIED, scrub_slice(scene, ""));
    IS(HF_DENIED, scrub_slice(scene, "a "));
    script_drop(&scene->script, "note");
    OK(scrub_slice(scene, "b "));
    assert_note_has(scene, "\"scrub_after\":\"b\"");
}

/* A scrub ends if the store denies many objects in a row, but the next one does not begin there. */
static void denied_objects_in_a_row_do_not_stop_the_scrubs_after_this_one(void **state)
{
    struct scene *scene = *state;
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    static const char *const keys[] = { "a", "b", "c", "d", "e", "f", "g" };
    unsigned denied = 0, runs = 0;
    put_objects(scene, keys, 7);
    for (int i = 1; i < 6; i++)
        script_rule(&scene->script, .name = keys[i], .on = ON_GET, .key = keys[i],
                    .fate = REFUSE(HF_DENIED));
    options.remember = true;
    options.bytes_max = 1000;
    do {
        enum hf_status status = hf_store_scrub(scene->store, &options, &report, &scene->error);
        assert_true(status == HF_OK || status == HF_DENIED);
        denied += status == HF_DENIED;
    } while (++runs < 10 && !report.complete);
    assert_true(report.complete);
    assert_in_range(denied, 1, 3);
    assert_non_null(strstr(scene->read, "g "));
}

/* ---- Several processes --------------------------------------------------------------- */

static void write_other_note(void *argument)
{
    struct scene *scene = argument;
    put_object(scene, VIEW(NOTE),
               VIEW("{\"format\":\"holdfast.sweep/1\",\"scrub_after\":\"c\"}"));
}

static void a_slower_scrub_does_not_put_a_position_back(void **state)
{
    struct scene *scene = *state;
    put_objects(scene, (const char *const[]){ "a", "b", "c", "d" }, 4);
    for (int i = 0; i < 2; i++) { /* without a note, and with one */
        script_rule(&scene->script, .name = "other", .on = ON_GET, .key = "a", .times = 1,
                    .before = write_other_note, .argument = scene);
        OK(scrub_slice(scene, "a "));
        assert_note_has(scene, "\"scrub_after\":\"c\"");
        OK(scrub_slice(scene, "d "));
        OK(scrub_slice(scene, ""));
    }
}

static void a_position_is_remembered_only_of_all_objects(void **state)
{
    struct scene *scene = *state;
    for (int i = 0; i < 3; i++) {
        struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
        options.remember = true;
        options.documents = i == 0;
        options.prefix = i == 1 ? "a" : NULL;
        options.after = i == 2 ? "a" : NULL;
        IS(HF_INVALID, hf_store_scrub(scene->store, &options, NULL, &scene->error));
    }
}

static void a_note_of_another_process_counts_after_one_that_was_not_written(void **state)
{
    struct scene *scene = *state;
    put_objects(scene, (const char *const[]){ "a", "b", "c", "d" }, 4);
    OK(scrub_slice(scene, "a "));
    script_rule(&scene->script, .name = "note", .on = ON_PUT, .key = NOTE,
                .fate = REFUSE(HF_DENIED));
    IS(HF_DENIED, scrub_slice(scene, "b "));
    script_drop(&scene->script, "note");
    write_other_note(scene);
    OK(scrub_slice(scene, "d "));
}

/* ---- Catalogs ------------------------------------------------------------------------ */

#define CATALOG "metadata/catalog.json"
#define CHUNK(key)                                                             \
    "{\"key\":\"data/default/L0/" key "\",\"level\":0,\"size\":12,\"rows\":3," \
    "\"min\":5,\"max\":7,\"writer\":\"w\",\"seq\":1,\"crc32c\":1,"             \
    "\"since\":\"9f86d081884c7d65:1000000\"}"

/* A catalog with two chunks, whose objects do not exist. */
static void put_catalog(struct scene *scene)
{
    put_object(scene, VIEW(CATALOG),
               VIEW("{\"format\":\"holdfast.catalog/1\",\"partition\":\"default\",\"depth\":0,"
                    "\"settings\":{\"format\":\"usv\",\"key\":\"1\"},\"counts\":[2],"
                    "\"writers\":{\"w\":1},\"chunks\":[" CHUNK("a.usv") "," CHUNK(
                        "b.usv") "],\"tombstones\":[],\"deleting\":[]}"));
}

/* What a scrub finds: the initial of each kind and the end of the key, such as "mb.usv". */
struct found {
    char text[100];
    bool stops; /* at the first finding */
};

static bool note_finding(void *argument, const struct hf_scrub_finding *finding)
{
    struct found *found = argument;
    size_t used = strlen(found->text);
    snprintf(found->text + used, sizeof found->text - used, "%c%s ",
             hf_scrub_kind_name(finding->kind)[0], finding->key + finding->key_size - 5);
    return !found->stops;
}

static enum hf_status scrub_from(struct scene *scene, const char *after, uint64_t bytes_max,
                                 struct found *found, struct hf_store_scrub_report *ret_report)
{
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    options.after = after;
    options.bytes_max = bytes_max;
    options.finding = note_finding;
    options.argument = found;
    *ret_report = HF_STORE_SCRUB_REPORT;
    return hf_store_scrub(scene->store, &options, ret_report, &scene->error);
}

static void every_slice_gets_further_even_if_a_catalog_is_larger_than_it(void **state)
{
    struct scene *scene = *state;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    struct found found = { .text = "" };
    static const char *const ends[] = { CATALOG "#", CATALOG "#data/default/L0/a.usv",
                                        CATALOG };
    char after[HF_SCRUB_POSITION_MAX] = "";
    put_catalog(scene);
    put_object(scene, VIEW("plain"), VIEW("1"));
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        OK(scrub_from(scene, after, 20, &found, &report));
        assert_string_equal(report.position, ends[i]);
        snprintf(after, sizeof after, "%s", report.position);
    }
    assert_string_equal(found.text, "ma.usv mb.usv ");
    OK(scrub_from(scene, CATALOG "#data/default/L0/b.usv", 1, &found, &report));
    assert_string_equal(report.position, "plain");
    OK(scrub_from(scene, "plain", 1, &found, &report));
    assert_true(report.complete);
}

static void a_catalog_that_cannot_be_read_is_reported_before_its_chunks_are_passed(void **state)
{
    struct scene *scene = *state;
    struct hf_store_scrub_report report;
    struct found found = { .text = "" };
    put_catalog(scene);
    script_rule(&scene->script, .name = "catalog", .on = ON_GET, .key = CATALOG,
                .fate = REFUSE(HF_DENIED));
    for (int i = 0; i < 2; i++) {
        found.text[0] = '\0';
        OK(scrub_from(scene, i == 0 ? NULL : CATALOG "#", 0, &found, &report));
        assert_string_equal(found.text, "u.json ");
        assert_int_equal(report.unreadable, 1);
    }
    found.text[0] = '\0';
    script_rule(&scene->script, .name = "catalog", .on = ON_GET, .key = CATALOG, .skip = 1,
                .fate = REFUSE(HF_DENIED), .times = 2);
    OK(scrub_from(scene, CATALOG "#", 0, &found, &report));
    assert_string_equal(found.text, "u.json mb.usv ");
}

static void without_data_the_chunks_of_a_position_are_not_read(void **state)
{
    struct scene *scene = *state;
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    struct hf_store_scrub_report report = HF_STORE_SCRUB_REPORT;
    put_catalog(scene);
    options.documents = true;
    options.after = CATALOG "#";
    OK(hf_store_scrub(scene->store, &options, &report, &scene->error));
    assert_int_equal(report.missing, 0);
    assert_true(report.complete);
}

/* ---- The end ------------------------------------------------------------------------- */

static void a_finding_can_end_a_scrub_even_that_of_a_catalog(void **state)
{
    struct scene *scene = *state;
    struct hf_store_scrub_report report;
    struct found found = { .stops = true };
    OK(bucket_use_feature(scene->mem, BUCKET_CHECKSUMS, &scene->error));
    put_catalog(scene);
    OK(scrub_from(scene, NULL, 0, &found, &report));
    assert_string_equal(found.text, "u.json ");
    assert_string_equal(report.position, CATALOG "#");
}

static bool stop_at_once(void *argument, const struct hf_store_scrub_report *so_far)
{
    (void)argument;
    (void)so_far;
    return false;
}

static void a_scrub_can_be_stopped_while_the_store_does_not_answer(void **state)
{
    struct scene *scene = *state;
    struct hf_store_scrub_options options = HF_STORE_SCRUB_OPTIONS;
    put_objects(scene, (const char *const[]){ "a", "b" }, 2);
    options.progress = stop_at_once;
    for (int i = 0; i < 2; i++) {
        script_rule(&scene->script, .name = "outage", .on = i == 0 ? ON_LIST : ON_GET,
                    .key = i == 0 ? NULL : "a", .fate = REFUSE(HF_UNAVAILABLE));
        IS(HF_CANCELLED, hf_store_scrub(scene->store, &options, NULL, &scene->error));
        assert_int_equal(script_met(&scene->script, "outage"), 1);
    }
}

/* ---- Upgrades ------------------------------------------------------------------------ */

static void an_upgrade_counts_a_document_that_is_replaced_again_and_again(void **state)
{
    struct scene *scene = *state;
    struct hf_store_upgrade_report report = HF_STORE_UPGRADE_REPORT;
    put_object(scene, VIEW("metadata/compaction-leases.json"),
               VIEW("{\"format\":\"holdfast.leases/1\",\"next_token\":0,"
                    "\"write\":\"cdb2c6bb6c86930279c2effda9f7f726\",\"reserved\":[],"
                    "\"settings\":{\"drift_ppm\":200,\"margin_ms\":50,\"skew_ms\":0,"
                    "\"ttl_max_ms\":3600000,\"late_ms\":86400000,\"takeover\":\"any\"},"
                    "\"leases\":{},\"waiters\":[],\"audit\":[]}"));
    script_rule(&scene->script, .name = "others", .on = ON_PUT,
                .key = "metadata/compaction-leases.json", .fate = DECIDED(HF_CONFLICT));
    OK(hf_store_upgrade(scene->store, NULL, &report, &scene->error));
    assert_int_equal(report.sealed, 0);
    assert_int_equal(report.left, 1);
    script_drop(&scene->script, "others");
    OK(hf_store_upgrade(scene->store, NULL, &report, &scene->error));
    assert_int_equal(report.sealed, 1);
    assert_int_equal(report.left, 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_remembered_position_may_be_any_bytes),
        CASE(a_position_of_an_earlier_version_is_read),
        CASE(a_damaged_note_is_none),
        CASE(without_its_note_a_scrub_goes_on_and_the_failure_is_told),
        CASE(a_slower_scrub_does_not_put_a_position_back),
        CASE(a_position_is_remembered_only_of_all_objects),
        CASE(denied_objects_in_a_row_do_not_stop_the_scrubs_after_this_one),
        CASE(a_note_of_another_process_counts_after_one_that_was_not_written),
        CASE(every_slice_gets_further_even_if_a_catalog_is_larger_than_it),
        CASE(a_catalog_that_cannot_be_read_is_reported_before_its_chunks_are_passed),
        CASE(without_data_the_chunks_of_a_position_are_not_read),
        CASE(a_finding_can_end_a_scrub_even_that_of_a_catalog),
        CASE(a_scrub_can_be_stopped_while_the_store_does_not_answer),
        CASE(an_upgrade_counts_a_document_that_is_replaced_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
