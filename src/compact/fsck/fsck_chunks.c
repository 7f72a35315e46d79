/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_chunks.c: checks that the object of each chunk exists and matches the size, checksum and
 * rows in the catalog. One object at a time is read into an unnamed file. A chunk is quarantined
 * only after a second read. */
#include "compact/catalog/chunk_object.h"
#include "compact/fsck/fsck_inside.h"
#include "compact/work/merger.h"
#include "file/new_file.h"
#include "merge/parquet_footer.h"
#include "merge/survey.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define SCRATCH_DEFAULT "/tmp"

/* ---- Reading one object -------------------------------------------------------------- */

/* The result of reading an object. */
struct contents {
    enum hf_status status; /* of reading it from the store */
    struct hf_error why;
    uint64_t size;
    uint32_t crc32c;
    bool counted, uncountable; /* whether its rows were, or cannot be; see `why` */
    uint64_t rows;
};

static bool keep_going(void *argument, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return fsck_go_on(argument, NULL) == HF_OK;
}

/* Counts the rows as a merge would. Unreadable contents are a finding; a failure of this machine
 * ends the run. */
static enum hf_status count_rows(struct fsck *fsck, const struct compact_settings *settings,
                                 int fd, struct contents *contents, struct hf_error *error)
{
    struct merge_options options = compact_chunk_options(settings);
    struct survey survey;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum hf_status status;
    if (options.format == HF_MERGE_PARQUET) {
        /* The bytes are those that ingest or a merge checked, so the footer is enough. It can be
         * read on a machine without DuckDB. */
        struct parquet_footer footer = { 0 };
        status = parquet_footer_of(path, path, &footer, error);
        survey = (struct survey){ .rows_counted = true, .rows = footer.rows };
    } else {
        status = merge_survey(fsck->env, &options, path, &survey, error);
    }
    contents->counted = status == HF_OK && survey.rows_counted;
    if (contents->counted)
        contents->rows = survey.rows;
    if (status != HF_CORRUPT && status != HF_INVALID)
        return status;
    struct view why = view_of(error->why), at = view_of(path);
    if (view_starts_with(why, at)) /* removes the path, which means nothing to users */
        why = view_from(why, at.size + 2);
    contents->uncountable = true;
    snprintf(contents->why.why, sizeof contents->why.why, "%.*s", VIEW_ARGS(why));
    return error_clear(error);
}

/* The part of an entry that says where its bytes are. */
static struct chunk chunk_of(const struct fsck_name *name)
{
    return (struct chunk){ .key = name->key, .object = name->object, .etag = name->etag };
}

/* Fetches and examines an object. Returns OK if that was possible, regardless of what it found. */
static enum hf_status examine_object(struct fsck *fsck, const struct fsck_name *name,
                                     struct contents *ret_contents, struct hf_error *error)
{
    const struct compact_settings *settings = &name->catalog->settings;
    const char *folder = fsck->options->scratch ? fsck->options->scratch : SCRATCH_DEFAULT;
    struct progress progress = { keep_going, fsck };
    const struct chunk chunk = chunk_of(name);
    struct get_call get = chunk_get_call(&chunk);
    *ret_contents = (struct contents){ 0 };
    int fd = nameless_file(folder);
    if (fd < 0) {
        error_from_errno(error, errno, "create a scratch file");
        error_about(error, folder);
        return error->status;
    }
    enum hf_status status = HF_OK;
    ret_contents->status = store_get_file(fsck->store, &get, fd, &progress);
    ret_contents->why = get.error;
    if (ret_contents->status == HF_CANCELLED)
        status = error_set(error, HF_CANCELLED, "stopped");
    else if (ret_contents->status == HF_OK)
        status = file_checksum(fd, "read a scratch file", &ret_contents->size,
                               &ret_contents->crc32c, error);
    fsck->report->bytes_read += ret_contents->size;
    bool whole = ret_contents->size == name->size && ret_contents->crc32c == name->crc32c;
    if (status == HF_OK && ret_contents->status == HF_OK && whole && name->rows_known)
        status = count_rows(fsck, settings, fd, ret_contents, error);
    close(fd);
    return status;
}

/* ---- Faults -------------------------------------------------------------------------- */

#define FINE HF_FSCK_KIND_COUNT

static enum hf_fsck_kind compare_contents(const struct contents *contents,
                                          const struct fsck_name *name, char why[HF_WHY_MAX])
{
    why[0] = '\0';
    if (contents->status == HF_NOT_FOUND)
        return HF_FSCK_MISSING_OBJECT;
    if (contents->status == HF_CONFLICT && name->object.size > 0) {
        snprintf(why, HF_WHY_MAX, "%.*s no longer has the ETag under which it was adopted",
                 VIEW_ARGS(view_first(name->object, 120)));
        return HF_FSCK_REWRITTEN;
    }
    if (contents->status != HF_OK) {
        snprintf(why, HF_WHY_MAX, "%s", contents->why.why);
        return HF_FSCK_UNREADABLE_OBJECT;
    }
    if (contents->size != name->size) {
        snprintf(why, HF_WHY_MAX, "it has %llu bytes, expected %llu",
                 (unsigned long long)contents->size, (unsigned long long)name->size);
        return HF_FSCK_WRONG_SIZE;
    }
    if (contents->crc32c != name->crc32c) {
        snprintf(why, HF_WHY_MAX, "its checksum is %08x, expected %08x", contents->crc32c,
                 name->crc32c);
        return HF_FSCK_WRONG_CHECKSUM;
    }
    if (contents->uncountable) {
        snprintf(why, HF_WHY_MAX, "its rows cannot be counted: %.100s", contents->why.why);
        return HF_FSCK_WRONG_ROWS;
    }
    if (contents->counted && contents->rows != name->rows) {
        snprintf(why, HF_WHY_MAX, "it has %llu rows, expected %llu",
                 (unsigned long long)contents->rows, (unsigned long long)name->rows);
        return HF_FSCK_WRONG_ROWS;
    }
    return FINE;
}

/* Quarantines the chunk, so that no worker tries to merge it. */
static struct fsck_repair quarantine_chunk(struct fsck *fsck, enum hf_fsck_kind kind,
                                           struct view key, const struct fsck_place *place,
                                           const char *why)
{
    if (place->quarantined)
        return fsck_advice(
            kind == HF_FSCK_REWRITTEN
                ? "is quarantined: add the new version with 'holdfast compact adopt', and give "
                  "up this one with 'holdfast compact quarantine --discard'"
                : "is quarantined: restore the object from a copy and release the chunk with "
                  "'holdfast compact quarantine --release', or give it up with 'holdfast "
                  "compact "
                  "quarantine --discard'");
    if (kind == HF_FSCK_UNREADABLE_OBJECT)
        return fsck_advice("check again later: the store may have failed");
    if (!fsck->options->repair)
        return fsck_advice("can be quarantined with " FSCK_BY_REPAIR
                           ", so that the other chunks are merged without it");
    char reason[REASON_BYTES_MAX];
    struct hf_error error;
    snprintf(reason, sizeof reason, "fsck: %s%s%.150s", hf_fsck_kind_name(kind),
             *why ? ": " : "", why);
    for (char *c = reason; *c; c++) /* truncation may have split a character */
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    struct catalog_op op = {
        .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = view_of(reason)
    };
    if (fsck_apply(fsck, view_of(place->partition), &op, &error) != HF_OK)
        return fsck_advice("could not be quarantined: check again later");
    return (struct fsck_repair){ "quarantined", .done = true };
}

/* Reports a bad object if the chunk is still live and unchanged. */
static enum hf_status report_chunk(struct fsck *fsck, enum hf_fsck_kind kind,
                                   const struct fsck_name *name, const char *why,
                                   struct hf_error *error)
{
    struct fsck_place place;
    enum hf_status status =
        fsck_follow(fsck, name->catalog->partition, name->key, &place, error);
    bool same = place.size == name->size && place.crc32c == name->crc32c &&
                place.rows == name->rows && place.rows_known == name->rows_known;
    if (status != HF_OK || place.hidden || place.state != CHUNK_LIVE || !same)
        return status;
    struct fsck_repair repair = quarantine_chunk(fsck, kind, name->key, &place, why);
    fsck_report_finding(fsck, kind, name->key, view_of(place.partition),
                        *why ? why : hf_fsck_kind_text(kind), repair);
    return HF_OK;
}

/* ---- One chunk ----------------------------------------------------------------------- */

/* Checks the object's listing entry, without reading the object. */
static enum hf_status look_at_object(struct fsck *fsck, const struct fsck_name *name,
                                     enum hf_fsck_kind *ret_kind, char why[HF_WHY_MAX],
                                     struct hf_error *error)
{
    struct object_info info;
    bool there;
    const struct chunk chunk = chunk_of(name);
    enum hf_status status = fsck_object(fsck, chunk_object_key(&chunk), &there, &info, error);
    if (status != HF_OK)
        return status;
    bool rewritten =
        there && chunk_is_adopted(&chunk) && !view_equal(etag_view(&info.etag), chunk.etag);
    struct contents contents = {
        .status = rewritten ? HF_CONFLICT
                  : there   ? HF_OK
                            : HF_NOT_FOUND,
        .size = there ? info.size : 0,
        .crc32c = name->crc32c,
    };
    *ret_kind = compare_contents(&contents, name, why);
    return HF_OK;
}

/* Checks the contents. If they differ from the catalog, reads them again. */
static enum hf_status look_inside(struct fsck *fsck, const struct fsck_name *name,
                                  enum hf_fsck_kind *ret_kind, char why[HF_WHY_MAX],
                                  struct hf_error *error)
{
    struct contents contents;
    for (int i = 0; i < 2; i++) {
        enum hf_status status = examine_object(fsck, name, &contents, error);
        if (status != HF_OK)
            return status;
        *ret_kind = compare_contents(&contents, name, why);
        if (*ret_kind == FINE)
            break;
    }
    if (contents.counted)
        fsck->report->rows += contents.rows;
    return HF_OK;
}

static enum hf_status check_live(struct fsck *fsck, const struct fsck_name *name,
                                 struct hf_error *error)
{
    char why[HF_WHY_MAX] = "";
    enum hf_fsck_kind kind = FINE;
    enum hf_status status = fsck_go_on(fsck, error);
    if (status == HF_OK && (!name->seen || name->found_size != name->size))
        status = look_at_object(fsck, name, &kind, why, error);
    if (status == HF_OK && kind == FINE && !fsck->options->shallow)
        status = look_inside(fsck, name, &kind, why, error);
    if (status == HF_OK && kind != FINE)
        status = report_chunk(fsck, kind, name, why, error);
    fsck->chunks_done++;
    return status;
}

static enum hf_status check_tombstone(struct fsck *fsck, const struct fsck_name *name,
                                      struct hf_error *error)
{
    struct fsck_place place;
    bool there;
    enum hf_status status = fsck_object(fsck, name->key, &there, NULL, error);
    if (status != HF_OK || there)
        return status;
    status = fsck_follow(fsck, name->catalog->partition, name->key, &place, error);
    if (status == HF_OK && !place.hidden && place.state == CHUNK_TOMBSTONE)
        fsck_report_finding(fsck, HF_FSCK_MISSING_TOMBSTONE, name->key,
                            view_of(place.partition),
                            "it was deleted before its grace period ended",
                            fsck_advice("no data is lost, but the merge cannot be undone"));
    return status;
}

enum hf_status fsck_chunks(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < fsck->name_count; i++) {
        const struct fsck_name *name = &fsck->names[i];
        bool again = i > 0 && view_equal(name->key, fsck->names[i - 1].key);
        if (name->state == CHUNK_LIVE && !again)
            status = check_live(fsck, name, error);
        else if (name->state == CHUNK_TOMBSTONE && !again && !name->seen &&
                 name->object.size == 0) /* others may delete what was adopted and merged */
            status = check_tombstone(fsck, name, error);
        if (status != HF_OK)
            return status;
    }
    return fsck_go_on(fsck, error);
}
