/* SPDX-License-Identifier: Apache-2.0 */
/* compact_version.c: parses catalogs and the lease tables of chunks as docs/formats.md describes
 * them. It uses no code from src/compact or src/lease, so it does not share their bugs. */
#include "sim/checkers/compact_version.h"

#include "base/check.h"
#include "base/json.h"
#include "base/parse.h"
#include "sim/checkers/checker_inside.h"

#include <stdlib.h>

/* ---- Entries ------------------------------------------------------------------------- */

static struct listed *add_listed(struct catalog_version *version, enum listed_state state,
                                 size_t group)
{
    version->entries = checker_grow(version->entries, version->count, sizeof *version->entries);
    struct listed *entry = &version->entries[version->count++];
    *entry = (struct listed){ .state = state, .group = group };
    return entry;
}

static size_t add_group(struct catalog_version *version)
{
    version->groups =
        checker_grow(version->groups, version->group_count, sizeof *version->groups);
    version->groups[version->group_count] = (struct listed_group){ .into = VIEW("") };
    return version->group_count++;
}

static void take_number(struct json_reader *r, uint64_t *ret_number)
{
    json_take_u64(r, UINT64_MAX, ret_number);
}

static void read_entry(struct json_reader *r, struct listed *entry)
{
    struct view name, raw;
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("key")))
            json_take_plain(r, &entry->key);
        else if (view_equal(name, VIEW("level")))
            take_number(r, &entry->level);
        else if (view_equal(name, VIEW("size")))
            take_number(r, &entry->size);
        else if (view_equal(name, VIEW("crc32c")))
            take_number(r, &entry->crc32c);
        else if (view_equal(name, VIEW("tries")))
            take_number(r, &entry->tries);
        else if (view_equal(name, VIEW("tested")))
            take_number(r, &entry->tested);
        else if (view_equal(name, VIEW("mark_begin")))
            entry->mark_begin = json_skip(r, &raw) && view_equal(raw, VIEW("true"));
        else if (view_equal(name, VIEW("rows"))) {
            entry->rows_known = true;
            take_number(r, &entry->rows);
        } else if (view_equal(name, VIEW("min")))
            json_take_i64(r, &entry->min_ms);
        else if (view_equal(name, VIEW("max")))
            json_take_i64(r, &entry->max_ms);
        else if (view_equal(name, VIEW("run")))
            json_take_plain(r, &entry->run);
        else if (view_equal(name, VIEW("object")))
            json_take_plain(r, &entry->object);
        else if (view_equal(name, VIEW("etag")))
            json_take_plain(r, &entry->etag);
        else if (view_equal(name, VIEW("own")))
            entry->own = json_skip(r, &raw) && view_equal(raw, VIEW("true"));
        else if (view_equal(name, VIEW("quarantine")))
            entry->quarantined = json_skip(r, &raw) && raw.size > strlen("\"\"");
        else
            json_skip(r, &raw);
    }
}

static void read_entries(struct json_reader *r, struct catalog_version *version,
                         enum listed_state state, size_t group)
{
    for (json_enter_array(r); json_next_element(r);)
        read_entry(r, add_listed(version, state, group));
}

static void read_keys(struct json_reader *r, struct catalog_version *version, size_t group)
{
    struct view key;
    for (json_enter_array(r); json_next_element(r) && json_take_plain(r, &key);)
        add_listed(version, LISTED_RETIRED, group)->key = key;
}

/* ---- The catalog --------------------------------------------------------------------- */

static void read_texts(struct json_reader *r, struct view **texts, size_t *count)
{
    struct view text;
    for (json_enter_array(r); json_next_element(r) && json_take_plain(r, &text);) {
        *texts = checker_grow(*texts, *count, sizeof text);
        (*texts)[(*count)++] = text;
    }
}

/* An output stands in the record of its merge until the merge is committed. */
static void read_range(struct json_reader *r, struct catalog_version *version, size_t merge,
                       size_t range)
{
    struct view name, raw;
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("output"))) {
            struct listed *entry = add_listed(version, LISTED_PENDING, merge);
            entry->range = range;
            read_entry(r, entry);
        } else
            json_skip(r, &raw);
    }
}

static void read_merge(struct json_reader *r, struct catalog_version *version)
{
    struct view name, raw;
    version->merges =
        checker_grow(version->merges, version->merge_count, sizeof *version->merges);
    size_t index = version->merge_count++;
    struct listed_merge merge = { .id = VIEW("") };
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("id")))
            json_take_plain(r, &merge.id);
        else if (view_equal(name, VIEW("sources")))
            read_texts(r, &merge.sources, &merge.source_count);
        else if (view_equal(name, VIEW("ranges")))
            for (json_enter_array(r); json_next_element(r); merge.range_count++)
                read_range(r, version, index, merge.range_count);
        else
            json_skip(r, &raw);
    }
    version->merges[index] = merge;
}

static void read_grave(struct json_reader *r, struct catalog_version *version)
{
    size_t group = add_group(version);
    struct view name, raw;
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("into")))
            json_take_plain(r, &version->groups[group].into);
        else if (view_equal(name, VIEW("targets")))
            read_texts(r, &version->groups[group].targets,
                       &version->groups[group].target_count);
        else if (view_equal(name, VIEW("since")))
            json_take_plain(r, &version->groups[group].since);
        else if (view_equal(name, VIEW("chunks")))
            read_entries(r, version, LISTED_TOMBSTONE, group);
        else
            json_skip(r, &raw);
    }
}

static void read_removal(struct json_reader *r, struct catalog_version *version)
{
    size_t group = add_group(version), first = version->count;
    struct view name, raw, how = VIEW("");
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("how")))
            json_take_plain(r, &how);
        else if (view_equal(name, VIEW("since")))
            json_take_plain(r, &version->groups[group].since);
        else if (view_equal(name, VIEW("keys")))
            read_keys(r, version, group);
        else
            json_skip(r, &raw);
    }
    version->groups[group].condemned = view_equal(how, VIEW("condemned"));
    for (size_t i = first; i < version->count && version->groups[group].condemned; i++)
        version->entries[i].state = LISTED_CONDEMNED;
}

static void read_moved(struct json_reader *r, struct catalog_version *version)
{
    struct view name, raw;
    uint64_t child = 0;
    size_t first = version->count;
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("child")))
            take_number(r, &child);
        else if (view_equal(name, VIEW("keys")))
            read_keys(r, version, 0);
        else
            json_skip(r, &raw);
    }
    for (size_t i = first; i < version->count; i++) {
        version->entries[i].state = LISTED_MOVED;
        version->entries[i].group = (size_t)child;
    }
}

static void read_children(struct json_reader *r, struct catalog_version *version)
{
    struct view id;
    for (json_enter_array(r); json_next_element(r) && json_take_plain(r, &id);) {
        if (version->child_count == LISTED_CHILDREN_MAX) {
            json_fail(r, "more children than the checker can read");
            return;
        }
        version->children[version->child_count++] = id;
    }
}

static void read_settings(struct json_reader *r, struct catalog_version *version)
{
    struct view name, raw;
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("policy")))
            json_take_plain(r, &version->policy);
        else
            json_skip(r, &raw);
    }
}

static void read_dropping(struct json_reader *r, struct catalog_version *version)
{
    struct view name, raw;
    version->dropping = true;
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("dropped")))
            json_take_bool(r, &version->dropped);
        else
            json_skip(r, &raw);
    }
}

static bool read_catalog(struct catalog_version *version, struct view text)
{
    struct json_reader r = json_read(text);
    struct view name, raw, format = VIEW("");
    for (json_enter_object(&r); json_next_member(&r, &name);) {
        if (view_equal(name, VIEW("format")))
            json_take_plain(&r, &format);
        else if (view_equal(name, VIEW("partition")))
            json_take_plain(&r, &version->partition);
        else if (view_equal(name, VIEW("settings")))
            read_settings(&r, version);
        else if (view_equal(name, VIEW("chunks")))
            read_entries(&r, version, LISTED_LIVE, 0);
        else if (view_equal(name, VIEW("children")))
            read_children(&r, version);
        else if (view_equal(name, VIEW("dropping")))
            read_dropping(&r, version);
        else if (view_equal(name, VIEW("tombstones")))
            for (json_enter_array(&r); json_next_element(&r);)
                read_grave(&r, version);
        else if (view_equal(name, VIEW("deleting")))
            for (json_enter_array(&r); json_next_element(&r);)
                read_removal(&r, version);
        else if (view_equal(name, VIEW("merges")))
            for (json_enter_array(&r); json_next_element(&r);)
                read_merge(&r, version);
        else if (view_equal(name, VIEW("moved")))
            for (json_enter_array(&r); json_next_element(&r);)
                read_moved(&r, version);
        else
            json_skip(&r, &raw);
    }
    return json_end(&r) && view_starts_with(format, VIEW("holdfast.catalog/"));
}

static char *copy_text(struct view text)
{
    char *copy = checker_allocate(text.size + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    return copy;
}

struct catalog_version *catalog_version_read(struct view text)
{
    struct catalog_version *version = checker_allocate(sizeof *version);
    version->text = copy_text(text);
    if (read_catalog(version, (struct view){ version->text, text.size }))
        return version;
    catalog_version_free(version);
    return NULL;
}

void catalog_version_free(struct catalog_version *version)
{
    if (!version)
        return;
    for (size_t i = 0; i < version->group_count; i++)
        free(version->groups[i].targets);
    for (size_t i = 0; i < version->merge_count; i++)
        free(version->merges[i].sources);
    free(version->merges);
    free(version->entries);
    free(version->groups);
    free(version->text);
    free(version);
}

bool listed_stamp_read(struct view text, uint64_t *ret_clock, int64_t *ret_us)
{
    struct view clock = view_cut(&text, ':');
    *ret_clock = 0;
    for (size_t i = 0; i < clock.size; i++) {
        char c = clock.data[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && (c < 'a' || c > 'f'))
            return false;
        *ret_clock = *ret_clock << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    uint64_t us;
    bool before = text.size > 0 && text.data[0] == '-';
    if (clock.size != 16 ||
        parse_u64(before ? view_from(text, 1) : text, INT64_MAX, &us, NULL) != HF_OK)
        return false;
    *ret_us = before ? -(int64_t)us : (int64_t)us;
    return true;
}

/* ---- Lease tables -------------------------------------------------------------------- */

static void read_note(struct view note, struct leased *lease)
{
    struct json_reader r = json_read(note);
    struct view name, raw, blame = VIEW("");
    for (json_enter_object(&r); json_next_member(&r, &name);) {
        if (view_equal(name, VIEW("blame")))
            json_take_plain(&r, &blame);
        else if (view_equal(name, VIEW("begun")))
            lease->unbegun = json_skip(&r, &raw) && view_equal(raw, VIEW("false"));
        else
            json_skip(&r, &raw);
    }
    if (view_equal(blame, VIEW("group")))
        lease->blame = LEASED_GROUP;
    else
        lease->blame = view_equal(blame, VIEW("chunk")) ? LEASED_CHUNK : LEASED_NOBODY;
}

static void read_sources(struct json_reader *r, struct leased *lease)
{
    struct view key;
    for (json_enter_array(r); json_next_element(r) && json_take_plain(r, &key);) {
        if (lease->source_count == LEASED_SOURCES_MAX) {
            json_fail(r, "more sources than the checker can read");
            return;
        }
        lease->sources[lease->source_count++] = key;
    }
}

static void read_lease(struct json_reader *r, struct leased *lease)
{
    struct view name, raw, note = VIEW("{}");
    for (json_enter_object(r); json_next_member(r, &name);) {
        if (view_equal(name, VIEW("lease_id")))
            json_take_plain(r, &lease->id);
        else if (view_equal(name, VIEW("status")))
            json_take_plain(r, &lease->status);
        else if (view_equal(name, VIEW("output")))
            json_take_plain(r, &lease->output);
        else if (view_equal(name, VIEW("chunks")))
            read_sources(r, lease);
        else if (view_equal(name, VIEW("note")))
            json_skip(r, &note);
        else
            json_skip(r, &raw);
    }
    read_note(note, lease);
}

static void read_leases(struct json_reader *r, struct leases_version *version)
{
    struct view id;
    for (json_enter_object(r); json_next_member(r, &id);) {
        struct leased lease = { .output = VIEW("") };
        read_lease(r, &lease);
        if (lease.output.size == 0)
            continue;
        version->leases =
            checker_grow(version->leases, version->count, sizeof *version->leases);
        version->leases[version->count++] = lease;
    }
}

struct leases_version *leases_version_read(struct view text)
{
    struct leases_version *version = checker_allocate(sizeof *version);
    version->text = copy_text(text);
    struct json_reader r = json_read((struct view){ version->text, text.size });
    struct view name, raw;
    for (json_enter_object(&r); json_next_member(&r, &name);) {
        if (view_equal(name, VIEW("leases")) && !version->leases)
            read_leases(&r, version);
        else
            json_skip(&r, &raw);
    }
    if (json_end(&r))
        return version;
    leases_version_free(version);
    return NULL;
}

void leases_version_free(struct leases_version *version)
{
    if (!version)
        return;
    free(version->leases);
    free(version->text);
    free(version);
}
