/* jobs.c: the document of what became of the last jobs. Each record keeps its bytes as they stand,
 * so that members that we do not know survive; what cannot be read is dropped, a document that
 * cannot be read begins anew. It is statistics: nothing is decided by it. */
#include "compact/jobs.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>

#define JOBS_BYTES_MAX   (4 * MIB)
#define RECORD_BYTES_MAX (4 * KIB)
#define WORKER_LABEL_MAX ((size_t)256)

/* It is not worth waiting for longer. */
#define JOBS_PATIENCE SPAN_S(2)

/* ---- One record ---------------------------------------------------------------------- */

static void write_text(struct buffer *text, const char *name, struct view value, size_t max)
{
    buffer_print(text, ",\"%s\":", name);
    json_write_string(text, view_first(value, max));
}

static void write_number(struct buffer *text, const char *name, uint64_t value)
{
    if (value > 0)
        buffer_print(text, ",\"%s\":%" PRIu64, name, value);
}

static bool record_encode(const struct job_record *record, struct buffer *text)
{
    char ended[STAMP_TEXT_MAX];
    buffer_append(text, VIEW("{\"id\":"));
    json_write_string(text, view_first(record->id, KEY_BYTES_MAX));
    write_text(text, "worker", record->worker, WORKER_LABEL_MAX);
    write_text(text, "end", record->end, 32);
    if (record->why.size > 0)
        write_text(text, "why", record->why, HF_WHY_MAX);
    buffer_print(text, ",\"level\":%u", record->level);
    write_number(text, "sources", record->sources);
    write_number(text, "bytes_in", record->bytes_in);
    write_number(text, "bytes_out", record->bytes_out);
    write_number(text, "rows_in", record->rows_in);
    write_number(text, "rows_out", record->rows_out);
    write_number(text, "rows_superseded", record->rows_superseded);
    write_number(text, "rows_expired", record->rows_expired);
    write_number(text, "rows_rejected", record->rows_rejected);
    buffer_print(text, ",\"took_ms\":%" PRId64 ",\"ended\":\"%s\",\"ended_ms\":%" PRId64 "}",
                 record->took_ms, stamp_text(record->ended, ended), record->ended_at.us / 1000);
    return !text->failed;
}

/* Numbers by name. */
struct number {
    const char *name;
    uint64_t *value;
};

static bool take_number(struct json_reader *reader, struct view name,
                        const struct number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (view_equal(name, view_of(numbers[i].name)))
            return json_take_u64(reader, UINT64_MAX, numbers[i].value), true;
    return false;
}

/* Texts of the record are views of `raw`, or of `space`, which has room for all of it. */
static bool record_decode(struct view raw, struct buffer *space, struct job_record *ret_record)
{
    struct job_record record = { .level = 0 };
    uint64_t level = 0;
    int64_t ended_ms = 0;
    struct view name, skipped, ended = VIEW("");
    const struct number numbers[] = {
        { "level", &level },
        { "sources", &record.sources },
        { "bytes_in", &record.bytes_in },
        { "bytes_out", &record.bytes_out },
        { "rows_in", &record.rows_in },
        { "rows_out", &record.rows_out },
        { "rows_superseded", &record.rows_superseded },
        { "rows_expired", &record.rows_expired },
        { "rows_rejected", &record.rows_rejected },
    };
    struct json_reader reader = json_read(raw);
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (take_number(&reader, name, numbers, sizeof numbers / sizeof *numbers))
            continue;
        if (view_equal(name, VIEW("id")))
            json_take_text(&reader, space, &record.id);
        else if (view_equal(name, VIEW("worker")))
            json_take_text(&reader, space, &record.worker);
        else if (view_equal(name, VIEW("end")))
            json_take_text(&reader, space, &record.end);
        else if (view_equal(name, VIEW("why")))
            json_take_text(&reader, space, &record.why);
        else if (view_equal(name, VIEW("took_ms")))
            json_take_i64(&reader, &record.took_ms);
        else if (view_equal(name, VIEW("ended")))
            json_take_plain(&reader, &ended);
        else if (view_equal(name, VIEW("ended_ms")))
            json_take_i64(&reader, &ended_ms);
        else
            json_skip(&reader, &skipped);
    }
    if (!json_end(&reader) || !stamp_parse(ended, &record.ended) || level > UINT32_MAX ||
        ended_ms > INT64_MAX / 1000 || ended_ms < INT64_MIN / 1000)
        return false;
    record.level = (unsigned)level;
    record.ended_at = (struct wall_time){ ended_ms * 1000 };
    *ret_record = record;
    return true;
}

/* ---- The document -------------------------------------------------------------------- */

/* What is known of a record: its bytes, and what decides for how long it is kept. */
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
    size_t noted; /* since the arena was begun */
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

/* Appends one; the first goes when there are too many. */
static void keep(struct jobs *jobs, const struct kept *kept)
{
    if (jobs->count == JOBS_KEPT_MAX)
        memmove(jobs->kept, jobs->kept + 1, --jobs->count * sizeof *jobs->kept);
    jobs->kept[jobs->count++] = *kept;
}

/* A record of a document; one that cannot be read is left out. False without memory. */
static bool keep_raw(struct jobs *jobs, struct view raw)
{
    struct buffer space = BUFFER_INIT(RECORD_BYTES_MAX);
    struct job_record record;
    if (raw.size > RECORD_BYTES_MAX)
        return true;
    if (!buffer_reserve(&space, raw.size))
        return false;
    bool fine = true;
    if (record_decode(raw, &space, &record)) {
        struct kept kept = { .raw = raw,
                             .id = arena_copy(&jobs->arena, record.id),
                             .ended = record.ended,
                             .ended_at = record.ended_at };
        fine = kept.id.data != NULL;
        if (fine)
            keep(jobs, &kept);
    }
    buffer_release(&space);
    return fine;
}

/* Reads what can be read: *ret_later when it is of a version that we do not know. False without
 * memory. */
static bool read_all(struct jobs *jobs, struct view text, bool *ret_later)
{
    struct json_reader reader = json_read(text);
    struct view name, raw, format = VIEW("");
    bool fine = true;
    for (json_enter_object(&reader); fine && json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format"))) {
            json_take_plain(&reader, &format);
        } else if (view_equal(name, VIEW("jobs"))) {
            for (json_enter_array(&reader); fine && json_next_element(&reader);)
                fine = !json_skip(&reader, &raw) || keep_raw(jobs, raw);
        } else {
            json_skip(&reader, &raw);
        }
    }
    bool whole = fine && json_end(&reader);
    bool ours = view_equal(format, VIEW(LAYOUT_JOBS_FORMAT));
    *ret_later = !ours && view_starts_with(format, VIEW("holdfast.jobs/"));
    if (!whole || !ours)
        jobs->count = 0;
    return fine;
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
    if (!text.data || !read_all(jobs, text, &later))
        status = error_no_memory(error);
    else if (later)
        status = error_set(error, HF_UNSUPPORTED,
                           "the document of jobs is of a later version of holdfast");
    if (status == HF_OK)
        *ret_body = jobs;
    else if (jobs)
        jobs_free(jobs);
    return status;
}

static enum hf_status jobs_birth(void *context, struct view key, struct mono_time deadline,
                                 void **ret_body, struct etag *ret_etag, struct hf_error *error)
{
    (void)context;
    (void)key;
    (void)deadline;
    (void)ret_etag;
    struct jobs *jobs = jobs_new();
    if (!jobs)
        return error_no_memory(error);
    *ret_body = jobs;
    return HF_OK;
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
    return buffer_append(text, VIEW("\n] }\n"));
}

static const struct doc_type jobs_type = {
    .bytes_max = JOBS_BYTES_MAX,
    .decode = jobs_decode,
    .birth = jobs_birth,
    .encode = jobs_encode,
    .free = jobs_free,
};

static_assert(JOBS_KEPT_MAX * RECORD_BYTES_MAX < JOBS_BYTES_MAX,
              "what we write must be short enough to be read again");

/* The document of a shelf, made when it is first used. */
static enum hf_status jobs_doc(struct shelf *shelf, struct doc **ret_doc,
                               struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    enum hf_status status = HF_OK;
    layout_partition_key(view_of(shelf->partition), LAYOUT_JOBS, key);
    env_mutex_lock(&shelf->mutex);
    if (!shelf->jobs)
        status = doc_new(shelf->store, &shelf->client->clock, view_of(key), &jobs_type, NULL,
                         &shelf->jobs, error);
    *ret_doc = shelf->jobs;
    env_mutex_unlock(&shelf->mutex);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------- */

/* A body that stays warm must not grow with each record that comes and goes: what is kept moves to
 * an arena of its own now and then. Without memory it does so later. */
static void move_to_new_arena(struct jobs *jobs)
{
    struct jobs *fresh = jobs_new();
    bool fine = fresh != NULL;
    for (size_t i = 0; i < jobs->count && fine; i++) {
        struct kept kept = jobs->kept[i];
        kept.raw = arena_copy(&fresh->arena, kept.raw);
        kept.id = arena_copy(&fresh->arena, kept.id);
        fine = kept.raw.data && kept.id.data;
        if (fine)
            keep(fresh, &kept);
    }
    if (fine) {
        struct jobs old = *jobs;
        *jobs = *fresh;
        *fresh = old;
    }
    if (fresh)
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

static void drop_old(struct jobs *jobs, const struct evidence *evidence)
{
    size_t kept = 0;
    for (size_t i = 0; i < jobs->count; i++)
        if (!is_old(&jobs->kept[i], evidence))
            jobs->kept[kept++] = jobs->kept[i];
    jobs->count = kept;
}

/* Whether an earlier attempt has written it. */
static bool is_there(const struct jobs *jobs, struct view id)
{
    for (size_t i = 0; id.size > 0 && i < jobs->count; i++)
        if (view_equal(jobs->kept[i].id, id))
            return true;
    return false;
}

static enum hf_status apply_note(struct doc_op *op, void *body, const struct evidence *evidence)
{
    struct jobs *jobs = body;
    struct job_record record = *((struct note_op *)(void *)op)->record;
    if (is_there(jobs, record.id))
        return HF_OK;
    if (record.ended.clock == 0)
        record.ended = stamp_now(evidence);
    if (record.ended_at.us == 0)
        record.ended_at = evidence->wall;
    struct buffer text = BUFFER_INIT(RECORD_BYTES_MAX);
    struct kept kept = { .ended = record.ended, .ended_at = record.ended_at };
    bool encoded = record_encode(&record, &text);
    if (encoded) {
        kept.raw = arena_copy(&jobs->arena, buffer_view(&text));
        kept.id = arena_copy(&jobs->arena, record.id);
    }
    buffer_release(&text);
    if (!encoded || !kept.raw.data || !kept.id.data)
        return error_no_memory(&op->error);
    drop_old(jobs, evidence);
    keep(jobs, &kept);
    if (++jobs->noted >= JOBS_KEPT_MAX)
        move_to_new_arena(jobs);
    op->changed = true;
    op->quiet = true;
    return HF_OK;
}

/* Puts an empty document in the place of one that is too long to be read. */
static bool begin_anew(struct shelf *shelf, struct view key)
{
    char nonce[NONCE_SIZE + 1];
    struct buffer text = BUFFER_INIT(RECORD_BYTES_MAX);
    const struct jobs none = { .count = 0 };
    env_random_hex(shelf->env, NONCE_SIZE, nonce);
    bool fine = jobs_encode(&none, view_of(nonce), &text);
    struct put_call put = { .key = key, .body = buffer_view(&text) };
    fine = fine && store_put(shelf->store, &put) == HF_OK;
    buffer_release(&text);
    return fine;
}

enum hf_status jobs_note(struct shelf *shelf, const struct job_record *record,
                         struct hf_error *error)
{
    struct doc *doc;
    enum hf_status status = jobs_doc(shelf, &doc, error);
    if (status != HF_OK)
        return status;
    struct note_op note = { .op = { .apply = apply_note }, .record = record };
    note.op.deadline = mono_add(env_now(shelf->env), JOBS_PATIENCE);
    status = doc_update(doc, &note.op);
    if (note.op.answer == DOC_DAMAGED && begin_anew(shelf, doc_key(doc)))
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

/* Decodes copies, so that the records outlive the document. */
static void copy_records(void *argument, const void *body, const struct evidence *evidence)
{
    struct reading *reading = argument;
    const struct jobs *jobs = body;
    reading->records = arena_take(reading->arena, (jobs->count + 1) * sizeof *reading->records);
    reading->failed = !reading->records;
    for (size_t i = 0; i < jobs->count && !reading->failed; i++) {
        struct view raw = arena_copy(reading->arena, jobs->kept[i].raw);
        char *room = arena_take(reading->arena, raw.size + 1);
        reading->failed = !raw.data || !room;
        struct buffer space = { .data = room, .capacity = raw.size + 1, .max = raw.size };
        if (!reading->failed && !is_old(&jobs->kept[i], evidence) &&
            record_decode(raw, &space, &reading->records[reading->count]))
            reading->count++;
    }
}

enum hf_status jobs_read(struct shelf *shelf, struct arena *arena,
                         struct job_record **ret_records, size_t *ret_count,
                         struct hf_error *error)
{
    struct doc *doc;
    struct reading reading = { .arena = arena };
    enum hf_status status = jobs_doc(shelf, &doc, error);
    if (status != HF_OK)
        return status;
    struct mono_time deadline = mono_add(env_now(shelf->env), REQUEST_TIME);
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
