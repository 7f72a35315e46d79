/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_test.c: the checks before a client works in a bucket (store/bucket.h): the features
 * that it uses, and the verdict on its store. The store is in memory behind a script, and
 * claims to be foreign code, which must be probed. */
#include "store/bucket.h"

#include "base/layout.h"
#include "base/parse.h"
#include "scripted_store.h"
#include "store/handle.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define PLACE "remote http://one/bucket"

struct scene {
    struct store *truth;
    struct script script;
    struct hf_error error;
};

static const char *identity;

static bool says_others(struct store *store, struct buffer *text)
{
    (void)store;
    return buffer_print(text, "%s", identity);
}

/* Another process that opens the same bucket. */
static void reopen(struct scene *scene)
{
    store_close(&scene->script.base);
    script_init(&scene->script, scene->truth);
    scene->script.ops.identify = says_others;
    scene->script.base.traits =
        (struct store_traits){ .list_ordered = true, .clock = STORE_CLOCK_NONE };
}

static void scene_open(struct scene *scene)
{
    *scene = (struct scene){ .error = { HF_OK, "" } };
    assert_status(HF_OK, store_open(env_real(), VIEW("mem:"), &scene->truth, &scene->error),
                  &scene->error);
    identity = PLACE;
    script_init(&scene->script, scene->truth);
    reopen(scene);
}

static void scene_close(struct scene *scene)
{
    store_close(&scene->script.base);
    store_close(scene->truth);
}

static enum hf_status check_for(struct scene *scene, enum bucket_use use)
{
    return bucket_check(&scene->script.base, use, &scene->error);
}

static void put_object(struct scene *scene, const char *key, struct view body)
{
    struct put_call put = { .key = view_of(key), .body = body };
    assert_status(HF_OK, store_put(scene->truth, &put), &put.error);
}

static void put_format(struct scene *scene, const char *text)
{
    put_object(scene, LAYOUT_BUCKET_KEY, view_of(text));
}

/* The document as it stands; empty when there is none. To be released. */
static struct buffer read_format(struct scene *scene)
{
    struct buffer body = BUFFER_INIT(MIB);
    struct get_call get = { .key = VIEW(LAYOUT_BUCKET_KEY), .body = &body };
    enum hf_status status = store_get(scene->truth, &get);
    assert_true(status == HF_OK || status == HF_NOT_FOUND);
    return body;
}

static bool format_has(struct scene *scene, const char *part)
{
    struct buffer body = read_format(scene);
    const char *text = buffer_text(&body);
    bool has = strstr(text, part) != NULL;
    buffer_release(&body);
    return has;
}

static size_t count_objects(struct scene *scene)
{
    struct list_call list = { .prefix = VIEW("") };
    assert_status(HF_OK, store_list(scene->truth, &list), &list.error);
    size_t count = list.count;
    list_release(&list);
    return count;
}

/* A document with one verdict on this identity. */
static void put_verdict(struct scene *scene, const char *whose, bool usable,
                        struct span until_expiry)
{
    char text[2000], expires[TIME_TEXT_MAX];
    time_text(wall_add(env_wall(env_real()), until_expiry), expires);
    snprintf(text, sizeof text,
             "{\"format\":\"holdfast.bucket/1\",\"features\":{\"compatible\":[\"x\"]},"
             "\"verdicts\":[{\"identity\":\"%s\",\"usable\":%s,%s\"expires_at\":\"%s\","
             "\"traits\":{\"delete_conditional\":true,\"put_file_conditional\":false,"
             "\"etag_fresh\":true,\"list_ordered\":true,\"etag_bare\":false,\"more\":7}}]}",
             whose, usable ? "true" : "false", usable ? "" : "\"why\":\"it lies\",", expires);
    put_format(scene, text);
}

/* ---- Verdicts ------------------------------------------------------------------------ */

static void learnt_once(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_true(scene.script.base.traits.delete_conditional);
    assert_true(script_counts(&scene.script).puts > 10); /* the probe */
    assert_int_equal(count_objects(&scene), 1);
    assert_true(format_has(&scene, "\"usable\": true"));
    reopen(&scene);
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_true(scene.script.base.traits.delete_conditional);
    struct counts counts = script_counts(&scene.script);
    assert_int_equal(counts.gets, 1);
    assert_int_equal(counts.puts + counts.others + counts.looks, 0);
    scene_close(&scene);
}

static void another_has_probed(void *argument)
{
    put_verdict(argument, PLACE, /* usable */ true, SPAN_S(3600));
}

struct opening {
    struct hf_store *handle;
    struct script *script;
    unsigned gets;
    pthread_t other;
};

static void *check_handle(void *argument)
{
    struct opening *opening = argument;
    struct hf_error error;
    assert_status(HF_OK, store_handle_check_locks(opening->handle, &error), &error);
    return NULL;
}

/* Leaves the other thread time to read the document, too. */
static void another_thread_checks(void *argument)
{
    struct opening *opening = argument;
    struct env *env = env_real();
    struct mono_time end = mono_add(env_now(env), SPAN_MS(100));
    assert_int_equal(pthread_create(&opening->other, NULL, check_handle, opening), 0);
    while (opening->gets < 2 && mono_before(env_now(env), end)) {
        env_sleep_until(env, mono_add(env_now(env), SPAN_MS(1)));
        opening->gets += script_counts(opening->script).gets;
    }
}

static void threads_on_a_handle_check_once(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    put_verdict(&scene, PLACE, /* usable */ true, SPAN_S(3600));
    struct opening opening = { .script = &scene.script };
    assert_status(
        HF_OK, store_handle_new(&scene.script.base, NULL, NULL, &opening.handle, &scene.error),
        &scene.error);
    script_rule(&scene.script, .on = ON_GET, .key = LAYOUT_BUCKET_KEY, .times = 1,
                .before = another_thread_checks, .argument = &opening);
    assert_status(HF_OK, store_handle_check_locks(opening.handle, &scene.error), &scene.error);
    pthread_join(opening.other, NULL);
    assert_int_equal(opening.gets + script_counts(&scene.script).gets, 1);
    store_handle_drop(opening.handle);
    store_close(scene.truth);
}

#define TURN_OF_ANOTHER LAYOUT_PROBE_TURNS "0000000000000000"

static void another_probe_is_waited_for(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    put_object(&scene, TURN_OF_ANOTHER, VIEW("1"));
    script_rule(&scene.script, .on = ON_LIST, .times = 1, .fate = SLOW);
    script_rule(&scene.script, .on = ON_GET, .key = LAYOUT_BUCKET_KEY, .skip = 2, .times = 1,
                .before = another_has_probed, .argument = &scene);
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    struct counts counts = script_counts(&scene.script);
    assert_int_equal(counts.gets, 3);
    assert_int_equal(counts.puts, 1);   /* it asks for its turn ... */
    assert_int_equal(counts.others, 2); /* ... looks who is first, and takes it back */
    assert_int_equal(count_objects(&scene), 2);
    assert_true(scene.script.base.traits.etag_fresh);
    scene_close(&scene);
}

/* What it left is deleted, so that it delays nobody again. */
static void a_client_that_died_probing_is_not_waited_for_long(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    put_object(&scene, TURN_OF_ANOTHER, VIEW("1"));
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_true(script_counts(&scene.script).puts > 10);
    assert_true(format_has(&scene, "\"usable\": true"));
    assert_int_equal(count_objects(&scene), 1);
    scene_close(&scene);
}

/* A store that takes a put if absent for any put. */
static struct fate ignore_absent(void *argument, struct script_call *call)
{
    struct store *truth = argument;
    struct put_call careless = *call->put;
    careless.condition.kind = CONDITION_ALWAYS;
    store_put(truth, &careless);
    *call->put = careless;
    return ANSWERED;
}

static void a_liar_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    for (int i = 0; i < 2; i++) {
        script_rule(&scene.script, .on = ON_PUT, .decide = ignore_absent,
                    .argument = scene.truth);
        assert_status(HF_UNSUPPORTED, check_for(&scene, BUCKET_LOCKS), &scene.error);
        assert_non_null(strstr(scene.error.why, "must be absent"));
        assert_int_equal(count_objects(&scene), 1);
        assert_true(format_has(&scene, "\"usable\": false"));
        if (i > 0) { /* the second time one get tells */
            struct counts counts = script_counts(&scene.script);
            assert_int_equal(counts.gets, 1);
            assert_int_equal(counts.puts + counts.others, 0);
        }
        reopen(&scene);
    }
    assert_status(HF_OK, check_for(&scene, BUCKET_OBJECTS), &scene.error);
    scene_close(&scene);
}

static void a_probe_by_hand_makes_it_anew(void **state)
{
    (void)state;
    struct scene scene;
    struct probe_report report;
    scene_open(&scene);
    put_verdict(&scene, PLACE, /* usable */ false, SPAN_S(3600));
    assert_status(HF_UNSUPPORTED, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_non_null(strstr(scene.error.why, "it lies"));
    assert_status(HF_OK,
                  bucket_probe(&scene.script.base, /* keep */ false, &report, &scene.error),
                  &scene.error);
    assert_true(format_has(&scene, "it lies"));
    assert_status(HF_OK,
                  bucket_probe(&scene.script.base, /* keep */ true, &report, &scene.error),
                  &scene.error);
    assert_false(format_has(&scene, "it lies"));
    assert_true(format_has(&scene, "\"compatible\":[\"x\"]"));
    reopen(&scene);
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    scene_close(&scene);
}

/* Whether a verdict that stands there is taken: else the store is probed. */
static bool is_taken(const char *whose, bool usable, struct span until_expiry)
{
    struct scene scene;
    scene_open(&scene);
    put_verdict(&scene, whose, usable, until_expiry);
    enum hf_status status = check_for(&scene, BUCKET_LOCKS);
    bool taken = script_counts(&scene.script).puts == 0;
    assert_int_equal(status, taken && !usable ? HF_UNSUPPORTED : HF_OK);
    scene_close(&scene);
    return taken;
}

static void verdicts_expire(void **state)
{
    (void)state;
    const int64_t day = 24 * 3600;
    assert_true(is_taken(PLACE, true, SPAN_S(3600)));
    assert_true(is_taken(PLACE, true, SPAN_S(30 * day)));
    assert_false(is_taken(PLACE, true, SPAN_S(-1)));
    assert_false(is_taken(PLACE, true, SPAN_S(40 * day))); /* nobody gives it for so long */
    assert_true(is_taken(PLACE, false, SPAN_S(day)));
    assert_false(is_taken(PLACE, false, SPAN_S(-1)));
    assert_false(is_taken(PLACE, false, SPAN_S(3 * day)));
}

static void verdicts_are_of_one_store(void **state)
{
    (void)state;
    assert_false(is_taken("remote http://two/bucket", true, SPAN_S(3600)));
    assert_false(is_taken("remote http://two/bucket", false, SPAN_S(3600)));
    assert_false(is_taken(PLACE " versioned", false, SPAN_S(3600)));
}

/* Two gateways of one bucket do not take each other's verdicts away. */
static void each_way_has_its_own(void **state)
{
    (void)state;
    struct scene scene;
    char name[32];
    scene_open(&scene);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "remote %d", i);
        identity = name;
        reopen(&scene);
        assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    }
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "remote %d", i);
        char member[64];
        snprintf(member, sizeof member, "\"identity\": \"%s\"", name);
        assert_int_equal(format_has(&scene, member), i >= 12); /* the last eight */
    }
    scene_close(&scene);
}

/* ---- What cannot be found out -------------------------------------------------------- */

static void no_answer_is_no_verdict(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    script_rule(&scene.script, .on = ON_PUT, .fate = LOSE);
    assert_status(HF_UNAVAILABLE, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_int_equal(count_objects(&scene), 0);
    script_reset(&scene.script);
    /* One of its requests, at each place, is lost, or its answer is: it is probed again. */
    for (unsigned i = 0; i < 20; i++) {
        reopen(&scene);
        script_rule(&scene.script, .on = ON_PUT | ON_DELETE, .skip = i, .times = 1,
                    .fate = i % 2 ? LOSE : LOSE_REPLY);
        assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
        assert_true(scene.script.base.traits.delete_conditional);
        struct delete_call removal = { .key = VIEW(LAYOUT_BUCKET_KEY) };
        assert_status(HF_OK, store_delete(scene.truth, &removal), &removal.error);
    }
    reopen(&scene);
    script_rule(&scene.script, .on = ON_GET, .key = LAYOUT_BUCKET_KEY,
                .fate = REFUSE(HF_UNAVAILABLE));
    assert_status(HF_UNAVAILABLE, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_status(HF_UNAVAILABLE, check_for(&scene, BUCKET_OBJECTS), &scene.error);
    scene_close(&scene);
}

static void who_may_not_write_may_read(void **state)
{
    (void)state;
    struct scene scene;
    struct buffer body = BUFFER_INIT(KIB);
    scene_open(&scene);
    put_object(&scene, "a", VIEW("1"));
    script_rule(&scene.script, .on = ON_PUT | ON_DELETE | ON_CHANGE, .fate = REFUSE(HF_DENIED));
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    struct get_call get = { .key = VIEW("a"), .body = &body };
    assert_status(HF_OK, store_get(&scene.script.base, &get), &get.error);
    script_counts(&scene.script);
    struct put_call put = { .key = VIEW("b"), .body = VIEW("1") };
    assert_status(HF_DENIED, store_put(&scene.script.base, &put), &put.error);
    assert_non_null(strstr(put.error.why, "this store has not been probed"));
    struct delete_call removal = { .key = VIEW("a") };
    assert_status(HF_DENIED, store_delete(&scene.script.base, &removal), &removal.error);
    assert_int_equal(script_counts(&scene.script).puts, 0); /* nothing was sent */
    /* Nor may it be read where the document itself may not. */
    reopen(&scene);
    script_rule(&scene.script, .on = ON_GET, .key = LAYOUT_BUCKET_KEY,
                .fate = REFUSE(HF_DENIED));
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_status(HF_DENIED, store_put(&scene.script.base, &put), &put.error);
    reopen(&scene);
    script_rule(&scene.script, .on = ON_GET, .key = LAYOUT_BUCKET_KEY,
                .fate = REFUSE(HF_DENIED));
    assert_status(HF_OK, check_for(&scene, BUCKET_OBJECTS), &scene.error);
    assert_status(HF_OK, store_put(&scene.script.base, &put), &put.error);
    buffer_release(&body);
    scene_close(&scene);
}

static void what_cannot_be_kept_counts(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    script_rule(&scene.script, .on = ON_PUT, .key = LAYOUT_BUCKET_KEY,
                .fate = REFUSE(HF_DENIED));
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_true(scene.script.base.traits.delete_conditional);
    assert_int_equal(count_objects(&scene), 0);
    scene_close(&scene);
}

/* ---- Several at once ----------------------------------------------------------------- */

static void another_refuses(void *argument)
{
    put_verdict(argument, PLACE, /* usable */ false, SPAN_S(3600));
}

static void another_passes(void *argument)
{
    put_verdict(argument, "remote elsewhere", /* usable */ true, SPAN_S(3600));
}

static void a_refusal_goes_before_luck(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    script_rule(&scene.script, .on = ON_PUT, .key = LAYOUT_BUCKET_KEY, .times = 1,
                .before = another_refuses, .argument = &scene);
    assert_status(HF_UNSUPPORTED, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_non_null(strstr(scene.error.why, "it lies"));
    scene_close(&scene);
}

static void what_others_wrote_stays(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    script_rule(&scene.script, .on = ON_PUT, .key = LAYOUT_BUCKET_KEY, .times = 1,
                .before = another_passes, .argument = &scene);
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_true(format_has(&scene, "remote elsewhere") && format_has(&scene, PLACE));
    assert_true(format_has(&scene, "\"compatible\":[\"x\"]"));
    scene_close(&scene);
}

/* ---- Features ------------------------------------------------------------------------ */

static enum hf_status check_document(const char *text, enum bucket_use use,
                                     struct hf_error *ret_error, unsigned *ret_puts,
                                     enum hf_status *ret_write)
{
    struct scene scene;
    scene_open(&scene);
    put_format(&scene, text);
    enum hf_status status = check_for(&scene, use);
    *ret_error = scene.error;
    *ret_puts = script_counts(&scene.script).puts;
    struct put_call put = { .key = VIEW("b"), .body = VIEW("1") };
    *ret_write = status == HF_OK ? store_put(&scene.script.base, &put) : status;
    scene_close(&scene);
    return status;
}

#define FEATURES(lists) "{\"format\":\"holdfast.bucket/1\",\"features\":{" lists "}}"

static void features_of_three_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum hf_status status, write;
        bool probes; /* for locks */
    } rows[] = {
        { FEATURES(""), HF_OK, HF_OK, true },
        { FEATURES("\"compatible\":[\"new\"],\"read_only\":[],\"incompatible\":[]"), HF_OK,
          HF_OK, true },
        { FEATURES("\"read_only\":[\"new\"]"), HF_OK, HF_UNSUPPORTED, false },
        { FEATURES("\"incompatible\":[\"new\"]"), HF_UNSUPPORTED, HF_UNSUPPORTED, false },
        { FEATURES("\"incompatible\":[\"\"]"), HF_UNSUPPORTED, HF_UNSUPPORTED, false },
        { FEATURES("\"peculiar\":[]"), HF_UNSUPPORTED, HF_UNSUPPORTED, false },
        { "{\"format\":\"holdfast.bucket/2\",\"features\":7}", HF_UNSUPPORTED, HF_UNSUPPORTED,
          false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (enum bucket_use use = BUCKET_OBJECTS; use <= BUCKET_LOCKS; use++) {
            struct hf_error error;
            enum hf_status write;
            unsigned puts;
            assert_status(rows[i].status,
                          check_document(rows[i].text, use, &error, &puts, &write), &error);
            assert_int_equal(write, rows[i].write);
            assert_int_equal(puts > 0, rows[i].probes && use == BUCKET_LOCKS);
            if (rows[i].status != HF_OK)
                assert_non_null(strstr(error.why, "upgrade"));
        }
}

static void a_damaged_document_is_told(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "\x01",
        "[]",
        "7",
        "{}",
        "{\"format\":7,\"features\":{}}",
        "{\"format\":\"else/1\",\"features\":{}}",
        "{\"format\":\"holdfast.bucket/1\"}",
        "{\"format\":\"holdfast.bucket/1\",\"features\":[]}",
        FEATURES("\"compatible\":\"new\""),
        FEATURES("\"incompatible\":[7]"),
        "{\"format\":\"holdfast.bucket/1\",\"features\":{},\"features\":{}}",
        "{\"format\":\"holdfast.bucket/1\",\"format\":\"holdfast.bucket/1\",\"features\":{}}",
        "{\"format\":\"holdfast.bucket/1\",\"features\":{},\"verdicts\":{}}",
        "{\"format\":\"holdfast.bucket/1\",\"features\":{},\"verdicts\":[1}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct hf_error error;
        enum hf_status write;
        unsigned puts;
        assert_status(HF_CORRUPT, check_document(texts[i], BUCKET_LOCKS, &error, &puts, &write),
                      &error);
        assert_non_null(strstr(error.why, LAYOUT_BUCKET_KEY " is damaged"));
        assert_int_equal(puts, 0);
        assert_status(HF_OK, check_document(texts[i], BUCKET_OBJECTS, &error, &puts, &write),
                      &error);
    }
}

/* Of those nothing is believed, and a new one takes their place. */
static void bad_verdicts_are_none(void **state)
{
    (void)state;
    static const char *const verdicts[] = {
        "7",
        "{}",
        "{\"identity\":\"" PLACE "\",\"usable\":true}",
        "{\"identity\":\"" PLACE
        "\",\"usable\":\"no\",\"expires_at\":\"2099-01-01T00:00:00Z\"}",
        "{\"identity\":7,\"usable\":false,\"why\":\"x\",\"expires_at\":7,\"traits\":{}}",
    };
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        struct scene scene;
        char text[500];
        scene_open(&scene);
        snprintf(text, sizeof text,
                 "{\"format\":\"holdfast.bucket/1\",\"features\":{},\"verdicts\":[%s],"
                 "\"other\\u0041\":[1, 2]}",
                 verdicts[i]);
        put_format(&scene, text);
        assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
        assert_true(format_has(&scene, "\"usable\": true"));
        assert_true(format_has(&scene, "\"other\\u0041\": [1, 2]"));
        scene_close(&scene);
    }
}

static void a_large_document_is_damaged(void **state)
{
    (void)state;
    struct scene scene;
    struct buffer text = BUFFER_INIT(MIB);
    scene_open(&scene);
    buffer_append(&text, VIEW(FEATURES("")));
    while (text.size <= 256 * KIB)
        buffer_append_byte(&text, ' ');
    put_object(&scene, LAYOUT_BUCKET_KEY, buffer_view(&text));
    assert_status(HF_CORRUPT, check_for(&scene, BUCKET_LOCKS), &scene.error);
    assert_non_null(strstr(scene.error.why, "262145 bytes"));
    assert_status(HF_OK, check_for(&scene, BUCKET_OBJECTS), &scene.error);
    buffer_release(&text);
    scene_close(&scene);
}

/* ---- Stores of our own --------------------------------------------------------------- */

static void our_own_stores_need_no_probe(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    scene.script.ops.identify = NULL;
    assert_status(HF_OK, check_for(&scene, BUCKET_LOCKS), &scene.error);
    struct counts counts = script_counts(&scene.script);
    assert_int_equal(counts.gets, 1);
    assert_int_equal(counts.puts + counts.others, 0);
    put_verdict(&scene, "mem", /* usable */ false, SPAN_S(3600));
    assert_status(HF_UNSUPPORTED, check_for(&scene, BUCKET_LOCKS), &scene.error);
    scene_close(&scene);
}

static void a_feature_in_use_is_recorded(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    put_format(&scene, "{\"format\":\"holdfast.bucket/1\",\"more\":[7],\"features\":{"
                       "\"compatible\":[\"x\"],\"incompatible\":[]},\"verdicts\":[]}");
    for (int i = 0; i < 2; i++) {
        assert_status(
            HF_OK, bucket_use_feature(&scene.script.base, BUCKET_ADOPTED_OBJECTS, &scene.error),
            &scene.error);
        assert_true(format_has(&scene, "\"incompatible\": [\"adopted-objects\"]"));
        assert_true(format_has(&scene, "\"compatible\": [\"x\"]"));
        assert_true(format_has(&scene, "\"more\": [7]"));
    }
    put_format(&scene, "{\"format\":\"holdfast.bucket/1\",\"features\":{"
                       "\"incompatible\":[\"from later\"]}}");
    assert_status(HF_UNSUPPORTED,
                  bucket_use_feature(&scene.script.base, BUCKET_ADOPTED_OBJECTS, &scene.error),
                  &scene.error);
    scene_close(&scene);
}

static void another_records_it(void *argument)
{
    struct scene *scene = argument;
    put_format(scene, "{\"format\":\"holdfast.bucket/1\",\"features\":{\"read_only\":[],"
                      "\"incompatible\":[\"adopted-objects\"]},\"by\":\"another\"}");
}

static void a_feature_that_another_records_is_recorded_once(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    script_rule(&scene.script, .on = ON_PUT, .key = LAYOUT_BUCKET_KEY, .times = 1,
                .before = another_records_it, .argument = &scene);
    assert_status(HF_OK,
                  bucket_use_feature(&scene.script.base, BUCKET_ADOPTED_OBJECTS, &scene.error),
                  &scene.error);
    assert_true(format_has(&scene, "another"));
    scene_close(&scene);
}

static enum hf_status record_feature(struct scene *scene)
{
    return bucket_use_feature(&scene->script.base, BUCKET_ADOPTED_OBJECTS, &scene->error);
}

static void a_write_that_was_never_done_is_not_unsure(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    script_rule(&scene.script, .on = ON_PUT, .key = LAYOUT_BUCKET_KEY,
                .fate = REFUSE(HF_UNAVAILABLE));
    assert_status(HF_UNAVAILABLE, record_feature(&scene), &scene.error);
    scene_close(&scene);
}

static void another_writes(void *argument)
{
    put_format(argument, "{\"format\":\"holdfast.bucket/1\",\"features\":{\"read_only\":[],"
                         "\"incompatible\":[]},\"by\":\"another\"}");
}

static void a_lost_reply_leaves_the_addition_in_doubt(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    another_writes(&scene);
    script_rule(&scene.script, .on = ON_PUT, .key = LAYOUT_BUCKET_KEY, .times = 1,
                .fate = LOSE);
    script_rule(&scene.script, .on = ON_PUT, .key = LAYOUT_BUCKET_KEY, .skip = 1,
                .fate = REFUSE(HF_DENIED));
    assert_status(HF_UNSURE, record_feature(&scene), &scene.error);
    scene_close(&scene);
}

static struct etag version_of_format(struct scene *scene)
{
    struct buffer body = BUFFER_INIT(MIB);
    struct get_call get = { .key = VIEW(LAYOUT_BUCKET_KEY), .body = &body };
    assert_status(HF_OK, store_get(scene->truth, &get), &get.error);
    buffer_release(&body);
    return get.info.etag;
}

/* A put that another client sent before the switch, and that arrives only now. */
static void late_put_fails(struct scene *scene, const struct etag *version)
{
    struct put_call put = { .key = VIEW(LAYOUT_BUCKET_KEY),
                            .body = VIEW("late"),
                            .condition = version ? if_match(version) : if_absent() };
    assert_int_equal(store_put(scene->truth, &put), HF_CONFLICT);
}

static void a_switch_always_writes(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    for (int on = 0; on < 2; on++)
        for (int times = 0; times < 2; times++) {
            struct etag before;
            bool first = !on && times == 0; /* there is no document yet */
            if (!first)
                before = version_of_format(&scene);
            assert_status(HF_OK,
                          bucket_switch_feature(&scene.script.base, BUCKET_CHECKSUMS, on == 1,
                                                &scene.error),
                          &scene.error);
            late_put_fails(&scene, first ? NULL : &before);
            assert_int_equal(format_has(&scene, "\"read_only\": [\"checksums\"]"), on);
        }
    scene_close(&scene);
}

static void no_lists_at_all_stay_a_document(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene);
    for (int on = 1; on >= 0; on--) {
        put_format(&scene, "{\"format\":\"holdfast.bucket/1\",\"features\":{}}");
        assert_status(HF_OK,
                      bucket_switch_feature(&scene.script.base, BUCKET_CHECKSUMS, on == 1,
                                            &scene.error),
                      &scene.error);
        bool has = on == 0;
        assert_status(
            HF_OK, bucket_has_feature(&scene.script.base, BUCKET_CHECKSUMS, &has, &scene.error),
            &scene.error);
        assert_int_equal(has, on);
    }
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a document without lists of features can be switched",
           no_lists_at_all_stay_a_document),
        IT("a switch of a feature always writes, so that an earlier one cannot land after it",
           a_switch_always_writes),
        IT("a feature in use is recorded once, and the rest of the document stays",
           a_feature_in_use_is_recorded),
        IT("a feature that another client records meanwhile is recorded once",
           a_feature_that_another_records_is_recorded_once),
        IT("an addition whose write was never done is not unsure",
           a_write_that_was_never_done_is_not_unsure),
        IT("an addition whose reply was lost, and that cannot be repeated, is unsure",
           a_lost_reply_leaves_the_addition_in_doubt),
        IT("a store is probed once; whoever comes next needs one get", learnt_once),
        IT("of several threads that open clients on a handle, one checks the bucket",
           threads_on_a_handle_check_once),
        IT("while another client probes a store, its verdict is waited for",
           another_probe_is_waited_for),
        IT("a client that died while it probed is not waited for any longer",
           a_client_that_died_probing_is_not_waited_for_long),
        IT("a store that lies is refused, and the next time by one get", a_liar_is_refused),
        IT("a probe by hand makes the verdict anew", a_probe_by_hand_makes_it_anew),
        IT("a verdict counts until it expires", verdicts_expire),
        IT("a verdict counts for the store that it was made of", verdicts_are_of_one_store),
        IT("each way to a bucket has a verdict of its own, eight at most",
           each_way_has_its_own),
        IT("a probe without an answer is no verdict", no_answer_is_no_verdict),
        IT("who may not write may read", who_may_not_write_may_read),
        IT("what cannot be kept for others counts for this one", what_cannot_be_kept_counts),
        IT("of two who probe at once the one who was refused counts",
           a_refusal_goes_before_luck),
        IT("what others wrote meanwhile stays", what_others_wrote_stays),
        IT("unknown features: go on, only read, or touch nothing", features_of_three_kinds),
        IT("a damaged document is told in a sentence", a_damaged_document_is_told),
        IT("verdicts that cannot be read are none, and other members stay",
           bad_verdicts_are_none),
        IT("a document that is too large is damaged", a_large_document_is_damaged),
        IT("stores of our own need no probe, and obey a verdict", our_own_stores_need_no_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
