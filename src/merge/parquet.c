/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.c: calls the helper process, and checks what it did. */
#include "merge/parquet.h"

#include "base/parse.h"
#include "file/bytes.h"
#include "install_paths.h"
#include "merge/command.h"
#include "merge/key.h"
#include "merge/parquet_footer.h"
#include "merge/parquet_message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELPER_NAME     "holdfast-parquet"
#define HELPER_DEFAULT  HOLDFAST_LIBEXEC "/" HELPER_NAME
#define HELPER_VARIABLE "HOLDFAST_PARQUET"
#define DUCKDB_VARIABLE "HOLDFAST_DUCKDB"
#define PROBE_LIMIT     SPAN_S(60)
#define FD_PATH_MAX     48

/* ---- Calling the helper -------------------------------------------------------------- */

/* One call of the helper. */
struct parquet_call {
    struct env *env;
    const struct merge_options *options; /* time limit and progress */
    struct parquet_request request;
    const char *const *names; /* of the inputs, in errors */
    struct parquet_report report;
    bool ended;   /* the helper crashed, or was killed for its time */
    char *answer; /* the report's texts point into it */
};

static void parquet_call_release(struct parquet_call *call)
{
    free(call->answer);
    call->answer = NULL;
}

static const char *variable_or(const char *name, const char *otherwise)
{
    const char *value = secure_getenv(name);
    return value && value[0] ? value : otherwise;
}

static enum hf_status send_request(const struct parquet_call *call, int fd,
                                   struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(PARQUET_REQUEST_MAX);
    enum hf_status status = HF_OK;
    if (!parquet_request_write(&call->request, &text))
        status = error_no_memory(error);
    else
        status = file_write_at(fd, buffer_view(&text), 0, error);
    buffer_release(&text);
    return status;
}

/* A report that cannot be read is a fault of the helper, and never of an input. */
static enum hf_status read_report(struct parquet_call *call, int fd, struct hf_error *error)
{
    size_t size = 0;
    call->answer = malloc(PARQUET_REPORT_MAX);
    if (!call->answer)
        return error_no_memory(error);
    enum hf_status status = file_read_at(fd, call->answer, PARQUET_REPORT_MAX, 0, &size, error);
    if (status != HF_OK)
        return status;
    if (!parquet_report_read((struct view){ call->answer, size }, &call->report) ||
        call->report.input > call->request.input_count)
        return error_set(error, HF_UNAVAILABLE,
                         HELPER_NAME " wrote no valid report: it crashed, or is of another "
                                     "version than this program");
    status = (enum hf_status)call->report.status;
    if (status == HF_OK)
        return HF_OK;
    error_set(error, status, "%s", call->report.why);
    if (call->report.input > 0)
        error_about(error, call->names[call->report.input - 1]);
    return status;
}

/* Starts the helper. It opens the two files by their names in /proc. */
static enum hf_status run_helper(struct parquet_call *call, int request, int report,
                                 struct hf_error *error)
{
    const char *helper = variable_or(HELPER_VARIABLE, HELPER_DEFAULT);
    char program[PATH_MAX], request_path[FD_PATH_MAX], report_path[FD_PATH_MAX];
    int size = snprintf(program, sizeof program, "%s", helper);
    if (size < 0 || (size_t)size >= sizeof program || access(program, X_OK) != 0)
        return error_set(error, HF_UNSUPPORTED,
                         "Parquet needs the program " HELPER_NAME
                         ", which is not at '%.100s': install it, or set " HELPER_VARIABLE
                         " to its path",
                         helper);
    snprintf(request_path, sizeof request_path, "/proc/%ld/fd/%d", (long)getpid(), request);
    snprintf(report_path, sizeof report_path, "/proc/%ld/fd/%d", (long)getpid(), report);
    char *words[] = { program, request_path, report_path, NULL };
    struct merge_command command = { .time_limit = call->options->command.time_limit,
                                     .program = program,
                                     .name = HELPER_NAME };
    return command_run(call->env, words, &command, &call->options->progress, &call->ended,
                       error);
}

static enum hf_status call_helper(struct parquet_call *call, struct hf_error *error)
{
    int request = memfd_create("request", MFD_CLOEXEC);
    int report = memfd_create("report", MFD_CLOEXEC);
    call->request.library = variable_or(DUCKDB_VARIABLE, "");
    call->ended = false;
    call->report = (struct parquet_report){ .why = "" };
    parquet_call_release(call);
    enum hf_status status = request >= 0 && report >= 0
                                ? send_request(call, request, error)
                                : error_from_errno(error, errno, "create a file in memory");
    if (status == HF_OK)
        status = run_helper(call, request, report, error);
    if (status == HF_OK) {
        call->ended = false; /* what went wrong is in its report */
        status = read_report(call, report, error);
    }
    if (request >= 0)
        close(request);
    if (report >= 0)
        close(report);
    return status;
}

/* A file that is open here has the same name in another process only by our process id. */
static const char *name_for_helper(const char *path, struct arena *arena)
{
    static const char *const own[] = { "/proc/self/fd/", "/dev/fd/" };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (!view_starts_with(view_of(path), view_of(own[i])))
            continue;
        char *name = arena_take(arena, FD_PATH_MAX);
        if (name)
            snprintf(name, FD_PATH_MAX, "/proc/%ld/fd/%.12s", (long)getpid(),
                     path + strlen(own[i]));
        return name;
    }
    return path;
}

/* DuckDB reserves about this much memory for each column, however few the rows, and touches a third
 * of it: 10,000 columns needed 3 GiB. */
#define MEMORY_PER_COLUMN (320 * KIB)

/* A page may be as large as its row group. It is in memory twice, compressed and not, and DuckDB
 * takes powers of two. A file with row groups of 68 MiB needed between 256 and 320 MiB. */
#define COPIES_OF_GROUP 5

/* What inputs need at most, apart from the rows that are sorted. */
struct memory_need {
    uint64_t columns, group_bytes; /* the most of any input */
};

static void need_for(struct memory_need *need, const struct parquet_footer *footer)
{
    if (footer->columns > need->columns)
        need->columns = footer->columns;
    if (footer->group_bytes_max > need->group_bytes)
        need->group_bytes = footer->group_bytes_max;
}

/* Says how much memory is needed, if too little may have made a call fail. */
static void advise_memory(const struct parquet_call *call, const struct memory_need *need,
                          struct hf_error *error)
{
    char size[SIZE_TEXT_MAX];
    uint64_t bytes = need->columns * MEMORY_PER_COLUMN + COPIES_OF_GROUP * need->group_bytes;
    if (call->report.overload > 0 && call->request.memory_bytes < bytes)
        error_set(error, error->status,
                  "%s: %" PRIu64 " columns and row groups of this size need about %s",
                  error->why, need->columns, size_text(bytes, size));
}

static struct parquet_call new_call(struct env *env, const struct merge_options *options,
                                    enum parquet_work work)
{
    uint64_t memory = options->memory_bytes;
    return (struct parquet_call){
        .env = env,
        .options = options,
        .request = { .work = work,
                     .library = "",
                     .key = "",
                     .time = "",
                     .deleted = "",
                     .from = "",
                     .to = "",
                     .prefix = "",
                     .since = "",
                     .until = "",
                     .output = "",
                     .rejects = "",
                     .temporary = "",
                     .memory_bytes = memory > PARQUET_MEMORY_MIN ? memory : PARQUET_MEMORY_MIN,
                     .threads = 1,
                     .group_rows = 1 },
    };
}

/* A view as a text that ends with a NUL. */
static const char *text_of(struct view view, struct arena *arena)
{
    return view.size > 0 ? arena_copy(arena, view).data : "";
}

static enum hf_status fill_in_fields(struct parquet_call *call, struct arena *arena,
                                     struct hf_error *error)
{
    const struct merge_options *options = call->options;
    char space[KEY_TEXT_MAX];
    struct view key = options->key;
    if (key.data && key_parse_name(options->key, space, &key, error) != HF_OK)
        return HF_INVALID;
    call->request.key = text_of(key, arena);
    call->request.time = text_of(options->time, arena);
    call->request.deleted = text_of(options->deleted, arena);
    call->request.drops = options->drop_deleted;
    return call->request.key && call->request.time && call->request.deleted
               ? HF_OK
               : error_no_memory(error);
}

static enum hf_status fill_in_inputs(struct parquet_call *call, const char *const *inputs,
                                     size_t count, struct arena *arena, struct hf_error *error)
{
    if (count > PARQUET_INPUTS_MAX)
        return error_set(error, HF_INVALID,
                         "at most %d Parquet files can be merged at a time, not %zu",
                         PARQUET_INPUTS_MAX, count);
    call->request.inputs = arena_take(arena, (count + 1) * sizeof *call->request.inputs);
    if (!call->request.inputs)
        return error_no_memory(error);
    call->request.input_count = count;
    call->names = inputs;
    for (size_t i = 0; i < count; i++) {
        call->request.inputs[i] = name_for_helper(inputs[i], arena);
        if (!call->request.inputs[i])
            return error_no_memory(error);
    }
    return HF_OK;
}

enum hf_status parquet_probe(struct env *env, struct hf_error *error)
{
    struct merge_options options = MERGE_OPTIONS;
    options.command.time_limit = PROBE_LIMIT;
    struct parquet_call call = new_call(env, &options, PARQUET_PROBE);
    enum hf_status status = call_helper(&call, error);
    parquet_call_release(&call);
    return status;
}

/* ---- Merging ------------------------------------------------------------------------- */

/* Rows in a row group: DuckDB's usual number, or fewer if rows are long, because a group is written
 * from memory. It depends on the inputs alone, so that equal inputs give an equal output. */
#define GROUP_ROWS       ((uint64_t)122880)
#define GROUP_ROWS_LEAST ((uint64_t)2048) /* rows of one vector of DuckDB */
#define GROUP_BYTES      (16 * MIB)

/* Each thread needs this much memory to sort. */
#define THREAD_BYTES (64 * MIB)

#define TEMPORARY_NAME      "/temporary"
#define TEMPORARY_BYTES_MAX (UINT64_C(1) << 40)

/* A merge in progress. */
struct parquet_merge {
    struct job *job;
    struct parquet_call call;
    struct arena arena;
    struct new_file output, rejects;
    uint64_t rows, bytes; /* of the inputs, from their footers */
    struct memory_need need;
    char temporary[PATH_MAX];
    bool temporary_made; /* in the scratch folder, so it must be removed */
};

static enum hf_status read_footers(struct parquet_merge *merge, const char *const *inputs,
                                   size_t count, struct hf_error *error)
{
    const char *const *given = merge->job->options->input_names;
    const char *const *names = given ? given : inputs;
    for (size_t i = 0; i < count; i++) {
        struct parquet_footer footer;
        enum hf_status status = parquet_footer_of(inputs[i], names[i], &footer, error);
        if (status != HF_OK) {
            merge->job->result.culprit = i + 1;
            return status;
        }
        merge->rows += footer.rows;
        merge->bytes += footer.bytes;
        need_for(&merge->need, &footer);
    }
    return HF_OK;
}

static uint64_t choose_group_rows(uint64_t rows, uint64_t bytes)
{
    uint64_t row_bytes = rows > 0 ? bytes / rows + 1 : 1;
    uint64_t fit = GROUP_BYTES / row_bytes / GROUP_ROWS_LEAST * GROUP_ROWS_LEAST;
    fit = fit > GROUP_ROWS_LEAST ? fit : GROUP_ROWS_LEAST;
    return fit < GROUP_ROWS ? fit : GROUP_ROWS;
}

static uint64_t choose_threads(const struct merge_options *options, uint64_t memory)
{
    uint64_t most = memory / THREAD_BYTES;
    return options->threads < most ? options->threads : most;
}

/* Temporary files go to the private folder of the output or, if the caller chose a folder for them,
 * to a private folder there. */
static enum hf_status choose_temporary(struct parquet_merge *merge, struct hf_error *error)
{
    const char *scratch = merge->job->options->scratch_folder;
    int size = snprintf(merge->temporary, sizeof merge->temporary, "%s%s",
                        scratch ? scratch : merge->output.own_path,
                        scratch ? "/holdfast-parquet-XXXXXX" : "");
    if (size < 0 || (size_t)size >= sizeof merge->temporary - sizeof TEMPORARY_NAME)
        return error_set(error, HF_INVALID, "the path of the scratch folder is too long");
    if (scratch && !mkdtemp(merge->temporary))
        return error_from_errno(error, errno, "create a scratch folder");
    merge->temporary_made = scratch != NULL;
    memcpy(merge->temporary + strlen(merge->temporary), TEMPORARY_NAME, sizeof TEMPORARY_NAME);
    merge->call.request.temporary = merge->temporary;
    merge->call.request.temporary_bytes = TEMPORARY_BYTES_MAX;
    return HF_OK;
}

static void remove_temporary(struct parquet_merge *merge)
{
    if (!merge->temporary_made)
        return;
    merge->temporary[strlen(merge->temporary) - strlen(TEMPORARY_NAME)] = '\0';
    int folder = open(merge->temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
        folder_clear(folder);
        close(folder);
    }
    rmdir(merge->temporary);
}

/* Removes what a failed attempt left, before the next one. */
static void clear_attempt(struct parquet_merge *merge)
{
    folder_clear(merge->output.own);
    if (merge->rejects.own >= 0)
        folder_clear(merge->rejects.own);
    int folder = open(merge->temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
        folder_clear(folder);
        close(folder);
        rmdir(merge->temporary);
    }
}

/* If there was not enough memory for several threads, one is tried. The disk that is full may be
 * that of the output, or that of the temporary files. */
static enum hf_status call_for_merge(struct parquet_merge *merge, struct hf_error *error)
{
    struct parquet_call *call = &merge->call;
    enum hf_status status = call_helper(call, error);
    if (status != HF_OK && call->report.overload > 0 && call->request.threads > 1) {
        clear_attempt(merge);
        call->request.threads = 1;
        status = call_helper(call, error);
    }
    if (status != HF_OK)
        merge->job->result.disk_full =
            call->report.disk_full > 0 || job_disk_is_full(merge->job);
    return status;
}

/* The helper's counts must add up, and must be those of the footers. */
static enum hf_status check_counts(const struct parquet_merge *merge, struct hf_error *error)
{
    const struct parquet_report *report = &merge->call.report;
    struct parquet_footer footer;
    enum hf_status status = parquet_footer_read(merge->output.fd, &footer, error);
    if (status != HF_OK) {
        error_prefix(error, "the merged file cannot be read back");
        return HF_UNAVAILABLE;
    }
    uint64_t gone = report->rows_in - report->rows_out;
    bool adds_up =
        report->rows_out <= report->rows_in && report->rows_superseded <= gone &&
        report->rows_rejected <= gone - report->rows_superseded &&
        report->rows_deleted == gone - report->rows_superseded - report->rows_rejected;
    if (adds_up && report->rows_in == merge->rows && report->rows_out == footer.rows)
        return HF_OK;
    return error_set(error, HF_CORRUPT,
                     "the rows do not add up: the inputs have %" PRIu64 ", %" PRIu64
                     " were read, %" PRIu64 " superseded, %" PRIu64 " rejected, %" PRIu64
                     " deleted, %" PRIu64 " written, and the output has %" PRIu64,
                     merge->rows, report->rows_in, report->rows_superseded,
                     report->rows_rejected, report->rows_deleted, report->rows_out,
                     footer.rows);
}

static enum hf_status sum_output(struct job *job, int fd, struct hf_error *error)
{
    enum { PIECE = 256 * 1024 };
    char *piece = malloc(PIECE);
    size_t got = PIECE;
    enum hf_status status = piece ? HF_OK : error_no_memory(error);
    uint64_t offset = 0;
    while (status == HF_OK && got == PIECE) {
        status = file_read_at(fd, piece, PIECE, offset, &got, error);
        if (status == HF_OK)
            job->result.crc32c = crc32c(job->result.crc32c, (struct view){ piece, got });
        offset += got;
    }
    free(piece);
    return status;
}

static enum hf_status sync_file(struct new_file *file, struct hf_error *error)
{
    enum hf_status status = new_file_take(file, error);
    if (status == HF_OK && fsync(file->fd) != 0)
        status = error_from_errno(error, errno, "sync the merged file");
    return status;
}

/* Takes the output from the helper: its counts, its bytes, its name. */
static enum hf_status take_output(struct parquet_merge *merge, struct hf_error *error)
{
    struct job *job = merge->job;
    const struct parquet_report *report = &merge->call.report;
    struct stat info;
    bool durable = !job->options->intermediate;
    enum hf_status status =
        durable ? sync_file(&merge->output, error) : new_file_take(&merge->output, error);
    if (status == HF_OK)
        status = check_counts(merge, error);
    if (status == HF_OK && fstat(merge->output.fd, &info) != 0)
        status = error_from_errno(error, errno, "read the merged file");
    if (status == HF_OK && !durable)
        status = sum_output(job, merge->output.fd, error);
    if (status == HF_OK && report->rows_rejected > 0)
        status = sync_file(&merge->rejects, error);
    if (status == HF_OK && report->rows_rejected > 0)
        status = new_file_keep(&merge->rejects, error);
    if (status == HF_OK)
        status = new_file_keep(&merge->output, error);
    if (status != HF_OK)
        return status;
    job->result.bytes_out = (uint64_t)info.st_size;
    job->result.rows_counted = true;
    job->result.rows_in = report->rows_in;
    job->result.rows_out = report->rows_out;
    job->result.rows_superseded = report->rows_superseded;
    job->result.rows_rejected = report->rows_rejected;
    job->result.rows_deleted = report->rows_deleted;
    job->result.deletions_kept = report->deletions;
    return HF_OK;
}

static enum hf_status reserve_files(struct parquet_merge *merge, struct hf_error *error)
{
    struct job *job = merge->job;
    enum hf_status status = new_file_reserve(&merge->output, job->env, job->output,
                                             job_watch(job, JOB_OUTPUT), error);
    if (status != HF_OK) {
        error_about(error, job->output);
        return status;
    }
    merge->call.request.output = merge->output.scratch;
    if (job->options->rejects_max == 0)
        return HF_OK;
    status = new_file_reserve(&merge->rejects, job->env, job->options->reject_path,
                              (struct file_watch){ NULL, NULL, 0 }, error);
    if (status != HF_OK)
        error_about(error, job->options->reject_path);
    else
        merge->call.request.rejects = merge->rejects.scratch;
    return status;
}

/* Makes everything ready, and calls the helper. */
static enum hf_status merge_by_helper(struct parquet_merge *merge, const char *const *inputs,
                                      size_t count, struct hf_error *error)
{
    struct job *job = merge->job;
    struct parquet_request *request = &merge->call.request;
    enum hf_status status = read_footers(merge, inputs, count, error);
    if (status == HF_OK)
        status = fill_in_fields(&merge->call, &merge->arena, error);
    if (status == HF_OK)
        status = fill_in_inputs(&merge->call, inputs, count, &merge->arena, error);
    if (job->options->input_names)
        merge->call.names = job->options->input_names;
    if (status == HF_OK)
        status = reserve_files(merge, error);
    if (status == HF_OK)
        status = choose_temporary(merge, error);
    if (status != HF_OK)
        return status;
    request->rejects_max = job->options->rejects_max;
    request->group_rows = choose_group_rows(merge->rows, merge->bytes);
    request->threads = choose_threads(job->options, request->memory_bytes);
    status = call_for_merge(merge, error);
    if (status == HF_OK)
        return take_output(merge, error);
    /* How much memory there is for an input depends on this machine, so the input is not named. If
     * there is too little for the columns, it is too little for every chunk: nobody is blamed. */
    bool overload = merge->call.report.overload > 0;
    job->result.culprit = overload ? 0 : (size_t)merge->call.report.input;
    bool too_wide = request->memory_bytes < merge->need.columns * MEMORY_PER_COLUMN;
    advise_memory(&merge->call, &merge->need, error);
    job->result.command_ended = merge->call.ended || (overload && !too_wide);
    return status;
}

enum hf_status parquet_merge(struct job *job, const char *const *inputs, size_t count,
                             struct hf_error *error)
{
    struct parquet_merge merge = { .job = job,
                                   .call = new_call(job->env, job->options, PARQUET_MERGE),
                                   .arena = ARENA_INIT,
                                   .output = NEW_FILE_NONE,
                                   .rejects = NEW_FILE_NONE };
    enum hf_status status = merge_by_helper(&merge, inputs, count, error);
    remove_temporary(&merge);
    new_file_release(&merge.output);
    new_file_release(&merge.rejects);
    parquet_call_release(&merge.call);
    arena_release(&merge.arena);
    return status;
}

/* ---- Survey -------------------------------------------------------------------------- */

/* The user sets no limit for a survey, so it depends on the file, up to this. */
#define SURVEY_MEMORY_MAX (1024 * MIB)

/* In 10^-18 s. */
#define MILLISECOND_ATTO UINT64_C(1000000000000000)

/* In milliseconds, rounded up: DuckDB reports microseconds, rounded down. */
static int64_t ms_behind(struct instant time)
{
    return time.s * 1000 + (int64_t)(time.atto / MILLISECOND_ATTO) + 1;
}

/* No rows have no times. A time that text could not express, as infinity or the year 10000, counts
 * as the first or the last one that it could. */
static void take_times(const struct parquet_report *report, struct survey *survey)
{
    struct instant first, last, deletion;
    survey->deletions = report->deletions;
    if (report->first[0] == '\0' || report->last[0] == '\0')
        return;
    if (!instant_parse(view_of(report->first), &first))
        first = (struct instant){ INSTANT_S_MIN, 0 };
    if (!instant_parse(view_of(report->last), &last))
        last = (struct instant){ INSTANT_S_MAX, 0 };
    survey->times_known = true;
    survey->min_ms = first.s * 1000 + (int64_t)(first.atto / MILLISECOND_ATTO);
    survey->max_ms = ms_behind(last);
    if (!instant_parse(view_of(report->last_deletion), &deletion))
        deletion = (struct instant){ INSTANT_S_MAX, 0 };
    if (report->deletions > 0)
        survey->deletion_ms = ms_behind(deletion);
}

enum hf_status parquet_survey(struct job *job, const char *path, struct survey *survey,
                              struct hf_error *error)
{
    struct parquet_footer footer;
    struct arena arena = ARENA_INIT;
    struct parquet_call call = new_call(job->env, job->options, PARQUET_SURVEY);
    struct memory_need need = { 0 };
    enum hf_status status = parquet_footer_of(path, path, &footer, error);
    if (status == HF_OK) {
        need_for(&need, &footer);
        uint64_t least = COPIES_OF_GROUP * need.group_bytes;
        least = least < SURVEY_MEMORY_MAX ? least : SURVEY_MEMORY_MAX;
        if (call.request.memory_bytes < least)
            call.request.memory_bytes = least;
        status = fill_in_fields(&call, &arena, error);
    }
    const char *const inputs[] = { path, job->options->columns_like };
    if (status == HF_OK)
        status = fill_in_inputs(&call, inputs, inputs[1] ? 2 : 1, &arena, error);
    if (status == HF_OK)
        status = call_helper(&call, error);
    advise_memory(&call, &need, error);
    if (status == HF_OK && call.report.rows_in != footer.rows)
        status =
            error_set(error, HF_CORRUPT,
                      "%.*s: its footer counts %" PRIu64 " rows, but %" PRIu64 " can be read",
                      ERROR_PATH_MAX, path, footer.rows, call.report.rows_in);
    if (status == HF_OK) {
        survey->rows_counted = true;
        survey->rows = call.report.rows_in;
        survey->malformed = call.report.rows_rejected;
        survey->malformed_first = call.report.reject_first;
        survey->malformed_why = "has no key or no time, which is NULL";
        take_times(&call.report, survey);
    }
    parquet_call_release(&call);
    arena_release(&arena);
    return status;
}

/* ---- Conversion ---------------------------------------------------------------------- */

/* In microseconds, rounded up: a time of a row has no more digits, so it is at or after the instant
 * if it is at or after this. */
static const char *microseconds(struct instant instant, struct arena *arena)
{
    const uint64_t unit = UINT64_C(1000000000000);
    const int64_t far = INT64_C(9000000000000); /* beyond it, DuckDB has no times */
    int64_t s = instant.s < -far ? -far : instant.s > far ? far : instant.s;
    char *text = arena_take(arena, 24);
    if (text)
        snprintf(text, 24, "%" PRId64,
                 s * 1000000 + (int64_t)((instant.atto + unit - 1) / unit));
    return text;
}

static enum hf_status fill_in_selection(struct parquet_call *call,
                                        const struct merge_selection *selection,
                                        struct arena *arena, struct hf_error *error)
{
    struct parquet_request *request = &call->request;
    enum hf_status status = fill_in_fields(call, arena, error);
    request->prefix = text_of(selection->key_prefix, arena);
    if (selection->has_since)
        request->since = microseconds(selection->since, arena);
    if (selection->has_until)
        request->until = microseconds(selection->until, arena);
    if (status == HF_OK && (!request->prefix || !request->since || !request->until))
        status = error_no_memory(error);
    return status;
}

/* The rows and bytes of the input. */
static enum hf_status measure_input(const struct parquet_conversion *conversion,
                                    struct parquet_footer *ret_footer, struct hf_error *error)
{
    struct stat info;
    if (conversion->from_format == HF_MERGE_PARQUET)
        return parquet_footer_of(conversion->from, conversion->from, ret_footer, error);
    if (stat(conversion->from, &info) != 0)
        return error_cannot_open(error, errno, conversion->from);
    *ret_footer =
        (struct parquet_footer){ .rows = conversion->rows, .bytes = (uint64_t)info.st_size };
    return HF_OK;
}

/* The rows that the helper reports must be those of the output and, if all are wanted, of the
 * input. */
static enum hf_status check_converted(const struct parquet_conversion *conversion,
                                      const struct parquet_footer *from, uint64_t rows,
                                      struct hf_error *error)
{
    struct parquet_footer to = { .rows = rows };
    enum hf_status status = HF_OK;
    if (conversion->to_format == HF_MERGE_PARQUET)
        status = parquet_footer_of(conversion->to, conversion->to, &to, error);
    const struct merge_selection *selection = conversion->selection;
    bool selects = selection && (selection->key_prefix.size > 0 || selection->has_since ||
                                 selection->has_until);
    if (status == HF_OK &&
        (to.rows != rows || from->rows < rows || (from->rows > rows && !selects)))
        status = error_set(error, HF_CORRUPT,
                           "the rows do not add up: %" PRIu64 " were converted, but the input "
                           "has %" PRIu64 ", and the output %" PRIu64,
                           rows, from->rows, to.rows);
    return status;
}

enum hf_status parquet_convert(struct env *env, const struct merge_options *options,
                               const struct parquet_conversion *conversion, uint64_t *ret_rows,
                               struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct parquet_call call = new_call(env, options, PARQUET_CONVERT);
    bool headless = conversion->from_format == HF_MERGE_CSV && options->headless;
    call.request.from =
        headless ? PARQUET_CSV_HEADLESS : hf_merge_format_name(conversion->from_format);
    call.request.to = hf_merge_format_name(conversion->to_format);
    call.request.output = conversion->to;
    call.request.threads = choose_threads(options, call.request.memory_bytes);
    struct parquet_footer from;
    enum hf_status status = measure_input(conversion, &from, error);
    if (status == HF_OK)
        status = fill_in_inputs(&call, &conversion->from, 1, &arena, error);
    call.names = &conversion->from_name;
    if (status == HF_OK && conversion->selection)
        status = fill_in_selection(&call, conversion->selection, &arena, error);
    struct stat info;
    if (status == HF_OK && lstat(conversion->to, &info) == 0)
        status = error_set(error, HF_CONFLICT, "'%.*s' exists", ERROR_PATH_MAX, conversion->to);
    if (status == HF_OK) {
        call.request.group_rows = choose_group_rows(from.rows, from.bytes);
        status = call_helper(&call, error);
        if (status == HF_OK)
            status = check_converted(conversion, &from, call.report.rows_out, error);
        if (status != HF_OK)
            unlink(conversion->to);
        *ret_rows = call.report.rows_out;
    }
    parquet_call_release(&call);
    arena_release(&arena);
    return status;
}
