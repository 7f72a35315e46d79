/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c: the document with the outcomes of recent jobs. It contains only statistics, so an
 * unreadable record is dropped, and an unreadable document is replaced by an empty one. The bytes
 * of each record are kept, so members that this version does not know are preserved. */
#include "compact/work/jobs.h"

#include "base/members.h"

#include <inttypes.h>
#include <stdlib.h>

#define JOBS_BYTES_MAX    (4 * MIB)
#define RECORD_BYTES_MAX  (4 * KIB)
#define UNKNOWN_BYTES_MAX (64 * KIB)
#define WORKER_LABEL_MAX  ((size_t)256)
#define END_BYTES_MAX     ((size_t)32)

/* A record is not worth waiting any longer. */
#define JOBS_PATIENCE SPAN_S(2)

/* ---- One record ---------------------------------------------------------------------- */

/* A string is shortened before it is written, and replacement characters make it longer again, so
 * reading has no limit but that of the record. */
#define TEXT(member, when) \
    MEMBER(job_record, #member, MEMBER_TEXT, member, RECORD_BYTES_MAX, when)
#define COUNT(member) \
    MEMBER(job_record, #member, MEMBER_U64, member, UINT64_MAX, MEMBER_OPTIONAL)

static const struct member record_members[] = {
    TEXT(id, MEMBER_ALWAYS),
    TEXT(worker, MEMBER_ALWAYS),
    TEXT(end, MEMBER_ALWAYS),
    TEXT(why, MEMBER_OPTIONAL),
    MEMBER(job_record, "level", MEMBER_U32, level, UINT32_MAX, MEMBER_ALWAYS),
    COUNT(sources),
    COUNT(bytes_in),
    COUNT(bytes_out),
    COUNT(rows_in),
    COUNT(rows_out),
    COUNT(rows_superseded),
    COUNT(rows_expired),
    COUNT(rows_rejected),
    COUNT(rows_deleted),
    MEMBER(job_record, "took_ms", MEMBER_I64, took_ms, INT64_MAX, MEMBER_ALWAYS),
    MEMBER(job_record, "ended", MEMBER_STAMP, ended, 0, MEMBER_NEEDED),
    MEMBER(job_record, "ended_ms", MEMBER_MS, ended_at.us, INT64_MAX / 1000, MEMBER_ALWAYS),
};
static const struct member_table record_table =
    MEMBER_TABLE(record_members, "a record without the time of its end");

static bool job_record_encode(const struct job_record *record, struct buffer *text)
{
    struct job_record shortened = *record;
    shortened.id = view_first(record->id, KEY_BYTES_MAX);
    shortened.worker = view_first(record->worker, WORKER_LABEL_MAX);
    shortened.end = view_first(record->end, END_BYTES_MAX);
    shortened.why = view_first(record->why, HF_WHY_MAX);
    members_write(&record_table, &shortened, '{', text);
    return buffer_append_byte(text, '}');
}

/* The record's strings point into `raw`, or into `space`, which has room for all of them. */
static bool job_record_decode(struct view raw, struct buffer *space,
                              struct job_record *ret_record)
{
    struct job_record record = { .level = 0 };
    struct json_reader json = json_read(raw);
    struct member_reader reader = { &json, space, NULL, NULL };
    if (!members_read(&reader, &record_table, &record) || !json_end(&json))
        return false;
    *ret_record = record;
    return true;
}

/* ---- The document -------------------------------------------------------------------- */

/* A kept record: its bytes, its id, and the times that determine how long it is kept. */
struct kept {
    struct view raw;
    struct view id;
    struct stamp ended;
    struct wall_time ended_at;
};

struct jobs {
    struct arena arena;
    struct kept *kept; /* oldest first, at most JOBS_KEPT_MAX */
    size_t count;
    size_t noted;        /* records added since the arena was created */
    struct view unknown; /* members that this version does not know */
};

static void jobs_free(void *argument)
{
    struct jobs *jobs = argument;
    arena_release(&jobs->arena);
    free(jobs);
}

static struct jobs *jobs_new(void)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs)
        jobs->kept = arena_take(&jobs->arena, JOBS_KEPT_MAX * sizeof *jobs->kept);
    if (jobs && !jobs->kept) {
        jobs_free(jobs);
        return NULL;
    }
    return jobs;
}

/* Appends a record; drops the oldest one if there are too many. */
static void append_record(struct jobs *jobs, const struct kept *kept)
{
    if (jobs->count == JOBS_KEPT_MAX)
        memmove(jobs->kept, jobs->kept + 1, --jobs->count * sizeof *jobs->kept);
    jobs->kept[jobs->count++] = *kept;
}

/* Keeps a record from the document; an unreadable one is skipped. False if out of memory. */
static bool keep_raw(struct jobs *jobs, struct view raw)
{
    struct buffer space = BUFFER_INIT(RECORD_BYTES_MAX);
    struct job_record record;
    if (raw.size > RECORD_BYTES_MAX)
        return true;
    if (!buffer_reserve(&space, raw.size))
        return false;
    bool fine = true;
    if (job_record_decode(raw, &space, &record)) {
        struct kept kept = { .raw = raw,
                             .id = arena_copy(&jobs->arena, record.id),
                             .ended = record.ended,
                             .ended_at = record.ended_at };
        fine = kept.id.data != NULL;
        if (fine)
            append_record(jobs, &kept);
    }
    buffer_release(&space);
    return fine;
}

/* Reads the records that can be read. *ret_later: the document has an unknown version. False
 * if out of memory. */
static bool read_records(struct jobs *jobs, struct view text, bool *ret_later)
{
    struct json_reader reader = json_read(text);
    struct view name, raw, format = VIEW("");
    struct buffer unknown = BUFFER_INIT(UNKNOWN_BYTES_MAX);
    bool fine = true;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format"))) {
            json_take_plain(&reader, &format);
        } else if (view_equal(name, VIEW("jobs"))) {
            for (json_enter_array(&reader); json_next_element(&reader);)
                fine = !json_skip(&reader, &raw) || (fine && keep_raw(jobs, raw));
        } else if (view_equal(name, VIEW("write"))) {
            json_skip(&reader, &raw);
        } else {
            json_keep_member(&reader, name, &unknown);
        }
    }
    bool ours = view_equal(format, VIEW(LAYOUT_JOBS_FORMAT));
    *ret_later = !ours && view_starts_with(format, VIEW("holdfast.jobs/"));
    if (json_end(&reader) && ours)
        jobs->unknown = arena_copy(&jobs->arena, buffer_view(&unknown));
    else
        jobs->count = 0;
    buffer_release(&unknown);
    return fine && (jobs->unknown.data || jobs->count == 0);
}

static enum hf_status jobs_decode(struct view bytes, struct mono_time arrived,
                                  const void *previous, void **ret_body, struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    struct jobs *jobs = jobs_new();
    bool later = false;
    struct view text = jobs ? arena_copy(&jobs->arena, bytes) : (struct view){ NULL, 0 };
    enum hf_status status = HF_OK;
    if (!text.data || !read_records(jobs, text, &later))
        status = error_no_memory(error);
    else if (later)
        status = error_set(error, HF_UNSUPPORTED,
                           "the jobs document was written by a newer version of holdfast");
    if (status == HF_OK)
        *ret_body = jobs;
    else if (jobs)
        jobs_free(jobs);
    return status;
}

static void *jobs_birth(void *context)
{
    (void)context;
    return jobs_new();
}

static bool jobs_encode(const void *argument, struct view nonce, struct buffer *text)
{
    const struct jobs *jobs = argument;
    buffer_print(text, "{ \"format\": \"%s\", \"write\": \"%.*s\", \"jobs\": [",
                 LAYOUT_JOBS_FORMAT, VIEW_ARGS(nonce));
    for (size_t i = 0; i < jobs->count; i++) {
        buffer_append(text, i > 0 ? VIEW(",\n") : VIEW("\n"));
        buffer_append(text, jobs->kept[i].raw);
    }
    buffer_append(text, VIEW("\n]"));
    buffer_append(text, jobs->unknown);
    return buffer_append(text, VIEW(" }\n"));
}

static const struct doc_type jobs_type = {
    .bytes_max = JOBS_BYTES_MAX,
    .decode = jobs_decode,
    .birth = jobs_birth,
    .encode = jobs_encode,
    .free = jobs_free,
};

static_assert(JOBS_KEPT_MAX * RECORD_BYTES_MAX + UNKNOWN_BYTES_MAX < JOBS_BYTES_MAX,
              "what we write must be short enough to be read again");

/* The jobs document of a catalog tree, opened on first use. */
static enum hf_status jobs_doc(struct catalog_tree *tree, struct doc **ret_doc,
                               struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    enum hf_status status = HF_OK;
    layout_partition_key(view_of(tree->partition), LAYOUT_JOBS, key);
    env_mutex_lock(&tree->mutex);
    if (!tree->jobs)
        status = doc_new(tree->store, client_clock(tree->client), view_of(key), &jobs_type,
                         NULL, &tree->jobs, error);
    *ret_doc = tree->jobs;
    env_mutex_unlock(&tree->mutex);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------- */

/* The cached body must not grow with every record that is added and dropped, so the kept records
 * are copied to a new arena from time to time. If there is no memory for it, this happens later. */
static void move_to_new_arena(struct jobs *jobs)
{
    struct jobs *fresh = jobs_new();
    if (!fresh)
        return;
    for (size_t i = 0; i < jobs->count; i++) {
        struct kept kept = jobs->kept[i];
        kept.raw = arena_copy(&fresh->arena, kept.raw);
        kept.id = arena_copy(&fresh->arena, kept.id);
        if (!kept.raw.data || !kept.id.data) {
            jobs_free(fresh);
            return;
        }
        append_record(fresh, &kept);
    }
    fresh->unknown = arena_copy(&fresh->arena, jobs->unknown);
    if (!fresh->unknown.data) {
        jobs_free(fresh);
        return;
    }
    struct jobs old = *jobs;
    *jobs = *fresh;
    *fresh = old;
    jobs_free(fresh);
}

struct note_op {
    struct doc_op op;
    const struct job_record *record;
};

static bool is_old(const struct kept *kept, const struct evidence *evidence)
{
    if (stamp_is_readable(kept->ended, evidence))
        return stamp_age(kept->ended, SPAN_S(0), evidence).us > JOBS_KEPT_FOR.us;
    return wall_since(evidence->wall, kept->ended_at).us > JOBS_KEPT_FOR.us;
}

static enum hf_status apply_note(struct doc_op *op, void *body, const struct evidence *evidence)
{
    struct jobs *jobs = body;
    struct job_record record = *((struct note_op *)(void *)op)->record;
    /* An earlier attempt, or another client that settled the same lease, has added this record. */
    for (size_t i = 0; i < jobs->count; i++)
        if (record.id.size > 0 && view_equal(jobs->kept[i].id, record.id))
            return HF_OK;
    if (record.ended.clock == 0)
        record.ended = stamp_now(evidence);
    if (record.ended_at.us == 0)
        record.ended_at = evidence->wall;
    struct buffer text = BUFFER_INIT(RECORD_BYTES_MAX);
    struct kept kept = { .ended = record.ended, .ended_at = record.ended_at };
    bool encoded = job_record_encode(&record, &text);
    if (encoded) {
        kept.raw = arena_copy(&jobs->arena, buffer_view(&text));
        kept.id = arena_copy(&jobs->arena, record.id);
    }
    buffer_release(&text);
    if (!encoded || !kept.raw.data || !kept.id.data)
        return error_no_memory(&op->error);
    size_t young = 0;
    for (size_t i = 0; i < jobs->count; i++)
        if (!is_old(&jobs->kept[i], evidence))
            jobs->kept[young++] = jobs->kept[i];
    jobs->count = young;
    append_record(jobs, &kept);
    if (++jobs->noted >= JOBS_KEPT_MAX)
        move_to_new_arena(jobs);
    op->changed = true;
    op->quiet = true;
    return HF_OK;
}

/* Replaces a document that cannot be read with an empty one. */
static bool replace_unreadable(struct catalog_tree *tree, struct view key)
{
    char nonce[NONCE_SIZE + 1];
    struct buffer text = BUFFER_INIT(RECORD_BYTES_MAX);
    const struct jobs none = { .count = 0 };
    env_random_hex(tree->env, NONCE_SIZE, nonce);
    bool fine = jobs_encode(&none, view_of(nonce), &text);
    struct put_call put = { .key = key, .body = buffer_view(&text) };
    fine = fine && store_put(tree->store, &put) == HF_OK;
    buffer_release(&text);
    return fine;
}

enum hf_status jobs_note(struct catalog_tree *tree, const struct job_record *record,
                         struct hf_error *error)
{
    struct doc *doc;
    enum hf_status status = jobs_doc(tree, &doc, error);
    if (status != HF_OK)
        return status;
    struct note_op note = { .op = { .apply = apply_note }, .record = record };
    note.op.deadline = mono_add(env_now(tree->env), JOBS_PATIENCE);
    status = doc_update(doc, &note.op);
    if (note.op.answer == DOC_DAMAGED && replace_unreadable(tree, doc_key(doc)))
        status = doc_update(doc, &note.op);
    *error = note.op.error;
    return status;
}

/* ---- Reading ------------------------------------------------------------------------- */

struct reading {
    struct arena *arena;
    struct job_record *records;
    size_t count;
    bool failed;
};

/* Decodes copies, because the records outlive the document. */
static void copy_records(void *argument, const void *body, const struct evidence *evidence)
{
    struct reading *reading = argument;
    const struct jobs *jobs = body;
    reading->records = arena_take(reading->arena, (jobs->count + 1) * sizeof *reading->records);
    reading->failed = !reading->records;
    for (size_t i = 0; i < jobs->count; i++) {
        if (reading->failed)
            return;
        struct view raw = arena_copy(reading->arena, jobs->kept[i].raw);
        char *room = arena_take(reading->arena, raw.size + 1);
        reading->failed = !raw.data || !room;
        struct buffer space = { .data = room, .capacity = raw.size + 1, .max = raw.size };
        if (!reading->failed && !is_old(&jobs->kept[i], evidence) &&
            job_record_decode(raw, &space, &reading->records[reading->count]))
            reading->count++;
    }
}

enum hf_status jobs_read(struct catalog_tree *tree, struct arena *arena,
                         struct job_record **ret_records, size_t *ret_count,
                         struct hf_error *error)
{
    struct doc *doc;
    struct reading reading = { .arena = arena };
    enum hf_status status = jobs_doc(tree, &doc, error);
    if (status != HF_OK)
        return status;
    struct mono_time deadline = mono_add(env_now(tree->env), REQUEST_TIME);
    status = doc_look(doc, deadline, copy_records, &reading, error);
    if (status == HF_OK && reading.failed)
        return error_no_memory(error);
    if (status == HF_NOT_FOUND)
        status = error_clear(error);
    if (status == HF_OK) {
        *ret_records = reading.records;
        *ret_count = reading.count;
    }
    return status;
}
