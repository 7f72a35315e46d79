/* SPDX-License-Identifier: Apache-2.0 */
/* scrub_test.c: a scrub that remembers its position goes on there, whatever the keys are, and
 * whatever is wrong with its note in the store. */
#include "scripted_store.h"
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
