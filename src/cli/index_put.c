/* index_put.c: `index create` and `index put`: one record, or all rows of a file, into the inbox or
 * straight into shards. */
#include "base/parse.h"
#include "cli/files.h"
#include "cli/index.h"
#include "cli/index_rows.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "index/compile.h"
#include "index/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Creating ------------------------------------------------------------------------ */

#define DIGITS_USUAL 2

/* The names of --fields. */
static enum hf_status take_fields(struct cli *cli, struct view *fields, size_t *ret_count)
{
    struct view rest = cli_option(cli, "fields")->text;
    size_t count = 0;
    if (rest.size == 0)
        return error_set(&cli->error, HF_INVALID, "an index needs fields: --fields a,b,c");
    for (bool more = true; more; count++) {
        if (count == INDEX_FIELDS_MAX)
            return error_set(&cli->error, HF_INVALID, "an index has up to %d fields",
                             INDEX_FIELDS_MAX);
        more = view_find(rest, ',') < rest.size;
        fields[count] = view_cut(&rest, ',');
        if (fields[count].size == 0)
            return error_set(&cli->error, HF_INVALID,
                             "--fields takes names with a comma between them, and name %zu is "
                             "empty",
                             count + 1);
    }
    *ret_count = count;
    return HF_OK;
}

static enum hf_status take_schema(struct cli *cli, struct schema *ret_schema)
{
    struct view fields[INDEX_FIELDS_MAX];
    size_t count = 0;
    const struct option_value *digits = cli_option(cli, "digits");
    enum hf_status status = take_fields(cli, fields, &count);
    if (status != HF_OK)
        return status;
    if (digits && (digits->number == 0 || digits->number > INDEX_DIGITS_MAX))
        return error_set(&cli->error, HF_INVALID, "--digits takes 1 to %d, not %.*s",
                         INDEX_DIGITS_MAX, VIEW_ARGS(view_first(digits->text, 40)));
    return schema_new(fields, count, cli_option(cli, "key")->text,
                      cli_option(cli, "time")->text,
                      digits ? (unsigned)digits->number : DIGITS_USUAL,
                      !cli_given(cli, "no-foreign"), ret_schema, &cli->error);
}

static void tell_made(struct cli *cli, enum index_made made, const struct schema *schema)
{
    static const char *const words[] = { [INDEX_CREATED] = "created",
                                         [INDEX_EXTENDED] = "extended",
                                         [INDEX_UNCHANGED] = "unchanged" };
    if (cli->json) {
        json_t *object = json_object();
        json_add_words(&object, "index", cli_argument(cli, 0));
        json_add(&object, "made", json_string(words[made]));
        json_add_count(&object, "version", schema->version_count);
        json_add_count(&object, "fields", schema->field_count);
        json_add_count(&object, "shards", shard_count(schema->digits));
        output_json(&cli->out, object);
        return;
    }
    if (cli->quiet)
        return;
    output_print(&cli->out, "%s index %s", words[made], cli->arguments[0]);
    if (made == INDEX_EXTENDED)
        output_print(&cli->out, " to version %zu", schema->version_count);
    output_text(&cli->out, ": ");
    output_count(&cli->out, schema->field_count, "field");
    output_text(&cli->out, ", ");
    output_count(&cli->out, shard_count(schema->digits), "shard");
    output_text(&cli->out, "\n");
}

/* What was left out is as in the index that is there, if there is one. */
static enum hf_status fill_in(struct cli *cli, struct schema *schema)
{
    struct index *index = NULL;
    enum hf_status status =
        index_open(cli->store, /* client */ NULL, cli_argument(cli, 0), &index, &cli->error);
    if (status == HF_NOT_FOUND)
        return error_clear(&cli->error);
    if (status != HF_OK)
        return status;
    if (!cli_given(cli, "digits"))
        schema->digits = index->schema.digits;
    if (!cli_given(cli, "no-foreign"))
        schema->foreign = index->schema.foreign;
    index_close(index);
    return HF_OK;
}

enum hf_status run_index_create(struct cli *cli)
{
    struct schema schema;
    enum index_made made;
    struct index_desk desk = { .cli = cli };
    enum hf_status status = take_schema(cli, &schema);
    if (status == HF_OK)
        status = cli_open_store(cli);
    if (status == HF_OK)
        status = fill_in(cli, &schema);
    if (status == HF_OK)
        status = index_create(cli->store, cli_argument(cli, 0), &schema, &made, &cli->error);
    if (status == HF_OK)
        status = index_open(cli->store, /* client */ NULL, cli_argument(cli, 0), &desk.index,
                            &cli->error);
    if (status == HF_OK)
        tell_made(cli, made, &desk.index->schema);
    index_desk_close(&desk);
    return status;
}

/* ---- One record ---------------------------------------------------------------------- */

/* Microseconds, since two records of one second are common. */
#define NOW_TEXT_MAX (TIME_TEXT_MAX + 4)
static const char *now_text(struct env *env, char text[NOW_TEXT_MAX])
{
    struct wall_time now = env_wall(env);
    char to_ms[TIME_TEXT_MAX];
    time_text(now, to_ms);
    snprintf(text, NOW_TEXT_MAX, "%.23s%03dZ", to_ms, (int)(now.us % 1000));
    return text;
}

/* Reads FIELD=VALUE for each argument behind the name. */
static enum hf_status take_values(struct index_desk *desk, struct view *values)
{
    struct cli *cli = desk->cli;
    for (size_t i = 1; i < cli->argument_count; i++) {
        size_t field;
        struct view value = cli_argument(cli, i), whole = value;
        struct view name = view_cut(&value, '=');
        if (name.size == whole.size)
            return error_set(&cli->error, HF_INVALID,
                             "a field is given as FIELD=VALUE, not as '%.*s'",
                             VIEW_ARGS(view_first(whole, 60)));
        enum hf_status status = index_field(&desk->index->schema, name, &field, &cli->error);
        if (status != HF_OK)
            return status;
        if (values[field].data)
            return error_set(&cli->error, HF_INVALID, "the field '%.*s' is given twice",
                             VIEW_ARGS(name));
        values[field] = value;
    }
    return HF_OK;
}

static void tell_one(struct cli *cli, const struct record *record)
{
    struct buffer key = BUFFER_INIT(8 * INDEX_KEY_BYTES_MAX);
    if (cli->json) {
        json_t *object = json_object();
        json_add_count(&object, "records", 1);
        json_add_count(&object, "refused", 0);
        output_json(&cli->out, object);
    } else if (!cli->quiet) {
        escape_append(&key, record->key);
        output_print(&cli->out, "put %.*s\n", VIEW_ARGS(buffer_view(&key)));
    }
    buffer_release(&key);
}

static enum hf_status put_one(struct index_desk *desk, struct buffer *bytes,
                              struct buffer *space)
{
    struct cli *cli = desk->cli;
    const struct schema *schema = &desk->index->schema;
    struct view values[INDEX_FIELDS_MAX] = { 0 };
    struct record record;
    char now[NOW_TEXT_MAX];
    size_t bad, count = 0;
    enum hf_status status = take_values(desk, values);
    if (status != HF_OK)
        return status;
    if (!values[schema->time].data)
        values[schema->time] = view_of(now_text(cli->env, now));
    for (size_t i = 0; i < schema->field_count; i++)
        count = values[i].data ? i + 1 : count;
    if (!record_write(bytes, values, count))
        return error_no_memory(&cli->error);
    status = record_read(schema, buffer_view(bytes), space, &record,
                         /* too_many_fields */ NULL, &cli->error);
    if (status == HF_OK)
        status = index_put(desk->index, &record.bytes, 1, &bad, &cli->error);
    if (status == HF_OK)
        tell_one(cli, &record);
    return status;
}

/* ---- Many rows ----------------------------------------------------------------------- */

/* What one batch takes: into the inbox by number, straight into shards by memory. */
#define INBOX_BATCH_BYTES (8 * MIB)
#define FOLD_BATCH_BYTES  (64 * MIB)
#define FOLD_WAIT         SPAN_S(60)
#define WAIT_STEP         SPAN_MS(500)
#define REFUSALS_SHOWN    10

/* To lock, read and write a shard for less than this takes longer than so many entries. */
#define FOLD_FEW 8

/* How records got there: without --fold, and with it straight or by the inbox, and why. */
enum way { WAY_INBOX, WAY_STRAIGHT, WAY_HELD, WAY_FEW, WAY_DAMAGED, WAYS };

struct loading {
    struct index_desk desk;
    struct rows rows;
    bool fold;
    struct span wait; /* for a shard that somebody else has */
    uint64_t size;    /* of the file; 0: nobody knows */
    struct gauge gauge;
    struct arena arena; /* of the batch: */
    struct record *records;
    size_t count, capacity;
    uint64_t bytes; /* that it takes of memory */
    struct buffer space;
    struct manifest noted;   /* shards that were folded */
    uint64_t taken;          /* records that are there and durable ... */
    uint64_t by_way[WAYS];   /* ... and how they got there */
    struct hf_error trouble; /* of the first shard that is damaged */
    uint64_t refused;        /* rows */
    uint64_t lines_taken;    /* the last line of which is known that all up to it is done */
};

static void refuse(struct loading *loading, struct hf_error *error)
{
    struct cli *cli = loading->desk.cli;
    if (loading->refused++ >= REFUSALS_SHOWN)
        return;
    gauge_clear(&loading->gauge);
    error_prefix(error, "line %" PRIu64, loading->rows.line);
    cli_report(cli, cli_argument(cli, 0), error);
}

static bool grow(struct loading *loading)
{
    if (loading->count < loading->capacity)
        return true;
    size_t capacity = loading->capacity ? 2 * loading->capacity : BATCH_MAX;
    struct record *records = realloc(loading->records, capacity * sizeof *loading->records);
    if (!records)
        return false;
    loading->records = records;
    loading->capacity = capacity;
    return true;
}

/* Judges the row that was read and keeps a copy. */
static enum hf_status keep_row(struct loading *loading, struct hf_error *error)
{
    struct record record;
    enum hf_status status = record_read(&loading->desk.index->schema, loading->rows.record,
                                        &loading->space, &record, NULL, error);
    if (status == HF_INVALID) {
        refuse(loading, error);
        return HF_OK;
    }
    if (status != HF_OK)
        return status;
    bool inside = loading->space.size == 0; /* else it has escapes */
    struct view copy = arena_copy(&loading->arena, record.bytes);
    if (!copy.data)
        return error_no_memory(error);
    struct view key = inside ? (struct view){ copy.data + (record.key.data - record.bytes.data),
                                              record.key.size }
                             : arena_copy(&loading->arena, record.key);
    if (!key.data || !grow(loading))
        return error_no_memory(error);
    loading->records[loading->count++] = (struct record){ copy, key, record.time };
    loading->bytes += copy.size + (inside ? 0 : key.size) + 2 * sizeof record;
    return HF_OK;
}

/* Puts records into the inbox, in as many calls as it takes. */
static enum hf_status put_records(struct loading *loading, const struct record *records,
                                  size_t count, enum way way)
{
    struct view batch[BATCH_MAX];
    size_t bad;
    for (size_t done = 0; done < count;) {
        size_t now = count - done < BATCH_MAX ? count - done : BATCH_MAX;
        for (size_t i = 0; i < now; i++)
            batch[i] = records[done + i].bytes;
        enum hf_status status =
            index_put(loading->desk.index, batch, now, &bad, &loading->desk.cli->error);
        if (status != HF_OK)
            return status;
        done += now;
        loading->taken += now;
        loading->by_way[way] += now;
    }
    return HF_OK;
}

/* ---- Straight into shards ------------------------------------------------------------- */

struct placed {
    size_t shard;
    struct record record;
};

static int compare_placed(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    return left->shard < right->shard ? -1 : left->shard > right->shard;
}

/* Sorts the batch by shards; the number of each record's shard goes to ret_shards. */
static enum hf_status sort_by_shard(struct loading *loading, size_t *ret_shards)
{
    unsigned digits = loading->desk.index->schema.digits;
    struct placed *placed = malloc(loading->count * sizeof *placed);
    if (!placed)
        return error_no_memory(&loading->desk.cli->error);
    for (size_t i = 0; i < loading->count; i++) {
        placed[i].record = loading->records[i];
        struct shard_id shard = shard_of_key(placed[i].record.key, digits);
        shard_number(view_of(shard.text), digits, &placed[i].shard);
    }
    qsort(placed, loading->count, sizeof *placed, compare_placed);
    for (size_t i = 0; i < loading->count; i++) {
        loading->records[i] = placed[i].record;
        ret_shards[i] = placed[i].shard;
    }
    free(placed);
    return HF_OK;
}

/* Waits for the shard in small steps, since a signal cannot end a wait within one. */
static enum hf_status fold_when_free(struct loading *loading, struct shard_id shard,
                                     struct record *records, size_t count,
                                     struct fold_report *ret_report)
{
    struct cli *cli = loading->desk.cli;
    const struct compile_options options = COMPILE_OPTIONS;
    struct mono_time until = mono_add(env_now(cli->env), loading->wait);
    for (;;) {
        struct span left = mono_since(until, env_now(cli->env));
        struct span wait = span_smaller(left.us > 0 ? left : SPAN_S(0), WAIT_STEP);
        enum hf_status status = compile_straight(loading->desk.index, &options, shard, records,
                                                 count, wait, ret_report, &cli->error);
        if (status != HF_HELD || left.us <= 0)
            return status;
        status = interrupt_check(&cli->error);
        if (status != HF_OK)
            return status;
    }
}

/* A shard that is damaged is for people to mend; what belongs to it waits in its inbox. */
static void note_damage(struct loading *loading, struct shard_id shard)
{
    if (loading->trouble.status != HF_OK)
        return;
    loading->trouble = loading->desk.cli->error;
    error_prefix(&loading->trouble, "records of shard %s are in its inbox", shard.text);
}

/* A shard that cannot be written takes its records by way of the inbox, which waits for nobody. */
static enum hf_status fold_shard(struct loading *loading, size_t shard, struct record *records,
                                 size_t count)
{
    struct fold_report report = { 0 };
    struct shard_id id = shard_of_number(shard, loading->desk.index->schema.digits);
    enum hf_status status = fold_when_free(loading, id, records, count, &report);
    if (status == HF_HELD || status == HF_LOST || status == HF_CONFLICT || status == HF_FENCED)
        return put_records(loading, records, count, WAY_HELD);
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED) {
        note_damage(loading, id);
        return put_records(loading, records, count, WAY_DAMAGED);
    }
    if (status != HF_OK)
        return status;
    loading->taken += count;
    loading->by_way[WAY_STRAIGHT] += count;
    manifest_note(&loading->noted, manifest_row_of(shard, &report));
    return HF_OK;
}

/* Shard by shard. Those of which there are few are moved to the front, where all records were dealt
 * with already, and go into the inbox together at last. */
static enum hf_status fold_batch(struct loading *loading)
{
    struct cli *cli = loading->desk.cli;
    size_t few = 0;
    size_t *shards = malloc(loading->count * sizeof *shards);
    if (!shards)
        return error_no_memory(&cli->error);
    enum hf_status status = sort_by_shard(loading, shards);
    for (size_t i = 0, end; i < loading->count && status == HF_OK; i = end) {
        for (end = i + 1; end < loading->count && shards[end] == shards[i];)
            end++;
        status = interrupt_check(&cli->error);
        if (end - i < FOLD_FEW) {
            memmove(loading->records + few, loading->records + i,
                    (end - i) * sizeof *loading->records);
            few += end - i;
        } else if (status == HF_OK) {
            status = fold_shard(loading, shards[i], loading->records + i, end - i);
        }
        gauge_step(&loading->gauge, loading->rows.bytes_read, loading->size);
    }
    free(shards);
    return status == HF_OK ? put_records(loading, loading->records, few, WAY_FEW) : status;
}

/* ---- The whole file ------------------------------------------------------------------ */

static enum hf_status flush_batch(struct loading *loading)
{
    enum hf_status status = HF_OK;
    if (loading->count > 0)
        status = loading->fold
                     ? fold_batch(loading)
                     : put_records(loading, loading->records, loading->count, WAY_INBOX);
    if (status != HF_OK)
        return status;
    arena_release(&loading->arena);
    loading->arena = ARENA_INIT;
    loading->count = 0;
    loading->bytes = 0;
    loading->lines_taken = loading->rows.last_line;
    return HF_OK;
}

/* Rows that come one by one, as from a pipe, are not kept waiting for others. */
static bool batch_is_full(const struct loading *loading)
{
    if (loading->fold)
        return loading->bytes >= FOLD_BATCH_BYTES;
    return loading->count == BATCH_MAX || loading->bytes >= INBOX_BATCH_BYTES ||
           rows_would_wait(&loading->rows);
}

static enum hf_status load_row(struct loading *loading, enum hf_status status,
                               struct hf_error *error)
{
    struct cli *cli = loading->desk.cli;
    if (status == HF_INVALID && loading->rows.go_on) {
        refuse(loading, error);
        return interrupt_check(&cli->error);
    }
    if (status == HF_OK)
        status = keep_row(loading, error);
    if (status != HF_OK) {
        cli->error = *error;
        return status;
    }
    if (!batch_is_full(loading))
        return HF_OK;
    gauge_step(&loading->gauge, loading->rows.bytes_read, loading->size);
    status = interrupt_check(&cli->error);
    return status == HF_OK ? flush_batch(loading) : status;
}

static enum hf_status load_rows(struct loading *loading)
{
    struct hf_error error = { HF_OK, "" };
    enum hf_status status = HF_OK;
    while (status == HF_OK) {
        enum hf_status read = rows_next(&loading->rows, &error);
        if (read == HF_NOT_FOUND)
            return flush_batch(loading);
        status = load_row(loading, read, &error);
    }
    return status;
}

static void tell_json(const struct loading *loading)
{
    const uint64_t *by_way = loading->by_way;
    json_t *object = json_object();
    json_add_count(&object, "records", loading->taken);
    json_add_count(&object, "refused", loading->refused);
    json_add_bool(&object, "stopped", interrupted());
    json_add_count(&object, "up_to_line", loading->lines_taken);
    json_add_bool(&object, "folded", loading->fold);
    if (loading->fold) {
        json_add_count(&object, "shards", loading->noted.count);
        json_add_count(&object, "straight", by_way[WAY_STRAIGHT]);
        json_add_count(&object, "by_inbox", loading->taken - by_way[WAY_STRAIGHT]);
        json_add_count(&object, "held", by_way[WAY_HELD]);
        json_add_count(&object, "few", by_way[WAY_FEW]);
        json_add_count(&object, "damaged", by_way[WAY_DAMAGED]);
    }
    output_json(&loading->desk.cli->out, object);
}

/* ": 40 straight into 3 shards, 2 into the inbox of shards that are held" */
static void tell_ways(struct output *out, const struct loading *loading)
{
    static const char *const words[WAYS] = {
        [WAY_STRAIGHT] = "straight into ",
        [WAY_HELD] = "into the inbox of shards that are held",
        [WAY_FEW] = "into the inbox of shards that get few",
        [WAY_DAMAGED] = "into the inbox of shards that are damaged",
    };
    const char *before = ": ";
    for (size_t i = WAY_STRAIGHT; i < WAYS; i++) {
        if (loading->by_way[i] == 0)
            continue;
        output_print(out, "%s%" PRIu64 " ", before, loading->by_way[i]);
        output_text(out, words[i]);
        if (i == WAY_STRAIGHT)
            output_count(out, loading->noted.count, "shard");
        before = ", ";
    }
}

static void tell_loaded(const struct loading *loading)
{
    struct cli *cli = loading->desk.cli;
    if (cli->json)
        tell_json(loading);
    if (cli->json || cli->quiet)
        return;
    output_text(&cli->out, "put ");
    output_count(&cli->out, loading->taken, "record");
    if (loading->fold)
        tell_ways(&cli->out, loading);
    if (loading->refused > 0) {
        output_text(&cli->out, "; refused ");
        output_count(&cli->out, loading->refused, "row");
    }
    if (interrupted() && loading->lines_taken > 0)
        output_print(&cli->out, "; stopped: all up to line %" PRIu64 " is in the index",
                     loading->lines_taken);
    else if (interrupted())
        output_text(&cli->out, "; stopped: put all again, which does no harm");
    output_text(&cli->out, "\n");
}

static enum hf_status tell_refused(const struct loading *loading, struct hf_error *error)
{
    return error_set(error, HF_INVALID, "%" PRIu64 " row%s refused, %" PRIu64 " put",
                     loading->refused, loading->refused == 1 ? " was" : "s were",
                     loading->taken);
}

/* What is there by now is there to stay, and the rest can be put again from this line on. */
static enum hf_status judge_load(struct loading *loading, enum hf_status status)
{
    struct cli *cli = loading->desk.cli;
    struct hf_error refused;
    if (status == HF_OK || interrupted())
        tell_loaded(loading);
    if (status != HF_OK) {
        if (loading->lines_taken > 0)
            error_prefix(&cli->error, "all up to line %" PRIu64 " is in the index; then",
                         loading->lines_taken);
        return status;
    }
    if (loading->trouble.status == HF_OK)
        return loading->refused > 0 ? tell_refused(loading, &cli->error) : HF_OK;
    if (loading->refused > 0) {
        tell_refused(loading, &refused);
        cli_report(cli, cli_argument(cli, 0), &refused);
    }
    cli->error = loading->trouble;
    return cli->error.status;
}

/* ---- Where rows come from ------------------------------------------------------------ */

static enum hf_status take_format(struct cli *cli, struct view path,
                                  enum rows_format *ret_format)
{
    if (cli_given(cli, "format"))
        return index_format_option(cli, ROWS_USV, ret_format);
    if (index_format_of_name(path, ret_format))
        return HF_OK;
    return error_set(&cli->error, HF_INVALID,
                     "cannot determine the format of '%.*s': say --format usv, csv, tsv or "
                     "ndjson",
                     VIEW_ARGS(view_first(path, 80)));
}

static enum hf_status open_rows(struct cli *cli, struct view path, int *ret_fd,
                                uint64_t *ret_size)
{
    struct stat info;
    bool is_stdin = view_equal(path, VIEW("-"));
    int fd = is_stdin ? STDIN_FILENO : open(path.data, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        return error_cannot_open(&cli->error, errno, path.data);
    }
    *ret_fd = fd;
    *ret_size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    if (!S_ISDIR(info.st_mode))
        return HF_OK;
    return error_set(&cli->error, HF_INVALID, "'%.120s' is a folder, not a file", path.data);
}

static enum hf_status put_file(struct loading *loading, struct view path,
                               enum rows_format format)
{
    struct cli *cli = loading->desk.cli;
    int fd = -1;
    enum hf_status status = open_rows(cli, path, &fd, &loading->size);
    if (status == HF_OK) {
        rows_init(&loading->rows, &loading->desk.index->schema, format, fd);
        gauge_start(&loading->gauge, cli, VIEW("put"));
        status = load_rows(loading);
        gauge_clear(&loading->gauge);
        rows_release(&loading->rows);
        struct hf_error ignored; /* statistics: whoever compiles next writes them */
        if (loading->noted.count > 0)
            manifest_write(loading->desk.index, &loading->noted, &ignored);
        status = judge_load(loading, status);
    }
    if (fd > STDERR_FILENO)
        close(fd);
    return status;
}

static void loading_release(struct loading *loading)
{
    manifest_release(&loading->noted);
    arena_release(&loading->arena);
    free(loading->records);
    buffer_release(&loading->space);
    index_desk_close(&loading->desk);
}

static enum hf_status put_many(struct cli *cli, struct view path)
{
    enum rows_format format;
    const struct option_value *wait = cli_option(cli, "wait");
    struct loading *loading = arena_take(&cli->arena, sizeof *loading);
    if (!loading)
        return error_no_memory(&cli->error);
    *loading = (struct loading){ .arena = ARENA_INIT,
                                 .space = BUFFER_INIT(INDEX_RECORD_BYTES_MAX),
                                 .fold = cli_given(cli, "fold"),
                                 .wait = wait ? wait->span : FOLD_WAIT };
    if (wait && !loading->fold)
        return error_set(&cli->error, HF_INVALID, "--wait goes with --fold");
    enum hf_status status = take_format(cli, path, &format);
    if (status != HF_OK)
        return status;
    status = index_desk_open(&loading->desk, cli, /* compiles */ loading->fold);
    if (status == HF_OK)
        status = put_file(loading, path, format);
    loading_release(loading);
    return status;
}

enum hf_status run_index_put(struct cli *cli)
{
    const struct option_value *from = cli_option(cli, "from");
    if (from && cli->argument_count > 1)
        return error_set(&cli->error, HF_INVALID,
                         "fields of one record and --from cannot be used together");
    if (from)
        return put_many(cli, from->text);
    static const char *const of_files[] = { "format", "fold", "wait" };
    for (size_t i = 0; i < sizeof of_files / sizeof of_files[0]; i++)
        if (cli_given(cli, of_files[i]))
            return error_set(&cli->error, HF_INVALID, "--%s goes with --from", of_files[i]);
    if (cli->argument_count == 1)
        return error_set(&cli->error, HF_INVALID,
                         "name fields of a record as FIELD=VALUE, or a file with --from");
    struct index_desk desk;
    struct buffer bytes = BUFFER_INIT(2 * INDEX_RECORD_BYTES_MAX);
    struct buffer space = BUFFER_INIT(INDEX_RECORD_BYTES_MAX);
    enum hf_status status = index_desk_open(&desk, cli, /* compiles */ false);
    if (status == HF_OK)
        status = put_one(&desk, &bytes, &space);
    buffer_release(&bytes);
    buffer_release(&space);
    index_desk_close(&desk);
    return status;
}
