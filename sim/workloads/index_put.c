/* SPDX-License-Identifier: Apache-2.0 */
/* index_put.c: the writers of workload `index`: Holdfast's own, through the inbox or directly
 * into shards, and another program that writes under its own names at any time. */
#include "base/check.h"
#include "sim/workloads/index_work.h"

#include <inttypes.h>
#include <stdlib.h>

#define US            "\x1f"
#define PUT_MAX       3
#define STRAIGHT_MAX  3
#define FOREIGN_TRIES 3
#define FAT_SIZE      ((size_t)36 * 1024)
#define RECORD_ROOM   (FAT_SIZE + 1024)
#define VALUE_ROOM    32
#define TIME_ROOM     64
#define ENTRY_ROOM    (3 * RECORD_ROOM)
#define SECOND_US     INT64_C(1000000)
#define STRAIGHT_WAIT SPAN_S(5)

/* ---- The schema ------------------------------------------------------------------------ */

static void make_schema(struct schema *schema, size_t fields, bool plain)
{
    static const struct view names[INDEX_FIELDS_LAST] = {
        { "thing", 5 }, { "changed", 7 }, { "what", 4 }, { "more", 4 }
    };
    struct hf_error error;
    check(schema_new(&(struct schema_spec){ names, fields, names[0], names[1], SIM_INDEX_DIGITS,
                                            /* foreign */ true, plain },
                     schema, &error) == HF_OK);
}

/* Schemas are too large for a stack. */
static enum hf_status create(struct indexer *indexer, size_t fields)
{
    struct schema *schema = malloc(sizeof *schema);
    enum index_made made;
    struct hf_error error;
    check(schema);
    make_schema(schema, fields, indexer->work->plan.plain);
    enum hf_status status =
        index_create(indexer->store, indexer->client, VIEW(SIM_INDEX), schema, &made, &error);
    free(schema);
    INDEXER_TRACE(indexer, "node %u: makes the index, of %zu fields, and is told %s",
                  node_number(indexer->node), fields, hf_status_name(status));
    if (status == HF_OK && index_checker_fields(indexer->work->checker) < fields)
        world_fail(indexer->work->run->world, "the index is told as made, and is not");
    return status;
}

bool indexer_open(struct indexer *indexer, size_t fields)
{
    struct hf_error error;
    if (index_checker_fields(indexer->work->checker) < fields)
        create(indexer, fields);
    if (indexer->index)
        return true;
    return index_open(indexer->store, indexer->client, VIEW(SIM_INDEX), &indexer->index,
                      &error) == HF_OK;
}

/* The handles of other nodes still have the old schema. */
void indexer_extend(struct indexer *indexer)
{
    struct hf_error error;
    if (!indexer->work->plan.extends)
        return;
    if (create(indexer, INDEX_FIELDS_LAST) == HF_OK && indexer_one_in(indexer, 2))
        index_refresh(indexer->index, &error);
}

/* ---- Records --------------------------------------------------------------------------- */

/* Writes a time as text: in any zone, with any precision, or as a number. */
static void write_time(const struct indexer *indexer, int64_t us, char text[TIME_ROOM])
{
    int64_t zone_min = indexer_one_in(indexer, 3) ? 90 * (int64_t)indexer_below(indexer, 3) : 0;
    if (indexer_one_in(indexer, 6)) {
        snprintf(text, TIME_ROOM, "%" PRId64 ".%06" PRId64, us / SECOND_US, us % SECOND_US);
        return;
    }
    int64_t s = us / SECOND_US + zone_min * 60;
    struct date date = date_of_days(s / 86400);
    int64_t of_day = s % 86400;
    int size =
        snprintf(text, TIME_ROOM,
                 "%04" PRIu32 "-%02" PRIu32 "-%02" PRIu32 "T%02" PRId64 ":%02" PRId64
                 ":%02" PRId64,
                 date.year, date.month, date.day, of_day / 3600, of_day / 60 % 60, of_day % 60);
    if (us % SECOND_US != 0)
        size += snprintf(text + size, TIME_ROOM - (size_t)size, ".%06" PRId64, us % SECOND_US);
    if (zone_min > 0)
        snprintf(text + size, TIME_ROOM - (size_t)size, "+%02" PRId64 ":%02" PRId64,
                 zone_min / 60, zone_min % 60);
    else
        snprintf(text + size, TIME_ROOM - (size_t)size, "Z");
}

/* Many times are equal. Only a few come from a wall clock, because otherwise the clock that is
 * furthest ahead would always win. */
static int64_t draw_time(const struct indexer *indexer)
{
    const struct index_plan *plan = &indexer->work->plan;
    if (indexer_one_in(indexer, plan->calendar))
        return env_wall(indexer->env).us;
    int64_t us = WORLD_EPOCH_US + (int64_t)indexer_below(indexer, plan->moments) * SECOND_US;
    return indexer_one_in(indexer, 4) ? us + SECOND_US / 4 : us;
}

/* Makes the unique part of a record. Among records with equal times, the one that compares greater
 * bytewise wins, which is not always the one that was created later. */
static struct view make_value(struct indexer *indexer, struct arena *arena)
{
    size_t size = indexer->work->plan.fat ? FAT_SIZE : VALUE_ROOM;
    char *text = arena_take(arena, size);
    check(text);
    memset(text, 'x', size);
    unsigned order = (unsigned)indexer_below(indexer, 10);
    int length = snprintf(text, size, "%u-%u", order, ++indexer->work->last_record);
    if (!indexer->work->plan.fat)
        return (struct view){ text, (size_t)length };
    text[length] = '-';
    return (struct view){ text, size };
}

/* Makes a record with this many fields, in the arena. */
static struct view make_record(struct indexer *indexer, size_t key, int64_t us, size_t fields,
                               struct arena *arena)
{
    char time[TIME_ROOM];
    struct buffer bytes = BUFFER_INIT(RECORD_ROOM);
    write_time(indexer, us, time);
    struct view what = make_value(indexer, arena);
    const struct view values[INDEX_FIELDS_LAST + 1] = { index_plan_key(key), view_of(time),
                                                        what, VIEW("more\nof it"),
                                                        VIEW("too much") };
    check(fields <= sizeof values / sizeof *values);
    check(record_write(&bytes, values, fields));
    struct view record = arena_copy(arena, buffer_view(&bytes));
    check(record.data);
    buffer_release(&bytes);
    index_checker_made(indexer->work->checker, record);
    return record;
}

static size_t draw_key(const struct indexer *indexer)
{
    return (size_t)indexer_below(indexer, indexer->work->plan.keys);
}

/* Draws the number of fields: as many as the handle knows, or sometimes fewer; the rest are
 * empty. */
static size_t draw_fields(const struct indexer *indexer, size_t known)
{
    return indexer_one_in(indexer, 4) ? INDEX_FIELDS_FIRST : known;
}

/* ---- Holdfast's own records ------------------------------------------------------------ */

void indexer_put(struct indexer *indexer)
{
    struct arena arena = ARENA_INIT;
    struct view records[PUT_MAX];
    size_t count = 1;
    size_t bad;
    struct hf_error error;
    if (indexer_one_in(indexer, 3))
        count += (size_t)indexer_below(indexer, PUT_MAX - 1);
    for (size_t i = 0; i < count; i++) {
        size_t key = draw_key(indexer);
        int64_t us = draw_time(indexer);
        size_t fields = draw_fields(indexer, indexer->index->schema.field_count);
        records[i] = make_record(indexer, key, us, fields, &arena);
    }
    enum hf_status status = index_put(indexer->index, records, count, &bad, &error);
    INDEXER_TRACE(indexer, "node %u: puts %zu records from %s on, and is told %s",
                  node_number(indexer->node), count, trace_text(records[0]).text,
                  hf_status_name(status));
    if (status == HF_OK)
        index_checker_told_put(indexer->work->checker, records, count);
    else if (status == HF_INVALID)
        world_fail(indexer->work->run->world, "a record is refused: %s", error.why);
    arena_release(&arena);
}

void indexer_delete(struct indexer *indexer)
{
    struct buffer bytes = BUFFER_INIT(RECORD_ROOM);
    char time[TIME_ROOM];
    struct hf_error error;
    size_t key = draw_key(indexer), bad;
    struct view text = index_plan_key(key);
    write_time(indexer, draw_time(indexer), time);
    check(buffer_append(&bytes, VIEW(RECORD_DELETED)) &&
          record_write(&bytes, (const struct view[]){ text, view_of(time) }, 2));
    index_checker_made(indexer->work->checker, buffer_view(&bytes));
    enum hf_status status = index_delete(indexer->index, &text, 1, view_of(time), &bad, &error);
    INDEXER_TRACE(indexer, "node %u: deletes key %zu as of %s, and is told %s",
                  node_number(indexer->node), key, time, hf_status_name(status));
    struct view record = buffer_view(&bytes);
    if (status == HF_OK)
        index_checker_told_put(indexer->work->checker, &record, 1);
    else if (status == HF_INVALID)
        world_fail(indexer->work->run->world, "a deletion is refused: %s", error.why);
    buffer_release(&bytes);
}

/* Puts many records of one shard directly into the shard. */
void indexer_put_straight(struct indexer *indexer)
{
    struct arena arena = ARENA_INIT;
    struct buffer keys[STRAIGHT_MAX];
    struct view bytes[STRAIGHT_MAX];
    struct record records[STRAIGHT_MAX];
    struct compile_options options = indexer_options(indexer);
    struct fold_report report;
    struct hf_error error;
    size_t key = draw_key(indexer), count = 1 + (size_t)indexer_below(indexer, STRAIGHT_MAX);
    struct shard_id shard = shard_of_key(index_plan_key(key), SIM_INDEX_DIGITS);
    for (size_t i = 0; i < count; i++) {
        int64_t us = draw_time(indexer);
        size_t fields = draw_fields(indexer, indexer->index->schema.field_count);
        bytes[i] = make_record(indexer, key, us, fields, &arena);
        keys[i] = BUFFER_INIT(RECORD_ROOM);
        check(record_read(&indexer->index->schema, bytes[i], &keys[i], &records[i], NULL,
                          &error) == HF_OK);
    }
    struct span wait = indexer_one_in(indexer, 2) ? STRAIGHT_WAIT : SPAN_US(0);
    enum hf_status status = compile_straight(indexer->index, &options,
                                             &(struct shard_records){ shard, records, count },
                                             wait, &report, &error);
    INDEXER_TRACE(indexer, "node %u: folds %zu records of %s itself, and is told %s",
                  node_number(indexer->node), count, shard.text, hf_status_name(status));
    if (status == HF_OK && report.refused == 0)
        index_checker_told_straight(indexer->work->checker, bytes, count);
    for (size_t i = 0; i < count; i++)
        buffer_release(&keys[i]);
    arena_release(&arena);
}

/* ---- Another program that rewrites plain shards ---------------------------------------- */

static int64_t us_of(struct instant time)
{
    return time.s * SECOND_US + (int64_t)(time.atto / 1000000000000);
}

/* Copies the text of a shard, with a later record in place of the key's record. False if it has no
 * record of the key. */
static bool replace_record(struct indexer *indexer, struct view text, size_t key,
                           struct buffer *ret_text)
{
    struct buffer space = BUFFER_INIT(RECORD_ROOM);
    struct arena arena = ARENA_INIT;
    bool found = false;
    while (text.size > 0) {
        struct view line = view_cut(&text, '\n');
        struct record record;
        struct hf_error error;
        if (!found &&
            record_read(&indexer->index->schema, line, &space, &record, NULL, &error) ==
                HF_OK &&
            view_equal(record.key, index_plan_key(key))) {
            found = true;
            line = make_record(indexer, key, us_of(record.time) + SECOND_US, INDEX_FIELDS_FIRST,
                               &arena);
        }
        buffer_append(ret_text, line);
        check(buffer_append_byte(ret_text, '\n'));
    }
    buffer_release(&space);
    arena_release(&arena);
    return found;
}

/* It knows nothing of deletions, so it does not add keys that may have been deleted. */
void indexer_rewrite_plain(struct indexer *indexer)
{
    char object[KEY_BYTES_MAX + 1];
    size_t key = draw_key(indexer);
    struct shard_id shard = shard_of_key(index_plan_key(key), SIM_INDEX_DIGITS);
    struct buffer had = BUFFER_INIT(MIB), text = BUFFER_INIT(2 * MIB);
    snprintf(object, sizeof object, "indexes/" SIM_INDEX "/shards/%s.usv", shard.text);
    struct get_call get = { .key = view_of(object), .body = &had };
    enum hf_status status = store_get(indexer->store, &get);
    if (status == HF_OK && replace_record(indexer, buffer_view(&had), key, &text)) {
        indexer_rest(indexer, SPAN_S(1));
        struct put_call put = { .key = view_of(object),
                                .body = buffer_view(&text),
                                .condition = if_match(&get.info.etag) };
        status = store_put(indexer->store, &put);
    }
    INDEXER_TRACE(indexer, "node %u: rewrites shard %s as another program, and is told %s",
                  node_number(indexer->node), shard.text, hf_status_name(status));
    buffer_release(&had);
    buffer_release(&text);
}

/* ---- Another program's records --------------------------------------------------------- */

/* The location of an entry for this key: flat or in one of two folders, and under its escaped name
 * or the raw key. */
static void foreign_name(const struct indexer *indexer, size_t key, size_t place,
                         char name[KEY_BYTES_MAX + 1])
{
    struct view text = index_plan_key(key);
    struct key_name escaped = key_name_of(text);
    struct shard_id shard = shard_of_key(text, SIM_INDEX_DIGITS);
    static const char *const folders[FOREIGN_PLACES] = { "", "inbox/", "inbox/" };
    bool raw = view_equal(text, VIEW("\xc3\xa4")) && indexer_one_in(indexer, 2);
    bool stray = indexer->work->plan.malformed && indexer_one_in(indexer, 8);
    snprintf(name, KEY_BYTES_MAX + 1, "indexes/" SIM_INDEX "/%s%s%s%.*s%s.usv", folders[place],
             place == 2 ? shard.text : "", place == 2 ? "/" : "",
             raw ? (int)text.size : (int)escaped.size, raw ? text.data : escaped.text,
             stray && place == 2 ? "~once" : "");
}

/* Deletes a lock object, as an operator might do to get rid of it. */
void indexer_delete_lock(struct indexer *indexer)
{
    char key[KEY_BYTES_MAX + 1];
    struct shard_id shard = shard_of_key(index_plan_key(draw_key(indexer)), SIM_INDEX_DIGITS);
    snprintf(key, sizeof key, "indexes/" SIM_INDEX "/shards/%s.lock", shard.text);
    struct delete_call call = { .key = view_of(key) };
    store_delete(indexer->store, &call);
    INDEXER_TRACE(indexer, "node %u: deletes the lock of shard %s, and is told %s",
                  node_number(indexer->node), shard.text, hf_status_name(call.error.status));
}

bool indexer_draw_foreign(const struct indexer *indexer, size_t *ret_key, size_t *ret_place)
{
    unsigned nodes = indexer->work->run->options->nodes;
    size_t names = indexer->work->plan.keys * FOREIGN_PLACES;
    size_t first = (size_t)indexer_below(indexer, names);
    for (size_t i = 0; i < names; i++) {
        size_t name = (first + i) % names;
        if (name % nodes != node_number(indexer->node) % nodes)
            continue;
        *ret_key = name / FOREIGN_PLACES;
        *ret_place = name % FOREIGN_PLACES;
        return true;
    }
    return false;
}

/* Makes the entry unreadable, in one of many ways. */
static void spoil(const struct indexer *indexer, struct buffer *entry)
{
    static const char *const spoilt[] = {
        "no time\n",
        "a" US "yesterday" US "x\n",
        "\xff\xfe" US "2026-01-01T00:00:00Z\n",
        "a" US "2026-01-01T00:00:00Z" US "\x1bx\n",
        US "2026-01-01T00:00:00Z" US "no key\n",
        "another key" US "2026-01-01T00:00:00Z" US "x\n",
        "\n",
    };
    size_t which = (size_t)indexer_below(indexer, sizeof spoilt / sizeof *spoilt);
    if (indexer_one_in(indexer, 2))
        buffer_clear(entry);
    else /* a valid record in the same entry does not help */
        buffer_append_byte(entry, '\n');
    buffer_append(entry, view_of(spoilt[which]));
}

static unsigned draw_second(struct indexer *indexer, size_t key, enum foreign_time time)
{
    unsigned *clock = &indexer->work->foreign_clock[key];
    if (time == FOREIGN_ANY_TIME && *clock > 0)
        return (unsigned)indexer_below(indexer, *clock);
    return ++*clock;
}

/* Writes one or two records, with one of the possible terminators. */
static void write_foreign(struct indexer *indexer, size_t key, enum foreign_time time,
                          struct buffer *entry)
{
    static const char *const ends[] = { "\n", "\x1e", "\x1e\n", "" };
    struct arena arena = ARENA_INIT;
    size_t fields = index_checker_fields(indexer->work->checker);
    if (indexer->work->plan.malformed && indexer_one_in(indexer, 4))
        fields++;
    if (fields > INDEX_FIELDS_LAST + 1)
        fields = INDEX_FIELDS_LAST + 1;
    size_t count = indexer_one_in(indexer, 5) ? 2 : 1;
    for (size_t i = 0; i < count; i++) {
        unsigned s = draw_second(indexer, key, time);
        size_t end = i + 1 < count ? 0 : (size_t)indexer_below(indexer, 4);
        buffer_append(entry, make_record(indexer, key, WORLD_EPOCH_US + s * SECOND_US,
                                         draw_fields(indexer, fields), &arena));
        buffer_append(entry, view_of(ends[end]));
    }
    if (indexer->work->plan.malformed && indexer_one_in(indexer, 4))
        spoil(indexer, entry);
    arena_release(&arena);
}

/* The other program writes without conditions; if it gets no reply, it writes again. */
void indexer_put_foreign(struct indexer *indexer, size_t key, size_t place,
                         enum foreign_time time)
{
    char name[KEY_BYTES_MAX + 1];
    struct buffer entry = BUFFER_INIT(ENTRY_ROOM);
    foreign_name(indexer, key, place, name);
    write_foreign(indexer, key, time, &entry);
    check(!entry.failed);
    enum hf_status status = HF_UNSURE;
    uint64_t tries = 1 + indexer_below(indexer, FOREIGN_TRIES);
    for (uint64_t i = 0; i < tries && status != HF_OK; i++) {
        struct put_call put = { .key = view_of(name), .body = buffer_view(&entry) };
        status = store_put(indexer->store, &put);
    }
    INDEXER_TRACE(indexer, "node %u: another program puts %s, and is told %s",
                  node_number(indexer->node), name, hf_status_name(status));
    buffer_release(&entry);
}
