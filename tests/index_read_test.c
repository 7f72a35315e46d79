/* SPDX-License-Identifier: Apache-2.0 */
/* index_read_test.c KIND: readers see each record, wherever it is at the moment, and whatever
 * others do meanwhile. KIND is mem or sqlite. */
#include "alloc.h"
#include "base/check.h"
#include "index/read.h"
#include "index_crew.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

/* A yard whose index is read through a gate, and a crew that compiles past it. */
struct scene {
    struct yard yard;
    struct crew crew;
    struct script gate;
    struct index *index;
    struct hf_error error;
};

/* Lets others act before the call of this number, from 1, of those of this kind whose key has this
 * part. */
static void happens(struct scene *scene, enum call_kind kind, const char *part, unsigned at,
                    void (*act)(void *scene))
{
    script_rule(&scene->gate, .name = "happens", .on = ON_KIND(kind) | ON_FIRST, .part = part,
                .skip = at - 1, .times = 1, .before = act, .argument = scene);
}

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    yard_open(&scene->yard);
    crew_open(&scene->crew, scene->yard.store.inner);
    yard_script(&scene->gate, scene->yard.store.inner);
    assert_status(HF_OK,
                  index_open(&scene->gate.base, NULL, VIEW("domains"), &scene->index,
                             &scene->error),
                  &scene->error);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    index_close(scene->index);
    crew_close(&scene->crew);
    store_close(&scene->gate.base);
    yard_close(&scene->yard);
    free(scene);
    return 0;
}

#define READS(sentence, function)                       \
    {                                                   \
        (sentence), (function), set_up, tear_down, NULL \
    }

static void compile(void *argument)
{
    struct scene *scene = argument;
    crew_compile(&scene->crew);
}

/* ---- Getting ------------------------------------------------------------------------- */

/* The record of a key; NULL: there is none. To be freed. */
static char *get(struct scene *scene, const char *key)
{
    struct buffer bytes = BUFFER_INIT(INDEX_RECORD_BYTES_MAX + 1);
    enum hf_status status = index_get(scene->index, view_of(key), &bytes, &scene->error);
    if (status == HF_NOT_FOUND)
        return NULL;
    assert_status(HF_OK, status, &scene->error);
    assert_non_null(buffer_text(&bytes));
    return bytes.data;
}

static void assert_gets(struct scene *scene, const char *key, const char *expected)
{
    char *text = get(scene, key);
    if (!text || !expected)
        assert_true(!text && !expected);
    else
        assert_string_equal(text, expected);
    free(text);
}

#define OLD   "example.com" US "old" US "2026-02-06T10:00:00Z"
#define NEW   "example.com" US "new" US "2026-02-06T10:00:01Z"
#define TIE_A "example.com" US "a" US "2026-02-06T10:00:00Z"
#define TIE_B "example.com" US "b" US "2026-02-06T11:00:00+01:00"
#define EAST  "example.com" US "east" US "2026-02-06T10:30:00+01:00"

static void a_record_is_seen_before_and_after(void **state)
{
    struct scene *scene = *state;
    assert_gets(scene, "example.com", NULL);
    yard_put(&scene->yard, OLD);
    assert_gets(scene, "example.com", OLD);
    compile(scene);
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
    assert_gets(scene, "example.com", OLD);
    assert_gets(scene, "example.co", NULL);
    assert_gets(scene, "example.com.", NULL);
}

static void the_latest_wins(void **state)
{
    static const struct {
        const char *first, *second, *wins;
    } rows[] = {
        { OLD, NEW, NEW },       { NEW, OLD, NEW },   { TIE_A, TIE_B, TIE_B },
        { TIE_B, TIE_A, TIE_B }, { OLD, EAST, OLD },  { EAST, OLD, OLD },
        { EAST, NEW, NEW },      { OLD, TIE_B, OLD }, { TIE_B, OLD, OLD },
    };
    (void)state;
    /* Both in the inbox, one folded, both folded. */
    for (size_t i = 0; i < 3 * sizeof rows / sizeof rows[0]; i++) {
        void *own;
        set_up(&own);
        struct scene *scene = own;
        yard_put(&scene->yard, rows[i / 3].first);
        if (i % 3 > 0)
            compile(scene);
        yard_put(&scene->yard, rows[i / 3].second);
        if (i % 3 > 1)
            compile(scene);
        assert_gets(scene, "example.com", rows[i / 3].wins);
        tear_down(&own);
    }
}

static void foreign_entries_are_seen(void **state)
{
    struct scene *scene = *state;
    yard_write(&scene->yard, "inbox/a3/example.com.usv", VIEW(TIE_A "\n"));
    assert_gets(scene, "example.com", TIE_A);
    yard_write(&scene->yard, "inbox/example.com.usv", VIEW(TIE_B "\n"));
    assert_gets(scene, "example.com", TIE_B);
    yard_write(&scene->yard, "example.com.usv", VIEW(NEW "\n"));
    assert_gets(scene, "example.com", NEW);
    compile(scene);
    assert_gets(scene, "example.com", NEW);
    /* Written again under its name: older than what was folded, then newer. */
    yard_write(&scene->yard, "example.com.usv", VIEW(OLD "\n"));
    assert_gets(scene, "example.com", NEW);
}

/* An entry of ours under the name of a time, whatever its bytes are. */
static void forge(struct scene *scene, const char *time, const char *bytes)
{
    static unsigned number;
    char name[256];
    snprintf(name, sizeof name, "inbox/a3/example.com~%s-%032x.usv", time, ++number);
    yard_write(&scene->yard, name, view_of(bytes));
}

static void what_cannot_be_read_hides_nothing(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, OLD);
    forge(scene, "20260207T100000", "no record");
    forge(scene, "20260207T100000", OLD "\n");
    forge(scene, "20260208T100000", "example.com" US "\x1b" US "2026-02-08T10:00:00Z\n");
    assert_gets(scene, "example.com", OLD);
    yard_put(&scene->yard, NEW);
    assert_gets(scene, "example.com", NEW);
}

static void keys_of_any_bytes_are_found(void **state)
{
    struct scene *scene = *state;
    char longest[INDEX_KEY_BYTES_MAX + 1], record[2048];
    memset(longest, 'k', INDEX_KEY_BYTES_MAX);
    longest[INDEX_KEY_BYTES_MAX] = '\0';
    snprintf(record, sizeof record, "%s" US "v" US "2026-02-06T10:00:00Z", longest);
    yard_put(&scene->yard, record);
    yard_put(&scene->yard, "a/b c\x1b_~%" US "v" US "2026-02-06T10:00:00Z");
    for (int folded = 0; folded < 2; folded++) {
        assert_gets(scene, longest, record);
        assert_gets(scene, "a/b c\x1f~%", "a/b c\x1b_~%" US "v" US "2026-02-06T10:00:00Z");
        assert_gets(scene, "", NULL);
        compile(scene);
    }
}

static void a_get_costs_little(void **state)
{
    struct scene *scene = *state;
    crew_fill(&scene->crew, "a3", "key", 0, 300, "value");
    compile(scene);
    yard_put(&scene->yard, OLD);
    yard_put(&scene->yard, NEW);
    meter_reset(&scene->yard.meter);
    assert_gets(scene, "example.com", NEW);
    assert_int_equal(yard_calls(&scene->yard, CALL_LIST), 1);
    /* Three names of others and the latest of ours together, and the shard, with its sidecar. */
    assert_int_equal(yard_batches(&scene->yard, CALL_GET), 2 + yard_is_plain());
    assert_int_equal(yard_calls(&scene->yard, CALL_GET), 5 + yard_is_plain());
    assert_int_equal(yard_calls(&scene->yard, CALL_PUT), 0);
}

static void what_vanishes_is_found(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, OLD);
    happens(scene, CALL_GET, "example.com", 1, compile);
    assert_gets(scene, "example.com", OLD);
    assert_int_equal(script_met(&scene->gate, "happens"), 1);
    assert_int_equal(yard_count(&scene->yard, "inbox/"), 0);
}

/* ---- Walking ------------------------------------------------------------------------- */

struct seen {
    struct buffer text; /* the first fields */
    size_t count;
    char last[INDEX_KEY_BYTES_MAX + 1];
    char shard[3];
    size_t out_of_order;
    size_t with_new; /* whose second field starts with "new" */
    size_t heap_most;
    size_t stop_after; /* 0: never */
    size_t troubles, progresses;
    char trouble[HF_WHY_MAX];
    bool cancel;
};

static size_t heap_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static enum hf_status note(void *argument, const struct record *record, struct hf_error *error)
{
    struct seen *seen = argument;
    char key[INDEX_KEY_BYTES_MAX + 1];
    snprintf(key, sizeof key, "%.*s", VIEW_ARGS(record->key));
    struct shard_id shard = yard_shard(key);
    if (strcmp(shard.text, seen->shard) == 0 && strcmp(key, seen->last) <= 0)
        seen->out_of_order++;
    if (strcmp(shard.text, seen->shard) < 0)
        seen->out_of_order++;
    snprintf(seen->last, sizeof seen->last, "%s", key);
    snprintf(seen->shard, sizeof seen->shard, "%.2s", shard.text);
    seen->count++;
    size_t at = view_find(record->bytes, '\x1f');
    seen->with_new += view_starts_with(view_from(record->bytes, at + 1), VIEW("new"));
    buffer_print(&seen->text, "%s ", key);
    if (heap_in_use() > seen->heap_most)
        seen->heap_most = heap_in_use();
    return seen->count == seen->stop_after ? error_set(error, HF_DENIED, "enough") : HF_OK;
}

static bool note_progress(void *argument, const struct hf_index_progress *totals)
{
    struct seen *seen = argument;
    assert_true(totals->shards_read <= totals->shards_total);
    seen->progresses++;
    return !seen->cancel;
}

static void note_trouble(void *argument, const struct hf_error *error)
{
    struct seen *seen = argument;
    seen->troubles++;
    snprintf(seen->trouble, sizeof seen->trouble, "%s", error->why);
}

static enum hf_status walk(struct scene *scene, const struct index_query *query,
                           struct seen *seen, struct hf_index_progress *totals)
{
    const struct index_visitor visitor = {
        .show = note, .progress = note_progress, .trouble = note_trouble, .argument = seen
    };
    buffer_release(&seen->text);
    seen->text = BUFFER_INIT(64 * MIB);
    return index_walk(scene->index, query, &visitor, totals, &scene->error);
}

/* The keys that a query shows, in their order. */
static void assert_shows(struct scene *scene, const struct index_query *query,
                         const char *expected)
{
    struct seen seen = { .count = 0 };
    struct hf_index_progress totals;
    assert_status(HF_OK, walk(scene, query, &seen, &totals), &scene->error);
    assert_non_null(buffer_text(&seen.text));
    assert_string_equal(buffer_text(&seen.text), expected);
    assert_int_equal(seen.out_of_order, 0);
    assert_int_equal(totals.records, seen.count);
    buffer_release(&seen.text);
}

static uint64_t count(struct scene *scene)
{
    uint64_t keys;
    assert_status(HF_OK, index_count(scene->index, NULL, NULL, &keys, &scene->error),
                  &scene->error);
    return keys;
}

static void a_walk_merges_inbox_and_shards(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    struct seen seen = { .count = 0 };
    struct hf_index_progress totals;
    assert_shows(scene, &all, "");
    crew_fill(&scene->crew, "10", "a", 0, 50, "old");
    crew_fill(&scene->crew, "20", "b", 0, 50, "old");
    compile(scene);
    crew_fill(&scene->crew, "20", "b", 25, 50, "new");
    crew_fill(&scene->crew, "30", "c", 0, 50, "new");
    yard_write(&scene->yard, "example.com.usv", VIEW(NEW "\n"));
    assert_status(HF_OK, walk(scene, &all, &seen, &totals), &scene->error);
    assert_int_equal(seen.count, 50 + 75 + 50 + 1);
    /* Of the 25 that are in both, "new" < "old" at the same time: the greater bytes win. */
    assert_int_equal(seen.with_new, 25 + 50 + 1);
    assert_int_equal(seen.out_of_order, 0);
    assert_int_equal(totals.shards_total, 4);
    assert_int_equal(totals.shards_read, 4);
    assert_int_equal(totals.pending, 101);
    assert_int_equal(totals.unreadable, 0);
    assert_int_equal(seen.progresses, 4);
    assert_int_equal(count(scene), 176);
    buffer_release(&seen.text);
}

#define AT(key, name, hour) key US name US "2026-02-06T" hour ":00:00Z"

static void queries_choose(void **state)
{
    struct scene *scene = *state;
    static const char *const records[] = { AT("aa", "x", "10"), AT("ab", "y", "11"),
                                           AT("b", "x\x1b_y", "12"), AT("ab.c", "y", "09") };
    const struct condition_on_field is_y = { .field = 1, .value = VIEW("y") };
    const struct condition_on_field escaped = { .field = 1, .value = VIEW("x\x1fy") };
    const struct condition_on_field neither[] = {
        { .field = 1, .value = VIEW("y"), .differs = true },
        { .field = 0, .value = VIEW("b"), .differs = true },
    };
    const struct condition_on_field missing = { .field = 3, .value = VIEW("") };
    struct instant eleven;
    assert_true(instant_parse(VIEW("2026-02-06T12:00:00+01:00"), &eleven));
    for (size_t i = 0; i < 4; i++)
        yard_put(&scene->yard, records[i]);
    /* Shards: b 3e, ab.c 95, aa 96, ab fb. */
    for (int folded = 0; folded < 2; folded++) {
        assert_shows(scene, &(struct index_query){ .prefix = VIEW("a") }, "ab.c aa ab ");
        assert_shows(scene, &(struct index_query){ .prefix = VIEW("ab") }, "ab.c ab ");
        assert_shows(scene, &(struct index_query){ .prefix = VIEW("c") }, "");
        assert_shows(scene, &(struct index_query){ .since_given = true, .since = eleven },
                     "b ab ");
        assert_shows(scene, &(struct index_query){ .where = &is_y, .where_count = 1 },
                     "ab.c ab ");
        assert_shows(scene, &(struct index_query){ .where = &escaped, .where_count = 1 }, "b ");
        assert_shows(scene, &(struct index_query){ .where = neither, .where_count = 2 }, "aa ");
        assert_shows(scene, &(struct index_query){ .where = &missing, .where_count = 1 },
                     "b ab.c aa ab ");
        assert_shows(scene, &(struct index_query){ .shard = yard_shard("aa") }, "aa ");
        compile(scene);
    }
    struct seen seen = { .count = 0 };
    const struct index_query wrong = { .shard = { "zz" } };
    assert_status(HF_INVALID, walk(scene, &wrong, &seen, NULL), &scene->error);
}

/* A later record may be out of what is asked for while the one that it replaces was in it. */
static void what_was_replaced_is_not_shown(void **state)
{
    struct scene *scene = *state;
    const struct condition_on_field is_old = { .field = 1, .value = VIEW("old") };
    const struct index_query query = { .where = &is_old, .where_count = 1 };
    yard_put(&scene->yard, OLD);
    compile(scene);
    assert_shows(scene, &query, "example.com ");
    yard_put(&scene->yard, NEW);
    assert_shows(scene, &query, "");
}

/* ---- Meanwhile ----------------------------------------------------------------------- */

/* Many keys whose latest entries are gone are asked for together, not one by one. */
static void what_was_before_is_loaded_together(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    struct seen seen = { .count = 0 };
    struct hf_index_progress totals;
    char key[32], record[96];
    size_t keys = 0;
    for (unsigned i = 0; keys < 100; i++) {
        snprintf(key, sizeof key, "k%u", i);
        if (strcmp(yard_shard(key).text, "7f") != 0)
            continue;
        keys++;
        for (int day = 6; day <= 7; day++) {
            snprintf(record, sizeof record, "%s" US "v" US "2026-02-0%dT10:00:00Z", key, day);
            yard_put(&scene->yard, record);
        }
    }
    happens(scene, CALL_GET, "inbox/7f/", 1, compile);
    meter_reset(&scene->yard.meter);
    assert_status(HF_OK, walk(scene, &all, &seen, &totals), &scene->error);
    assert_int_equal(script_met(&scene->gate, "happens"), 1);
    assert_int_equal(seen.count, keys);
    assert_in_range(yard_batches(&scene->yard, CALL_GET), 2, yard_is_plain() ? 30 : 20);
    buffer_release(&seen.text);
}

/* Another program's entry is folded, and then written anew with what is older, or is nothing. */
static void fold_and_write_older(void *argument)
{
    struct scene *scene = argument;
    compile(scene);
    yard_write(&scene->yard, "inbox/a3/example.com.usv",
               VIEW("example.com" US "late" US "2020-01-01T00:00:00Z\n"));
}

static void fold_and_write_garbage(void *argument)
{
    struct scene *scene = argument;
    compile(scene);
    yard_write(&scene->yard, "inbox/a3/example.com.usv", VIEW("garbage"));
}

static void what_is_written_anew_hides_nothing(void **state)
{
    struct scene *scene = *state;
    const struct condition_on_field is_new = { .field = 1, .value = VIEW("new") };
    const struct index_query query = { .where = &is_new, .where_count = 1 };
    void (*const acts[])(void *) = { fold_and_write_older, fold_and_write_garbage };
    for (size_t i = 0; i < 2; i++) {
        yard_write(&scene->yard, "inbox/a3/example.com.usv",
                   VIEW("example.com" US "new" US "2026-02-06T10:00:00Z\n"));
        happens(scene, CALL_GET, "inbox/a3/", 1, acts[i]);
        assert_shows(scene, &query, "example.com ");
        assert_int_equal(script_met(&scene->gate, "happens"), 1);
    }
}

#define MANY 2500

static void entries_vanish_between_batches(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    crew_fill(&scene->crew, "7f", "k", 0, MANY, "a");
    compile(scene);
    /* Before each of the batches of entries: all of it is folded, and cleared. */
    for (unsigned at = 1; at <= 3; at++) {
        struct seen seen = { .count = 0 };
        struct hf_index_progress totals;
        char value[16];
        snprintf(value, sizeof value, "%s%u", at == 2 ? "old" : "new", at);
        crew_fill(&scene->crew, "7f", "k", 0, MANY, value);
        happens(scene, CALL_GET, "inbox/7f/", at, compile);
        assert_status(HF_OK, walk(scene, &all, &seen, &totals), &scene->error);
        assert_int_equal(script_met(&scene->gate, "happens"), 1);
        assert_int_equal(seen.count, MANY);
        /* "a" < "new1" < "new3" < "old2", of one time. */
        assert_int_equal(seen.with_new, at == 1 ? MANY : 0);
        assert_int_equal(seen.out_of_order, 0);
        buffer_release(&seen.text);
    }
}

static void add_and_compile(void *argument)
{
    struct scene *scene = argument;
    static size_t first = 1000000;
    crew_fill(&scene->crew, "7f", "z", first, 3, "late");
    first += 3;
    compile(scene);
}

static void shards_are_replaced_between_reads(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    /* About 3 MiB: three windows. */
    char *value = malloc(4001);
    assert_non_null(value);
    memset(value, 'v', 4000);
    value[4000] = '\0';
    crew_fill(&scene->crew, "7f", "k", 0, 800, value);
    compile(scene);
    size_t keys = 800;
    for (unsigned at = 2; at <= 3; at++) {
        struct seen seen = { .count = 0 };
        struct hf_index_progress totals;
        happens(scene, CALL_GET, "shards/7f.usv", at, add_and_compile);
        assert_status(HF_OK, walk(scene, &all, &seen, &totals), &scene->error);
        assert_int_equal(script_met(&scene->gate, "happens"), 1);
        assert_int_equal(seen.out_of_order, 0);
        /* Those that came meanwhile sort behind all others. */
        keys += 3;
        assert_int_equal(seen.count, keys);
        buffer_release(&seen.text);
    }
    free(value);
}

static void a_shard_that_is_always_replaced_is_given_up(void **state)
{
    struct scene *scene = *state;
    const struct index_query last = { .prefix = VIEW("zz") };
    struct seen seen = { .count = 0 };
    struct hf_index_progress totals;
    char *value = malloc(4001);
    assert_non_null(value);
    memset(value, 'v', 4000);
    value[4000] = '\0';
    crew_fill(&scene->crew, "7f", "k", 0, 100, value);
    crew_fill(&scene->crew, "7f", "zz", 0, 10, value);
    compile(scene);
    script_rule(&scene->gate, .name = "replace", .on = ON_GET | ON_FIRST,
                .part = "shards/7f.usv", .before = add_and_compile, .argument = scene);
    assert_status(HF_CONFLICT, walk(scene, &last, &seen, &totals), &scene->error);
    assert_int_equal(seen.troubles, 1);
    script_drop(&scene->gate, "replace");
    buffer_release(&seen.text);
    free(value);
}

/* ---- Trouble ------------------------------------------------------------------------- */

static void unreadable_entries_are_counted(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    struct seen seen = { .count = 0 };
    struct hf_index_progress totals;
    yard_put(&scene->yard, OLD);
    forge(scene, "20260207T100000", "no record");
    yard_write(&scene->yard, "inbox/a3/readme.txt", VIEW("what is this?"));
    yard_write(&scene->yard, "inbox/b7/%zz.usv", VIEW("\xff\xfe"));
    yard_write(&scene->yard, "other.org.usv",
               VIEW("other.com" US "v" US "2026-02-06T10:00:00Z"));
    assert_status(HF_OK, walk(scene, &all, &seen, &totals), &scene->error);
    assert_string_equal(buffer_text(&seen.text), "example.com ");
    assert_int_equal(totals.unreadable, 4);
    assert_int_equal(seen.troubles, 0);
    assert_int_equal(count(scene), 1);
    buffer_release(&seen.text);
}

static void a_damaged_shard_stops_only_itself(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    struct seen seen = { .count = 0 };
    struct hf_index_progress totals;
    crew_fill(&scene->crew, "10", "a", 0, 10, "v");
    crew_fill(&scene->crew, "20", "b", 0, 10, "v");
    crew_fill(&scene->crew, "30", "c", 0, 10, "v");
    compile(scene);
    char *shard = yard_read(&scene->yard, "shards/20.usv");
    assert_non_null(shard);
    struct view bytes = view_of(shard);
    shard[bytes.size - 3] ^= yard_is_plain() ? 0x20 : 1; /* not a time any more */
    yard_write(&scene->yard, "shards/20.usv", bytes);
    free(shard);
    assert_status(HF_CORRUPT, walk(scene, &all, &seen, &totals), &scene->error);
    assert_non_null(strstr(scene->error.why, "shards/20.usv"));
    assert_non_null(strstr(seen.trouble, "shards/20.usv"));
    assert_int_equal(seen.troubles, 1);
    assert_int_equal(seen.count, 20);
    assert_int_equal(totals.shards_read, 2);
    buffer_release(&seen.text);
}

static void who_looks_can_stop(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    struct seen seen = { .stop_after = 5 };
    struct hf_index_progress totals;
    crew_fill(&scene->crew, "10", "a", 0, 10, "v");
    crew_fill(&scene->crew, "20", "b", 0, 10, "v");
    assert_status(HF_DENIED, walk(scene, &all, &seen, &totals), &scene->error);
    assert_string_equal(scene->error.why, "enough");
    assert_int_equal(seen.count, 5);
    assert_int_equal(seen.troubles, 0);
    buffer_release(&seen.text);
    seen = (struct seen){ .cancel = true };
    assert_status(HF_CANCELLED, walk(scene, &all, &seen, &totals), &scene->error);
    assert_int_equal(seen.count, 10);
    buffer_release(&seen.text);
}

/* ---- What it costs ------------------------------------------------------------------- */

static void memory_stays_bounded(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    struct seen seen = { .count = 0 };
    struct hf_index_progress totals;
    char *value = malloc(100001);
    assert_non_null(value);
    memset(value, 'v', 100000);
    value[100000] = '\0';
    crew_fill(&scene->crew, "7f", "k", 0, 300, value);
    compile(scene);
    crew_fill(&scene->crew, "7f", "k", 150, 300, value);
    size_t before = heap_in_use();
    assert_status(HF_OK, walk(scene, &all, &seen, &totals), &scene->error);
    assert_int_equal(seen.count, 450);
    size_t most = seen.heap_most > before ? seen.heap_most - before : 0;
    print_message("# 30 MB in the shard, 30 MB in the inbox: %zu KiB in memory\n", most / 1024);
    assert_true(most < 12 * MIB);
    buffer_release(&seen.text);
    free(value);
}

static void counting_reads_lines(void **state)
{
    struct scene *scene = *state;
    struct meter_counts kinds[CALL_KIND_COUNT];
    char *value = malloc(4001);
    assert_non_null(value);
    memset(value, 'v', 4000);
    value[4000] = '\0';
    crew_fill(&scene->crew, "10", "a", 0, 500, value);
    crew_fill(&scene->crew, "20", "b", 0, 20, "v");
    compile(scene);
    crew_fill(&scene->crew, "20", "b", 10, 20, "v");
    meter_reset(&scene->yard.meter);
    assert_int_equal(count(scene), 530);
    meter_read(&scene->yard.meter, kinds);
    assert_true(kinds[CALL_GET].bytes_received < 80 * KIB);
    /* Flat ones twice, the folders of the inbox, the shards, one folder. */
    assert_int_equal(kinds[CALL_LIST].calls, 5);
    free(value);
}

static void every_allocation_may_fail(void **state)
{
    struct scene *scene = *state;
    const struct index_query all = { .where_count = 0 };
    char longest[INDEX_KEY_BYTES_MAX + 1], record[2048];
    memset(longest, 'k', INDEX_KEY_BYTES_MAX);
    longest[INDEX_KEY_BYTES_MAX] = '\0';
    snprintf(record, sizeof record, "%s" US "v" US "2026-02-06T10:00:00Z", longest);
    yard_put(&scene->yard, OLD);
    compile(scene);
    yard_put(&scene->yard, NEW);
    yard_put(&scene->yard, record);
    forge(scene, "20260207T100000", "no record");
    unsigned failed = 0;
    for (long n = 0;; n++) {
        struct buffer bytes = BUFFER_INIT(1024);
        struct seen seen = { .count = 0 };
        struct hf_index_progress totals;
        alloc_fail_after(n);
        enum hf_status got =
            index_get(scene->index, VIEW("example.com"), &bytes, &scene->error);
        enum hf_status walked = HF_OK;
        bool hit = alloc_stop();
        /* Memory for what is kept for the next get is not needed for this one. */
        assert_true(got == HF_OK || (hit && got == HF_UNAVAILABLE));
        const struct index_visitor visitor = { .show = note, .argument = &seen };
        seen.text = BUFFER_INIT(0);
        alloc_fail_after(n);
        walked = index_walk(scene->index, &all, &visitor, &totals, &scene->error);
        bool hit_walk = alloc_stop();
        assert_true(walked == (hit_walk ? HF_UNAVAILABLE : HF_OK));
        buffer_release(&bytes);
        buffer_release(&seen.text);
        failed += hit_walk;
        if (!hit && !hit_walk)
            break;
    }
    assert_true(failed > 20);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        READS("a record is seen as soon as it is put, and after it was folded",
              a_record_is_seen_before_and_after),
        IT("of two records the later wins, in any zone, and of one time the greater bytes, "
           "wherever they are",
           the_latest_wins),
        READS("entries of other programs are seen wherever they stand",
              foreign_entries_are_seen),
        READS("an entry that cannot be read hides no other", what_cannot_be_read_hides_nothing),
        READS("keys of any bytes and of the greatest length are found",
              keys_of_any_bytes_are_found),
        READS("a get is a listing, a batch of gets, and a read of the shard",
              a_get_costs_little),
        READS("keys whose latest entries are gone are asked for together",
              what_was_before_is_loaded_together),
        READS("an entry that others write anew while a walk goes on hides nothing",
              what_is_written_anew_hides_nothing),
        READS("an entry that vanishes between listing and reading is found in the shard",
              what_vanishes_is_found),
        READS("a walk shows each key once, in order, out of inbox and shards",
              a_walk_merges_inbox_and_shards),
        READS("a query chooses by prefix, time, fields and shard", queries_choose),
        READS("a record that was replaced is not shown, even if only it is what was asked for",
              what_was_replaced_is_not_shown),
        READS("entries that are folded in the middle of a walk are shown all the same",
              entries_vanish_between_batches),
        READS("a shard that is replaced in the middle of a walk is read on where it was",
              shards_are_replaced_between_reads),
        READS("a shard that is replaced before every read is told as a conflict, in the end",
              a_shard_that_is_always_replaced_is_given_up),
        READS("entries that cannot be read are passed over, and counted",
              unreadable_entries_are_counted),
        READS("a damaged shard is told, and the others are read",
              a_damaged_shard_stops_only_itself),
        READS("who is shown the records can end it", who_looks_can_stop),
        READS("a walk holds some megabytes, however much there is", memory_stays_bounded),
        READS("counting reads only the lines of shards without entries", counting_reads_lines),
        READS("whatever allocation fails, it is told as such", every_allocation_may_fail),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
