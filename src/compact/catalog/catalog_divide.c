/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_divide.c: merges that are divided into ranges of keys: their records, and the transitions
 * that add a record, enter a finished range, and give a merge up. The swap that enters the last
 * range commits the merge, so there is never a merge that is complete and not committed. If that
 * swap finds that deletion markers had to be kept, it takes out the ranges that dropped some. */
#include "base/check.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"
#include "compact/catalog/catalog_inside.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Records ------------------------------------------------------------------------- */

static struct divided_merge *find_merge(struct catalog *catalog, struct view id)
{
    for (size_t i = 0; i < catalog->merge_count; i++)
        if (view_equal(catalog->merges[i].id, id))
            return &catalog->merges[i];
    return NULL;
}

const struct divided_merge *catalog_merge(const struct catalog *catalog, struct view id)
{
    for (size_t i = 0; i < catalog->merge_count; i++)
        if (view_equal(catalog->merges[i].id, id))
            return &catalog->merges[i];
    return NULL;
}

static bool has_source(const struct divided_merge *merge, struct view key)
{
    for (size_t i = 0; i < merge->source_count; i++)
        if (view_equal(merge->sources[i], key))
            return true;
    return false;
}

static bool all_are_done(const struct divided_merge *merge)
{
    for (size_t i = 0; i < merge->range_count; i++)
        if (!merge->ranges[i].done)
            return false;
    return true;
}

bool catalog_merge_is_broken(const struct catalog *catalog, const struct divided_merge *merge)
{
    for (size_t i = 0; i < merge->source_count; i++) {
        const struct chunk *source = catalog_find(catalog, merge->sources[i]);
        if (!source || source->quarantine.size > 0 ||
            source->size < merge->ranges[merge->range_count - 1].starts[i])
            return true;
    }
    return all_are_done(merge); /* only a document written by hand has such a record */
}

const struct divided_merge *catalog_merge_of_source(const struct catalog *catalog,
                                                    struct view key)
{
    for (size_t i = 0; i < catalog->merge_count; i++)
        if (has_source(&catalog->merges[i], key) &&
            !catalog_merge_is_broken(catalog, &catalog->merges[i]))
            return &catalog->merges[i];
    return NULL;
}

uint64_t range_part(const struct divided_merge *merge, size_t range, size_t source,
                    uint64_t source_size)
{
    bool last = range + 1 == merge->range_count;
    uint64_t end = last ? source_size : merge->ranges[range + 1].starts[source];
    return end - merge->ranges[range].starts[source];
}

#define RANGE_FOLDER "/range/"

const char *range_lease_name(struct view partition, const struct divided_merge *merge,
                             size_t range, char ret_name[RANGE_LEASE_MAX + 1])
{
    snprintf(ret_name, RANGE_LEASE_MAX + 1,
             LAYOUT_DATA_FOLDER "%.*s/L%u" RANGE_FOLDER "%.*s.%zu", VIEW_ARGS(partition),
             merge->level, VIEW_ARGS(merge->id), range);
    return ret_name;
}

bool range_lease_parse(struct view name, struct view *ret_id, size_t *ret_range)
{
    struct view rest = name, folder = VIEW(RANGE_FOLDER);
    uint64_t range;
    if (!view_starts_with(name, VIEW(LAYOUT_DATA_FOLDER)))
        return false;
    rest = view_from(rest, strlen(LAYOUT_DATA_FOLDER));
    view_cut(&rest, '/'); /* the partition */
    rest = view_from(rest, view_find(rest, '/'));
    if (!view_starts_with(rest, folder))
        return false;
    rest = view_from(rest, folder.size);
    struct view id = view_cut(&rest, '.');
    if (id.size != MERGE_ID_DIGITS ||
        parse_u64(rest, MERGE_RANGES_MAX - 1, &range, NULL) != HF_OK)
        return false;
    *ret_id = id;
    *ret_range = (size_t)range;
    return true;
}

static void remove_merge(struct catalog *catalog, const struct divided_merge *merge)
{
    size_t index = (size_t)(merge - catalog->merges);
    catalog->merge_count--;
    memmove(&catalog->merges[index], &catalog->merges[index + 1],
            (catalog->merge_count - index) * sizeof *merge);
}

/* An empty removal with room for the outputs of all ranges; false if out of memory. */
static bool new_condemned(struct catalog *catalog, const struct evidence *evidence,
                          struct removal *ret_removal)
{
    struct view *keys = catalog_take(catalog, MERGE_RANGES_MAX * sizeof *keys);
    *ret_removal = (struct removal){ .how = DELETING_CONDEMNED,
                                     .part = catalog_new_part(evidence),
                                     .keys = keys };
    return keys && catalog_room_removals(catalog, 1) &&
           key_index_reserve(&catalog->inside->index, MERGE_RANGES_MAX);
}

/* ---- Dividing ------------------------------------------------------------------------ */

/* Returns a mistake, or NULL: the bounds, and the order of ranges in keys and in each source. Two
 * ranges that overlapped would contain a record twice, or keep two versions of it. */
static const char *check_ranges(const struct divided_merge *merge)
{
    if (!text_is_hex(merge->id, MERGE_ID_DIGITS))
        return "invalid id of a divided merge";
    if (merge->level == 0 || merge->level >= CASCADE_LEVELS_MAX)
        return "invalid level of a divided merge";
    if (merge->range_count < 2 || merge->range_count > MERGE_RANGES_MAX ||
        merge->source_count == 0 || merge->source_count > MERGE_STARTS_MAX / merge->range_count)
        return "too few or too many ranges or sources in a divided merge";
    for (size_t r = 0; r < merge->range_count; r++) {
        const struct range *range = &merge->ranges[r];
        if (range->from.size > MERGE_FROM_MAX || range->from.size % 2 != 0 ||
            !text_is_hex(range->from, range->from.size) || (range->from.size == 0) != (r == 0))
            return "invalid first key of a range";
        /* The digits of hexadecimal bytes compare like the bytes. */
        if (r > 0 && view_compare(range[-1].from, range->from) >= 0)
            return "the ranges of a divided merge are not in order";
        for (size_t s = 0; s < merge->source_count; s++)
            if (r == 0 ? range->starts[s] != 0 : range->starts[s] < range[-1].starts[s])
                return "the ranges of a divided merge overlap";
    }
    return NULL;
}

static enum hf_status check_divide(const struct catalog *catalog, struct catalog_op *op)
{
    const struct divided_merge *merge = op->merge;
    const char *mistake = check_ranges(merge);
    if (mistake)
        return error_set(&op->error, HF_INVALID, "%s", mistake);
    enum hf_status status =
        catalog_check_twice(merge->sources, merge->source_count, &op->error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < merge->source_count; i++) {
        const struct chunk *source = catalog_find(catalog, merge->sources[i]);
        if (!source || source->quarantine.size > 0 || source->tries > 0)
            return error_set(&op->error, HF_CONFLICT,
                             "a source is no longer live, or has failed in another merge");
        if (merge->ranges[merge->range_count - 1].starts[i] > source->size)
            return error_set(&op->error, HF_INVALID,
                             "a range starts after the end of a source");
        for (size_t k = 0; k < catalog->merge_count; k++)
            if (has_source(&catalog->merges[k], merge->sources[i]))
                return error_set(&op->error, HF_CONFLICT,
                                 "a source is part of another divided merge");
    }
    return catalog->merge_count < CATALOG_MERGES_MAX
               ? HF_OK
               : error_set(&op->error, HF_UNAVAILABLE, "there are already %d divided merges",
                           CATALOG_MERGES_MAX);
}

static const uint64_t *keep_numbers(struct catalog *catalog, const uint64_t *numbers,
                                    size_t count)
{
    uint64_t *kept = catalog_take(catalog, count * sizeof *kept);
    if (kept)
        memcpy(kept, numbers, count * sizeof *kept);
    return kept;
}

/* Copies a record into the catalog's memory, without outputs; false if out of memory. */
static bool keep_merge(struct catalog *catalog, const struct divided_merge *merge,
                       struct divided_merge *ret_kept)
{
    struct divided_merge kept = { .id = catalog_keep(catalog, merge->id),
                                  .level = merge->level,
                                  .drops_markers = merge->drops_markers,
                                  .source_count = merge->source_count,
                                  .range_count = merge->range_count,
                                  .unknown = VIEW("") };
    kept.sources = catalog_take(catalog, merge->source_count * sizeof *kept.sources);
    kept.ranges = catalog_take(catalog, merge->range_count * sizeof *kept.ranges);
    bool good = kept.id.data && kept.sources && kept.ranges;
    for (size_t i = 0; good && i < merge->source_count; i++) {
        kept.sources[i] = catalog_keep(catalog, merge->sources[i]);
        good = kept.sources[i].data != NULL;
    }
    for (size_t i = 0; good && i < merge->range_count; i++) {
        const struct range *range = &merge->ranges[i];
        kept.ranges[i] = (struct range){
            .from = catalog_keep(catalog, range->from),
            .starts = keep_numbers(catalog, range->starts, merge->source_count),
            .unknown = VIEW(""),
        };
        good = kept.ranges[i].from.data && kept.ranges[i].starts;
    }
    *ret_kept = kept;
    return good;
}

enum hf_status catalog_apply_divide(struct catalog *catalog, struct catalog_op *op,
                                    const struct evidence *evidence)
{
    struct divided_merge kept;
    if (find_merge(catalog, op->merge->id)) {
        op->already = true;
        return HF_OK;
    }
    enum hf_status status = check_divide(catalog, op);
    if (status == HF_OK)
        status = catalog_name_age(catalog, op, evidence);
    if (status != HF_OK)
        return status;
    if (!keep_merge(catalog, op->merge, &kept))
        return error_no_memory(&op->error);
    kept.since = stamp_now(evidence);
    catalog->merges[catalog->merge_count++] = kept;
    op->changed = true;
    return HF_OK;
}

/* ---- Finished ranges ----------------------------------------------------------------- */

/* The target is checked before the merge. If an earlier attempt landed and its reply was lost, this
 * attempt must report success. */
static enum hf_status check_range(const struct catalog *catalog, struct catalog_op *op,
                                  const struct divided_merge *merge,
                                  const struct evidence *evidence)
{
    enum hf_status status = chunk_check(&op->target, &op->error);
    if (status == HF_OK)
        status = catalog_check_key(catalog, op->target.key, &op->error);
    if (status != HF_OK)
        return status;
    enum chunk_state state = catalog_state(catalog, op->target.key);
    op->committed = chunk_was_live(state);
    op->already = op->committed || state == CHUNK_PENDING;
    if (op->already)
        return HF_OK;
    if (RULE(COMMIT_REFUSES_CONDEMNED) && state == CHUNK_CONDEMNED)
        return error_set(&op->error, HF_CONFLICT,
                         "the output was marked for deletion after its lease had expired");
    if (!merge)
        return error_set(&op->error, HF_CONFLICT, "the merge of this range was given up");
    if (op->range >= merge->range_count || op->target.level != merge->level)
        return error_set(&op->error, HF_INVALID, "the merge has no such range");
    if (merge->ranges[op->range].done)
        return error_set(&op->error, HF_CONFLICT, "another worker has merged this range");
    if (RULE(COMMIT_NEEDS_LIVE_SOURCES) && catalog_merge_is_broken(catalog, merge))
        return error_set(&op->error, HF_CONFLICT,
                         "a source of the merge is no longer live, or is quarantined");
    op->needs_markers = op->deleted > 0 && !merge->drops_markers;
    if (op->needs_markers)
        return error_set(&op->error, HF_CONFLICT,
                         "deletion markers must be kept: another range could not drop them");
    return catalog_name_age(catalog, op, evidence);
}

/* The rows of all ranges together must be those of the sources. */
static enum hf_status check_sum_of_rows(const struct catalog *catalog,
                                        const struct divided_merge *merge,
                                        struct hf_error *error)
{
    uint64_t in = 0, out = 0, gone = 0, recorded = 0;
    bool known = true;
    for (size_t i = 0; i < merge->range_count; i++) {
        const struct range *range = &merge->ranges[i];
        in += range->rows_in;
        out += range->target.rows;
        gone += range->superseded + range->target.rejects + range->deleted;
        known = known && range->target.rows_known;
    }
    if (known && in != out + gone)
        return error_set(error, HF_CORRUPT,
                         "the rows do not add up: %" PRIu64 " in, %" PRIu64 " out, %" PRIu64
                         " superseded, rejected or deleted",
                         in, out, gone);
    for (size_t i = 0; i < merge->source_count; i++) {
        const struct chunk *source = catalog_find(catalog, merge->sources[i]);
        known = known && source && source->rows_known;
        recorded += source ? source->rows : 0;
    }
    if (known && in != recorded)
        return error_set(error, HF_CORRUPT,
                         "%" PRIu64 " rows were merged, but the catalog records %" PRIu64, in,
                         recorded);
    return HF_OK;
}

/* Each range has read a part of each source. The checksums of the parts give that of the source. */
static enum hf_status check_sum_of_parts(const struct catalog *catalog,
                                         const struct divided_merge *merge,
                                         struct hf_error *error)
{
    for (size_t s = 0; s < merge->source_count; s++) {
        const struct chunk *source = catalog_find(catalog, merge->sources[s]);
        uint32_t crc = 0;
        if (!source)
            continue;
        for (size_t r = 0; r < merge->range_count; r++)
            crc = crc32c_combine(crc, (uint32_t)merge->ranges[r].crcs[s],
                                 range_part(merge, r, s, source->size));
        if (RULE(CHECKSUM_ON_READ) && crc != source->crc32c)
            return error_set(error, HF_CORRUPT,
                             "%.*s: its checksum is %08" PRIx32 ", but the catalog records "
                             "%08" PRIx32,
                             VIEW_ARGS(view_first(source->key, 100)), crc, source->crc32c);
    }
    return HF_OK;
}

static enum hf_status check_sums(const struct catalog *catalog,
                                 const struct divided_merge *merge, struct hf_error *error)
{
    enum hf_status status = check_sum_of_rows(catalog, merge, error);
    return status == HF_OK ? check_sum_of_parts(catalog, merge, error) : status;
}

static bool has_dropped_markers(const struct divided_merge *merge)
{
    for (size_t i = 0; i < merge->range_count; i++)
        if (merge->ranges[i].done && merge->ranges[i].deleted > 0)
            return true;
    return false;
}

static enum hf_status commit_merge(struct catalog *catalog, struct catalog_op *op,
                                   struct divided_merge *merge, const struct evidence *evidence)
{
    struct chunk targets[MERGE_RANGES_MAX];
    struct grave into = { .into = merge->id };
    struct chunk_markers markers =
        catalog_markers_of(catalog, merge->sources, merge->source_count, evidence);
    bool drops = has_dropped_markers(merge);
    struct view *keys = catalog_take(catalog, merge->range_count * sizeof *keys);
    if (!keys)
        return error_no_memory(&op->error);
    into.targets = keys;
    for (size_t i = 0; i < merge->range_count; i++)
        if (merge->ranges[i].done) {
            targets[into.target_count] = merge->ranges[i].target;
            keys[into.target_count++] = merge->ranges[i].target.key;
        }
    enum hf_status status =
        catalog_commit(catalog, op, &into, merge->sources, merge->source_count, targets,
                       into.target_count, evidence);
    if (status != HF_OK)
        return status;
    if (drops)
        catalog_raise_floor(catalog, markers.ms);
    remove_merge(catalog, merge);
    op->committed = true;
    return HF_OK;
}

/* Whether the markers that the ranges have dropped had to be kept. The same rules decide as for a
 * commit of the whole group. */
static bool must_keep_markers(const struct catalog *catalog, const struct divided_merge *merge,
                              const struct evidence *evidence)
{
    struct hf_error ignored;
    return has_dropped_markers(merge) &&
           catalog_check_markers(catalog, merge->sources, merge->source_count, evidence,
                                 &ignored) != HF_OK;
}

/* Condemns the outputs that lack markers. Their ranges are merged again, and keep them. The others
 * stay: nothing was dropped there. */
static enum hf_status take_back_markers(struct catalog *catalog, struct catalog_op *op,
                                        struct divided_merge *merge,
                                        const struct evidence *evidence)
{
    struct removal removal;
    if (!new_condemned(catalog, evidence, &removal))
        return error_no_memory(&op->error);
    op->needs_markers = merge->ranges[op->range].deleted > 0;
    if (!op->needs_markers)
        key_index_put(&catalog->inside->index, merge->ranges[op->range].target.key,
                      CHUNK_PENDING, 0);
    for (size_t i = 0; i < merge->range_count; i++) {
        struct range *range = &merge->ranges[i];
        if (!range->done || range->deleted == 0)
            continue;
        removal.keys[removal.count++] = range->target.key;
        *range = (struct range){ .from = range->from,
                                 .starts = range->starts,
                                 .tries = range->tries,
                                 .unknown = range->unknown };
    }
    merge->drops_markers = false;
    catalog_push_removal(catalog, &removal);
    return HF_OK;
}

/* All ranges are done. */
static enum hf_status end_merge(struct catalog *catalog, struct catalog_op *op,
                                struct divided_merge *merge, const struct evidence *evidence)
{
    enum hf_status status = check_sums(catalog, merge, &op->error);
    op->wrong_sum = status == HF_CORRUPT;
    if (status != HF_OK)
        return status;
    return must_keep_markers(catalog, merge, evidence)
               ? take_back_markers(catalog, op, merge, evidence)
               : commit_merge(catalog, op, merge, evidence);
}

/* Enters the range, and commits the merge if it was the last one. If the commit fails, the range is
 * taken out again, so a refusal leaves the catalog unchanged. */
static enum hf_status enter_range(struct catalog *catalog, struct catalog_op *op,
                                  struct divided_merge *merge, const struct range *done,
                                  const struct evidence *evidence)
{
    struct range before = merge->ranges[op->range];
    merge->ranges[op->range] = *done;
    enum hf_status status = HF_OK;
    if (all_are_done(merge))
        status = end_merge(catalog, op, merge, evidence);
    else if (RULE(COMMIT_NEEDS_ALL_RANGES))
        key_index_put(&catalog->inside->index, done->target.key, CHUNK_PENDING, 0);
    else
        status = commit_merge(catalog, op, merge, evidence);
    if (status != HF_OK)
        merge->ranges[op->range] = before;
    return status;
}

enum hf_status catalog_apply_range(struct catalog *catalog, struct catalog_op *op,
                                   const struct evidence *evidence)
{
    struct divided_merge *merge = find_merge(catalog, op->id);
    MUTANT(mutant_enters_any_merge(catalog, op, &merge));
    enum hf_status status = check_range(catalog, op, merge, evidence);
    if (status != HF_OK || op->already)
        return status;
    check(merge);
    struct range done = merge->ranges[op->range];
    done.done = true;
    done.target = op->target;
    done.target.since = stamp_now(evidence);
    done.target.run = merge->id;
    done.target.file_id = done.target.object = done.target.etag = VIEW("");
    done.target.markers =
        catalog_markers_left(op, catalog_markers_of(catalog, merge->sources,
                                                    merge->source_count, evidence));
    done.rows_in = op->rows_in;
    done.superseded = op->superseded;
    done.deleted = op->deleted;
    done.crcs = keep_numbers(catalog, op->crcs, merge->source_count);
    if (!done.crcs || !key_index_reserve(&catalog->inside->index, 1))
        return error_no_memory(&op->error);
    status = chunk_keep(catalog, &done.target, &op->error);
    if (status == HF_OK)
        status = enter_range(catalog, op, merge, &done, evidence);
    op->changed = status == HF_OK;
    return status;
}

/* ---- Giving up ----------------------------------------------------------------------- */

struct range_blame divided_blame(struct catalog *catalog, struct catalog_op *op)
{
    struct range_blame blame = { 0 };
    struct view id;
    if (op->source_count != 1 || !range_lease_parse(op->sources[0], &id, &blame.range))
        return blame;
    struct divided_merge *merge = find_merge(catalog, id);
    enum hf_compact_blame asked = op->blame;
    op->source_count = 0;
    if (asked != HF_COMPACT_BLAME_CHUNK)
        op->blame = HF_COMPACT_BLAME_NOBODY;
    if (!merge || asked == HF_COMPACT_BLAME_NOBODY || blame.range >= merge->range_count)
        return blame;
    blame.merge = merge;
    blame.gives_up = asked == HF_COMPACT_BLAME_CHUNK ||
                     merge->ranges[blame.range].tries + 1 >= catalog->settings.tries_max;
    if (blame.gives_up && asked == HF_COMPACT_BLAME_GROUP) {
        op->blame = HF_COMPACT_BLAME_GROUP;
        op->sources = merge->sources;
        op->source_count = merge->source_count;
    }
    return blame;
}

/* Condemns the pending outputs. There is room for their keys. */
static void give_up(struct catalog *catalog, const struct divided_merge *merge,
                    struct removal *removal)
{
    for (size_t i = 0; i < merge->range_count; i++)
        if (merge->ranges[i].done && RULE(GIVEN_UP_IS_CONDEMNED))
            removal->keys[removal->count++] = merge->ranges[i].target.key;
        else if (merge->ranges[i].done)
            key_index_drop(&catalog->inside->index, merge->ranges[i].target.key);
    remove_merge(catalog, merge);
}

void divided_count_try(struct catalog *catalog, const struct range_blame *blame,
                       struct removal *removal)
{
    if (!blame->merge)
        return;
    if (blame->gives_up)
        give_up(catalog, blame->merge, removal);
    else
        blame->merge->ranges[blame->range].tries++;
}

enum hf_status divided_drop_broken(struct catalog *catalog, struct catalog_op *op,
                                   const struct evidence *evidence)
{
    for (size_t i = catalog->merge_count; i > 0; i--) {
        const struct divided_merge *merge = &catalog->merges[i - 1];
        if (!catalog_merge_is_broken(catalog, merge))
            continue;
        struct removal removal;
        if (!new_condemned(catalog, evidence, &removal))
            return error_no_memory(&op->error);
        give_up(catalog, merge, &removal);
        if (removal.count > 0)
            catalog_push_removal(catalog, &removal);
        op->changed = true;
    }
    return HF_OK;
}

/* ---- JSON ---------------------------------------------------------------------------- */

static bool take_starts(struct member_reader *members, void *part);
static bool take_crcs(struct member_reader *members, void *part);
static bool take_range_output(struct member_reader *members, void *part);
static bool take_sources(struct member_reader *members, void *part);
static bool take_ranges(struct member_reader *members, void *part);

/* A range and a record while they are read, with the lengths of their lists. */
struct range_reading {
    struct range range;
    size_t start_count, crc_count;
};

struct merge_reading {
    struct divided_merge merge;
    size_t start_count; /* of each range */
};

static const struct member range_members[] = {
    MEMBER(range_reading, "from", MEMBER_TEXT, range.from, MERGE_FROM_MAX, MEMBER_OPTIONAL),
    MEMBER(range_reading, "tries", MEMBER_U32, range.tries, CHUNK_TRIES_MAX, MEMBER_OPTIONAL),
    MEMBER(range_reading, "rows_in", MEMBER_U64, range.rows_in, CHUNK_NUMBER_MAX,
           MEMBER_OPTIONAL),
    MEMBER(range_reading, "superseded", MEMBER_U64, range.superseded, CHUNK_NUMBER_MAX,
           MEMBER_OPTIONAL),
    MEMBER(range_reading, "deleted", MEMBER_U64, range.deleted, CHUNK_NUMBER_MAX,
           MEMBER_OPTIONAL),
    MEMBER_BY("starts", take_starts, MEMBER_NEEDED),
    MEMBER_BY("crcs", take_crcs, MEMBER_OPTIONAL),
    MEMBER_BY("output", take_range_output, MEMBER_OPTIONAL),
};
static const struct member_table range_table =
    MEMBER_TABLE(range_members, "a member of a range is missing");

static const struct member merge_members[] = {
    MEMBER(merge_reading, "id", MEMBER_TEXT, merge.id, MERGE_ID_DIGITS, MEMBER_NEEDED),
    MEMBER(merge_reading, "level", MEMBER_U32, merge.level, CASCADE_LEVELS_MAX - 1,
           MEMBER_NEEDED),
    MEMBER(merge_reading, "since", MEMBER_STAMP, merge.since, 0, MEMBER_NEEDED),
    MEMBER(merge_reading, "drops_markers", MEMBER_BOOL, merge.drops_markers, 0,
           MEMBER_OPTIONAL),
    MEMBER_BY("sources", take_sources, MEMBER_NEEDED),
    MEMBER_BY("ranges", take_ranges, MEMBER_NEEDED),
};
static const struct member_table merge_table =
    MEMBER_TABLE(merge_members, "a member of a divided merge is missing");

static void write_numbers(struct buffer *text, struct view before, const uint64_t *numbers,
                          size_t count)
{
    buffer_append(text, before);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_byte(text, ',');
        buffer_append_u64(text, numbers[i]);
    }
    buffer_append_byte(text, ']');
}

static void write_range(const struct divided_merge *merge, const struct range *range,
                        struct buffer *text)
{
    struct range_reading writing = { .range = *range };
    size_t before = text->size;
    members_write(&range_table, &writing, '{', text);
    bool is_empty = text->size == before;
    write_numbers(text, is_empty ? VIEW("{\"starts\":[") : VIEW(",\"starts\":["), range->starts,
                  merge->source_count);
    if (range->done) {
        write_numbers(text, VIEW(",\"crcs\":["), range->crcs, merge->source_count);
        buffer_append(text, VIEW(",\"output\":"));
        buffer_append(text, range->target.raw);
    }
    buffer_append(text, range->unknown);
    buffer_append_byte(text, '}');
}

void divided_write(const struct divided_merge *merge, struct buffer *text)
{
    struct merge_reading writing = { .merge = *merge };
    members_write(&merge_table, &writing, '{', text);
    texts_write(text, VIEW(",\"sources\":["), merge->sources, merge->source_count);
    buffer_append(text, VIEW(",\"ranges\":["));
    for (size_t i = 0; i < merge->range_count; i++) {
        buffer_append(text, i ? VIEW(",\n") : VIEW("\n"));
        write_range(merge, &merge->ranges[i], text);
    }
    buffer_append(text, VIEW("]"));
    buffer_append(text, merge->unknown);
    buffer_append_byte(text, '}');
}

static bool take_starts(struct member_reader *members, void *part)
{
    struct range_reading *reading = part;
    uint64_t *numbers;
    if (!numbers_read(members->context, &numbers, &reading->start_count))
        return false;
    reading->range.starts = numbers;
    return true;
}

static bool take_crcs(struct member_reader *members, void *part)
{
    struct range_reading *reading = part;
    uint64_t *numbers;
    if (!numbers_read(members->context, &numbers, &reading->crc_count))
        return false;
    reading->range.crcs = numbers;
    return true;
}

static bool take_range_output(struct member_reader *members, void *part)
{
    struct range_reading *reading = part;
    reading->range.done = true;
    return chunk_read(members->context, &reading->range.target);
}

static bool take_sources(struct member_reader *members, void *part)
{
    struct divided_merge *merge = &((struct merge_reading *)part)->merge;
    return texts_read(members->context, key_read, &merge->sources, &merge->source_count);
}

/* Decodes an object, and keeps its unknown members. */
static bool read_with_unknown(struct part_reader *reader, const struct member_table *table,
                              void *part, struct view *ret_unknown)
{
    struct buffer unknown = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    bool good = part_members_read(reader, table, part, &unknown);
    if (good) {
        *ret_unknown = catalog_keep(reader->catalog, buffer_view(&unknown));
        good = ret_unknown->data || part_no_memory(reader);
    }
    buffer_release(&unknown);
    return good;
}

static bool take_ranges(struct member_reader *members, void *part)
{
    struct part_reader *reader = members->context;
    struct json_reader *json = &reader->json;
    struct merge_reading *all = part;
    struct divided_merge *merge = &all->merge;
    merge->ranges = catalog_take(reader->catalog, MERGE_RANGES_MAX * sizeof *merge->ranges);
    if (!merge->ranges)
        return part_no_memory(reader);
    for (json_enter_array(json); json_next_element(json);) {
        struct range_reading reading = { .range.from = VIEW("") };
        if (merge->range_count == MERGE_RANGES_MAX)
            return json_fail(json, "too many ranges in a divided merge");
        if (!read_with_unknown(reader, &range_table, &reading, &reading.range.unknown))
            return false;
        if (merge->range_count == 0)
            all->start_count = reading.start_count;
        if (reading.start_count != all->start_count ||
            (reading.range.done && reading.crc_count != all->start_count))
            return json_fail(json, "a range has parts of too few or too many sources");
        merge->ranges[merge->range_count++] = reading.range;
    }
    return json->why == NULL;
}

bool divided_read(struct part_reader *reader, struct divided_merge *ret_merge)
{
    struct merge_reading reading = { .merge.id = VIEW("") };
    struct divided_merge *merge = &reading.merge;
    struct json_reader *json = &reader->json;
    struct key_index *index = &reader->catalog->inside->index;
    if (!read_with_unknown(reader, &merge_table, &reading, &merge->unknown))
        return false;
    if (reading.start_count != merge->source_count)
        return json_fail(json, "a range has parts of too few or too many sources");
    const char *mistake = check_ranges(merge);
    if (mistake)
        return json_fail(json, mistake);
    for (size_t i = 0; i < merge->range_count; i++) {
        struct range *range = &merge->ranges[i];
        if (!key_index_reserve(index, 1))
            return part_no_memory(reader);
        if (range->done && key_index_get(index, range->target.key))
            range->done = false;
        else if (range->done)
            key_index_put(index, range->target.key, CHUNK_PENDING, 0);
    }
    *ret_merge = *merge;
    return true;
}
