/* fsck_chunks.c: each chunk that should be there: whether its object is, and whether its bytes
 * are what the catalog says. One object at a time goes through a file without a name. */
#include "base/hash.h"
#include "compact/fsck_inside.h"
#include "merge/new_file.h"
#include "merge/survey.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SCRATCH_DEFAULT "/tmp"

/* ---- Reading one object -------------------------------------------------------------- */

/* What is in it. */
struct contents {
    enum hf_status status; /* of reading it from the store */
    struct hf_error why;
    uint64_t size;
    uint32_t crc32c;
    bool counted, uncountable; /* its rows; why they cannot be is in `why` */
    uint64_t rows;
};

static bool keep_going(void *argument, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return fsck_go_on(argument, NULL) == HF_OK;
}

static enum hf_status checksum(int fd, struct contents *contents, struct hf_error *error)
{
    char *piece = malloc(STREAM_PIECE);
    ssize_t got;
    if (!piece)
        return error_no_memory(error);
    contents->size = 0;
    contents->crc32c = 0;
    do {
        do
            got = pread(fd, piece, STREAM_PIECE, (off_t)contents->size);
        while (got < 0 && errno == EINTR);
        if (got > 0) {
            contents->crc32c = crc32c(contents->crc32c, (struct view){ piece, (size_t)got });
            contents->size += (uint64_t)got;
        }
    } while (got > 0);
    free(piece);
    return got < 0 ? error_from_errno(error, errno, "read a scratch file") : HF_OK;
}

/* Counts its rows as a merge would. What is wrong with the bytes is a finding; what is wrong here
 * ends the run. */
static enum hf_status count_rows(struct fsck *fsck, const struct compact_settings *settings,
                                 int fd, struct contents *contents, struct hf_error *error)
{
    struct merge_options options = MERGE_OPTIONS;
    struct survey survey;
    char path[64];
    options.format = settings->format;
    options.key = settings->key;
    options.time = settings->time;
    options.headless = settings->headless;
    options.record_bytes_max = CHUNK_RECORD_MAX;
    options.record_max_is_fixed = true;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum hf_status status = merge_survey(fsck->env, &options, path, &survey, error);
    contents->counted = status == HF_OK && survey.rows_counted;
    if (contents->counted)
        contents->rows = survey.rows;
    if (status != HF_CORRUPT && status != HF_INVALID)
        return status;
    struct view why = view_of(error->why), at = view_of(path);
    if (view_starts_with(why, at)) /* nobody knows it by that name */
        why = view_from(why, at.size + 2);
    contents->uncountable = true;
    snprintf(contents->why.why, sizeof contents->why.why, "%.*s", VIEW_ARGS(why));
    return error_clear(error);
}

/* Fetches and looks through it. OK when that could be done, whatever came of it. */
static enum hf_status read_object(struct fsck *fsck, const struct fsck_name *name,
                                  struct contents *ret_contents, struct hf_error *error)
{
    const struct compact_settings *settings = &name->catalog->settings;
    const char *folder = fsck->options->scratch ? fsck->options->scratch : SCRATCH_DEFAULT;
    struct progress progress = { keep_going, fsck };
    struct get_call get = { .key = name->key };
    *ret_contents = (struct contents){ 0 };
    int fd = nameless_file(folder);
    if (fd < 0) {
        error_from_errno(error, errno, "make a scratch file");
        error_about(error, folder);
        return error->status;
    }
    enum hf_status status = HF_OK;
    ret_contents->status = store_get_file(fsck->store, &get, fd, &progress);
    ret_contents->why = get.error;
    if (ret_contents->status == HF_CANCELLED)
        status = error_set(error, HF_CANCELLED, "stopped");
    else if (ret_contents->status == HF_OK)
        status = checksum(fd, ret_contents, error);
    fsck->report->bytes_read += ret_contents->size;
    bool whole = ret_contents->size == name->size && ret_contents->crc32c == name->crc32c;
    if (status == HF_OK && ret_contents->status == HF_OK && whole && name->rows_known)
        status = count_rows(fsck, settings, fd, ret_contents, error);
    close(fd);
    return status;
}

/* ---- What is wrong with it ----------------------------------------------------------- */

#define FINE FSCK_KIND_COUNT

static enum fsck_kind judge(const struct contents *contents, const struct fsck_name *name,
                            char why[HF_WHY_MAX])
{
    why[0] = '\0';
    if (contents->status == HF_NOT_FOUND)
        return FSCK_MISSING_OBJECT;
    if (contents->status != HF_OK) {
        snprintf(why, HF_WHY_MAX, "%s", contents->why.why);
        return FSCK_UNREADABLE_OBJECT;
    }
    if (contents->size != name->size) {
        snprintf(why, HF_WHY_MAX, "it has %llu bytes and should have %llu",
                 (unsigned long long)contents->size, (unsigned long long)name->size);
        return FSCK_WRONG_SIZE;
    }
    if (contents->crc32c != name->crc32c) {
        snprintf(why, HF_WHY_MAX, "its checksum is %08x and should be %08x", contents->crc32c,
                 name->crc32c);
        return FSCK_WRONG_CHECKSUM;
    }
    if (contents->uncountable) {
        snprintf(why, HF_WHY_MAX, "its rows cannot be counted: %.100s", contents->why.why);
        return FSCK_WRONG_ROWS;
    }
    if (contents->counted && contents->rows != name->rows) {
        snprintf(why, HF_WHY_MAX, "it has %llu rows and should have %llu",
                 (unsigned long long)contents->rows, (unsigned long long)name->rows);
        return FSCK_WRONG_ROWS;
    }
    return FINE;
}

/* Keeps others from merging it. */
static const char *quarantine(struct fsck *fsck, enum fsck_kind kind, struct view key,
                              const struct fsck_place *place, const char *why, bool *ret_done)
{
    *ret_done = false;
    if (place->quarantined)
        return "is quarantined: put the object back from a copy and release it, or let it "
               "expire";
    if (kind == FSCK_UNREADABLE_OBJECT)
        return "look again later: it may be the store";
    if (!fsck->options->repair)
        return "can be quarantined, so that the rest goes on without it";
    char reason[REASON_BYTES_MAX];
    struct hf_error error;
    snprintf(reason, sizeof reason, "fsck: %s%s%.150s", fsck_kind_name(kind), *why ? ": " : "",
             why);
    for (char *c = reason; *c; c++) /* it was cut, maybe within a letter */
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    struct catalog_op op = {
        .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = view_of(reason)
    };
    *ret_done = fsck_apply(fsck, view_of(place->partition), &op, &error) == HF_OK;
    return *ret_done ? "quarantined" : "could not be quarantined: look again later";
}

/* The object is not as it should be. If the chunk is still live, and the same, that is told. */
static enum hf_status tell_chunk(struct fsck *fsck, enum fsck_kind kind,
                                 const struct fsck_name *name, const char *why,
                                 struct hf_error *error)
{
    struct fsck_place place;
    bool repaired;
    enum hf_status status =
        fsck_follow(fsck, name->catalog->partition, name->key, &place, error);
    bool same = place.size == name->size && place.crc32c == name->crc32c &&
                place.rows == name->rows && place.rows_known == name->rows_known;
    if (status != HF_OK || place.hidden || place.state != CHUNK_LIVE || !same)
        return status;
    const char *repair = quarantine(fsck, kind, name->key, &place, why, &repaired);
    fsck_tell(fsck, kind, name->key, view_of(place.partition),
              *why ? why : fsck_kind_about(kind), repaired, repair);
    return HF_OK;
}

/* ---- One chunk ----------------------------------------------------------------------- */

/* By what the store says of it, without reading. */
static enum hf_status look_at_object(struct fsck *fsck, const struct fsck_name *name,
                                     enum fsck_kind *ret_kind, char why[HF_WHY_MAX],
                                     struct hf_error *error)
{
    struct object_info info;
    bool there;
    enum hf_status status = fsck_object(fsck, name->key, &there, &info, error);
    if (status != HF_OK)
        return status;
    struct contents contents = {
        .status = there ? HF_OK : HF_NOT_FOUND,
        .size = there ? info.size : 0,
        .crc32c = name->crc32c,
    };
    *ret_kind = judge(&contents, name, why);
    return HF_OK;
}

/* By its bytes, which are read once more when they are not as they should be. */
static enum hf_status look_inside(struct fsck *fsck, const struct fsck_name *name,
                                  enum fsck_kind *ret_kind, char why[HF_WHY_MAX],
                                  struct hf_error *error)
{
    struct contents contents;
    enum hf_status status = HF_OK;
    *ret_kind = FSCK_UNREADABLE_OBJECT;
    for (int i = 0; i < 2 && *ret_kind != FINE && status == HF_OK; i++) {
        status = read_object(fsck, name, &contents, error);
        if (status == HF_OK)
            *ret_kind = judge(&contents, name, why);
    }
    if (status == HF_OK && contents.counted)
        fsck->report->rows += contents.rows;
    return status;
}

static enum hf_status check_live(struct fsck *fsck, const struct fsck_name *name,
                                 struct hf_error *error)
{
    char why[HF_WHY_MAX] = "";
    enum fsck_kind kind = FINE;
    enum hf_status status = fsck_go_on(fsck, error);
    if (status == HF_OK && (!name->seen || name->found_size != name->size))
        status = look_at_object(fsck, name, &kind, why, error);
    if (status == HF_OK && kind == FINE && !fsck->options->shallow)
        status = look_inside(fsck, name, &kind, why, error);
    if (status == HF_OK && kind != FINE)
        status = tell_chunk(fsck, kind, name, why, error);
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
        fsck_tell(fsck, FSCK_MISSING_TOMBSTONE, name->key, view_of(place.partition),
                  "nobody was to delete it yet", false,
                  "nothing is lost, but the merge that it went into cannot be undone");
    return status;
}

enum hf_status fsck_chunks(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < fsck->name_count && status == HF_OK; i++) {
        const struct fsck_name *name = &fsck->names[i];
        bool again = i > 0 && view_equal(name->key, fsck->names[i - 1].key);
        if (name->state == CHUNK_LIVE && !again)
            status = check_live(fsck, name, error);
        else if (name->state == CHUNK_TOMBSTONE && !again && !name->seen)
            status = check_tombstone(fsck, name, error);
    }
    return status == HF_OK ? fsck_go_on(fsck, error) : status;
}
