/* forge_files.c: the real forge: sources are fetched into files, checked, merged into a file,
 * and that is put. Whatever happens, the files are gone afterwards; a source or a command is
 * blamed only for what it certainly did. */
#include "base/buffer.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"
#include "compact/forge_inside.h"
#include "merge/survey.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (256 * KIB)

/* ---- Whether to go on ---------------------------------------------------------------- */

bool forge_goes_on(struct piece *piece, uint64_t done)
{
    const struct forge_order *order = piece->order;
    if (!atomic_load(&piece->stop) && order->go_on &&
        !order->go_on(order->argument, done, 2 * piece->bytes))
        atomic_store(&piece->stop, true);
    return !atomic_load(&piece->stop);
}

static bool merge_step(void *argument, uint64_t done, uint64_t total)
{
    struct piece *piece = argument;
    double share = total > 0 ? (double)done / (double)total : 1;
    return forge_goes_on(piece, piece->bytes +
                                    (uint64_t)((double)piece->bytes * (share < 1 ? share : 1)));
}

static bool put_step(void *argument, uint64_t done, uint64_t total)
{
    struct piece *piece = argument;
    (void)done;
    (void)total;
    return forge_goes_on(piece, 2 * piece->bytes);
}

enum hf_status forge_cancelled(struct hf_error *error)
{
    return error_set(error, HF_CANCELLED, "stopped because the caller asked to");
}

/* ---- Files --------------------------------------------------------------------------- */

enum hf_status forge_local_failure(struct hf_error *error, int errno_value, const char *what)
{
    error_from_errno(error, errno_value, what);
    error->status = HF_UNAVAILABLE;
    return HF_UNAVAILABLE;
}

static const char *path_in(struct piece *piece, const char *name)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s", piece->folder, name);
    if (size < 0 || size >= (int)sizeof path)
        return NULL;
    return arena_copy(&piece->arena, (struct view){ path, (size_t)size }).data;
}

/* Numbered, with the end that its key has: by that a command may know what it reads. */
static const char *source_path(struct piece *piece, size_t index)
{
    char name[80];
    struct view end = scratch_name_end(piece->order->sources[index].key);
    snprintf(name, sizeof name, "%06zu%.*s", index, VIEW_ARGS(end));
    return path_in(piece, name);
}

/* With less room than this a disk is full. */
#define DISK_FULL_BYTES (1 * MIB)

bool forge_disk_is_full(struct piece *piece)
{
    if (scratch_room(piece->folder).free >= DISK_FULL_BYTES)
        return false;
    atomic_store(&piece->disk_full, true);
    return true;
}

enum hf_status forge_check_sum(int fd, uint64_t *ret_size, uint32_t *ret_crc,
                               struct hf_error *error)
{
    char *buffer = malloc(READ_BYTES);
    uint64_t size = 0;
    uint32_t crc = 0;
    ssize_t got = 1;
    if (!buffer)
        return error_no_memory(error);
    while (got > 0) {
        got = pread(fd, buffer, READ_BYTES, (off_t)size);
        if (got > 0) {
            crc = crc32c(crc, (struct view){ buffer, (size_t)got });
            size += (uint64_t)got;
        }
    }
    int failed = errno;
    free(buffer);
    if (got < 0)
        return forge_local_failure(error, failed, "read back");
    *ret_size = size;
    *ret_crc = crc;
    return HF_OK;
}

/* ---- Merging ------------------------------------------------------------------------- */

static struct view named_field(struct view field)
{
    return field.size > 0 ? field : (struct view){ NULL, 0 };
}

static struct merge_options record_options(const struct piece *piece)
{
    const struct compact_settings *settings = piece->order->settings;
    struct merge_options options = MERGE_OPTIONS;
    options.format = settings->format;
    options.key = named_field(settings->key);
    options.time = named_field(settings->time);
    options.headless = settings->headless;
    options.memory_bytes = piece->order->memory_bytes;
    options.record_bytes_max = CHUNK_RECORD_MAX;
    options.record_max_is_fixed = true;
    return options;
}

/* A store that lends files takes them as well, and syncs what it takes. */
static bool lent_any(const struct piece *piece)
{
    for (size_t i = 0; piece->lent && i < piece->order->source_count; i++)
        if (piece->lent[i].fd >= 0)
            return true;
    return false;
}

/* So many may each of the sources have: a merge of chunks that were let in never fails for them,
 * and where it does, one of the sources is to blame. */
static uint64_t rejects_of_all(const struct forge_order *order)
{
    uint64_t each = order->settings->rejects_max;
    return each > MERGE_REJECTS_ANY / order->source_count ? MERGE_REJECTS_ANY
                                                          : each * order->source_count;
}

static struct merge_options options_of(struct piece *piece)
{
    const struct compact_settings *settings = piece->order->settings;
    struct merge_options options = record_options(piece);
    options.coding = settings->coding;
    options.rejects_max = rejects_of_all(piece->order);
    options.threads = piece->files->threads;
    options.reject_path = piece->rejects;
    options.scratch_folder = piece->folder;
    options.intermediate = true;
    options.synced_later = lent_any(piece);
    options.progress.step = merge_step;
    options.progress.context = piece;
    if (settings->command.size > 0) {
        options.format = MERGE_EXEC;
        options.key = options.time = (struct view){ NULL, 0 };
        options.coding = MERGE_PLAIN;
        options.command.line = settings->command;
        options.command.time_limit = SPAN_MS(settings->command_limit_ms);
        options.command.program = piece->program;
        options.command.memory_bytes_max = piece->files->exec.memory_bytes_max;
        options.command.file_bytes_max = piece->files->exec.file_bytes_max;
        options.command.cpu_limit = piece->files->exec.cpu_limit;
    }
    return options;
}

static bool has_records(enum merge_format format)
{
    return format != MERGE_CONCAT && format != MERGE_EXEC;
}

/* A merge failed, or its rows are not those of the catalog: looks through the sources one by
 * one for the one that is to blame. Their bytes are those that were put: so it is how they
 * came. */
static void find_culprit(struct piece *piece)
{
    const struct forge_order *order = piece->order;
    struct merge_options options = record_options(piece);
    struct survey survey;
    struct hf_error error;
    for (size_t i = 0; i < order->source_count && has_records(options.format); i++) {
        if (!forge_goes_on(piece, 2 * piece->bytes))
            return;
        enum hf_status status =
            merge_survey(piece->files->env, &options, piece->paths[i], &survey, &error);
        bool unreadable = status == HF_CORRUPT || status == HF_INVALID;
        bool other = status == HF_OK && survey.rows_counted &&
                     ((order->sources[i].rows_known && survey.rows != order->sources[i].rows) ||
                      survey.malformed > order->settings->rejects_max);
        if (unreadable || other) {
            piece->product->culprit = i;
            return;
        }
    }
}

static void name_keys(const struct piece *piece, struct hf_error *error)
{
    for (size_t i = 0; i < piece->order->source_count; i++)
        scratch_rename(error, piece->paths[i], piece->order->sources[i].key);
    scratch_rename(error, piece->output, piece->order->output);
}

/* Failures of this machine are nobody's fault: no program, no room. A command that fails may
 * have a reason that lies in what it read. */
static enum hf_status judge_failure(struct piece *piece, enum hf_status status,
                                    const struct merge_result *result)
{
    bool command = piece->order->settings->command.size > 0;
    bool in_data = status == HF_INVALID || status == HF_CORRUPT || status == HF_UNSUPPORTED;
    if (status == HF_CANCELLED)
        return status;
    if (in_data && !command)
        find_culprit(piece);
    bool by_command = result->command_ended && !result->disk_full;
    piece->product->group_fault = command ? by_command : in_data;
    return status;
}

/* Rows that all sources have together, where all are known. */
static bool rows_of_sources(const struct forge_order *order, uint64_t *ret_rows)
{
    *ret_rows = 0;
    for (size_t i = 0; i < order->source_count; i++) {
        if (!order->sources[i].rows_known)
            return false;
        *ret_rows += order->sources[i].rows;
    }
    return true;
}

static enum hf_status check_rows(struct piece *piece, const struct merge_result *result,
                                 struct hf_error *error)
{
    struct forge_product *product = piece->product;
    uint64_t expected;
    product->rows_known = result->rows_counted;
    product->rows_in = result->rows_in;
    product->rows_out = result->rows_out;
    product->rows_superseded = result->rows_superseded;
    product->rows_rejected = result->rows_rejected;
    if (!result->rows_counted || !rows_of_sources(piece->order, &expected) ||
        expected == result->rows_in)
        return HF_OK;
    find_culprit(piece);
    product->group_fault = true;
    return error_set(error, HF_CORRUPT, "%" PRIu64 " rows were read, the catalog says %" PRIu64,
                     result->rows_in, expected);
}

/* ---- Commands ------------------------------------------------------------------------ */

static enum hf_status lie(struct piece *piece, struct hf_error *error)
{
    piece->product->group_fault = true;
    error_prefix(error, "the %s ended well, but",
                 piece->files->merger.merge ? "merger" : "command");
    return error->status;
}

static enum hf_status check_sources_unchanged(struct piece *piece, struct hf_error *error)
{
    for (size_t i = 0; i < piece->order->source_count; i++) {
        const struct forge_source *source = &piece->order->sources[i];
        uint64_t size = 0;
        uint32_t crc = 0;
        int fd = open(piece->paths[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        enum hf_status status = fd < 0
                                    ? forge_local_failure(error, errno, "open a source again")
                                    : forge_check_sum(fd, &size, &crc, error);
        if (fd >= 0)
            close(fd);
        bool same = size == source->size && crc == source->crc32c;
        if (status != HF_OK || (!same && RULE(CHECKSUM_ON_READ)))
            return error_set(error, HF_CORRUPT, "it changed or removed its input %.*s",
                             VIEW_ARGS(view_first(source->key, 120)));
    }
    return HF_OK;
}

/* What a command wrote is counted, and cannot be more than it read, nor nothing of something. */
static enum hf_status check_command_rows(struct piece *piece, struct hf_error *error)
{
    struct forge_product *product = piece->product;
    struct merge_options options = record_options(piece);
    struct survey survey;
    uint64_t rows_in;
    if (!has_records(options.format) || !rows_of_sources(piece->order, &rows_in))
        return HF_OK;
    enum hf_status status =
        merge_survey(piece->files->env, &options, piece->output, &survey, error);
    if (status == HF_CORRUPT || status == HF_INVALID)
        return error_set(error, HF_CORRUPT, "what it wrote cannot be read as %s",
                         merge_format_name(options.format));
    if (status != HF_OK || !survey.rows_counted)
        return status;
    if (survey.rows > rows_in || (survey.rows == 0 && rows_in > 0))
        return error_set(error, HF_CORRUPT, "it made %" PRIu64 " rows of %" PRIu64, survey.rows,
                         rows_in);
    if (survey.malformed > piece->order->settings->rejects_max)
        return error_set(error, HF_CORRUPT, "%" PRIu64 " rows that it wrote cannot be read",
                         survey.malformed);
    product->rows_known = true;
    product->rows_in = rows_in;
    product->rows_out = survey.rows;
    product->rows_superseded = rows_in - survey.rows;
    return HF_OK;
}

static enum hf_status check_command(struct piece *piece, const struct merge_result *result,
                                    struct hf_error *error)
{
    enum hf_status status = check_sources_unchanged(piece, error);
    if (status == HF_OK && result->bytes_out == 0 && piece->bytes > 0)
        status = error_set(error, HF_CORRUPT, "it wrote nothing");
    if (status == HF_OK)
        status = check_command_rows(piece, error);
    return status == HF_CORRUPT ? lie(piece, error) : status;
}

/* More than its sources hold, and this, no command can make of them by merging. */
#define COMMAND_BYTES_MORE (16 * MIB)

/* The largest file that a command may write; 0: nobody knows what its sources hold. */
static uint64_t command_bytes_max(struct piece *piece)
{
    struct merge_options options = record_options(piece);
    uint64_t all = 0, size = 0;
    struct hf_error error;
    for (size_t i = 0; i < piece->order->source_count; i++) {
        if (!has_records(options.format) || !forge_goes_on(piece, piece->bytes) ||
            merge_plain_size(piece->files->env, &options, piece->paths[i], &size, &error) !=
                HF_OK)
            return 0;
        all += size;
    }
    return all + COMMAND_BYTES_MORE;
}

/* Of two limits, of which 0 is none. */
static uint64_t stricter(uint64_t one, uint64_t other)
{
    return one == 0 || (other > 0 && other < one) ? other : one;
}

/* ---- A merger of the caller's -------------------------------------------------------- */

static bool task_goes_on(void *argument, uint64_t done)
{
    struct piece *piece = argument;
    return forge_goes_on(piece, piece->bytes + (done < piece->bytes ? done : piece->bytes));
}

/* It knows its own data: whom it blames is blamed, and what it cannot do is nobody's fault. */
static enum hf_status judge_merger(struct piece *piece, enum hf_status status,
                                   struct hf_error *error)
{
    struct forge_product *product = piece->product;
    bool in_data = status == HF_CORRUPT || status == HF_INVALID;
    if (error->status != status)
        error_set(error, status, "the merger failed, and did not say why");
    name_keys(piece, error);
    if (!in_data || product->culprit >= piece->order->source_count)
        product->culprit = FORGE_NOBODY;
    product->group_fault = in_data;
    forge_disk_is_full(piece);
    return status;
}

/* Where the format says what a row is, rows are counted by that, whatever the merger says. */
static enum hf_status check_merged(struct piece *piece, struct hf_error *error)
{
    struct stat info;
    enum hf_status status = check_sources_unchanged(piece, error);
    if (status == HF_OK && (lstat(piece->output, &info) != 0 || !S_ISREG(info.st_mode)))
        status = error_set(error, HF_CORRUPT, "there is no file");
    else if (status == HF_OK && info.st_size == 0 && piece->bytes > 0)
        status = error_set(error, HF_CORRUPT, "it wrote nothing");
    if (status == HF_OK)
        status = check_command_rows(piece, error);
    return status == HF_CORRUPT ? lie(piece, error) : status;
}

static enum hf_status merge_by_merger(struct piece *piece, struct hf_error *error)
{
    const struct forge_merger *merger = &piece->files->merger;
    const struct forge_task task = { .order = piece->order,
                                     .paths = piece->paths,
                                     .output = piece->output,
                                     .folder = piece->folder,
                                     .goes_on = task_goes_on,
                                     .argument = piece };
    struct forge_product *product = piece->product;
    error_clear(error);
    enum hf_status status = merger->merge(merger->argument, &task, product, error);
    if (status != HF_OK)
        return judge_merger(piece, status, error);
    product->culprit = FORGE_NOBODY;
    return check_merged(piece, error);
}

static enum hf_status merge(struct piece *piece, uint32_t *ret_crc, struct hf_error *error)
{
    struct merge_options options = options_of(piece);
    struct merge_result result;
    if (piece->files->merger.merge)
        return merge_by_merger(piece, error);
    if (options.format == MERGE_EXEC)
        options.command.file_bytes_max =
            stricter(options.command.file_bytes_max, command_bytes_max(piece));
    enum hf_status status =
        merge_files(piece->files->env, &options, piece->paths, piece->order->source_count,
                    piece->output, &result, error);
    if (status != HF_OK) {
        if (result.disk_full)
            atomic_store(&piece->disk_full, true);
        name_keys(piece, error);
        return judge_failure(piece, status, &result);
    }
    *ret_crc = result.crc32c;
    if (options.format == MERGE_EXEC)
        return check_command(piece, &result, error);
    return check_rows(piece, &result, error);
}

/* ---- Putting ------------------------------------------------------------------------- */

/* Whether the object that is there is the one that we put: our own first try may have landed. */
static enum hf_status compare_output(struct piece *piece, struct hf_error *error)
{
    const struct progress progress = { put_step, piece };
    const char *path = path_in(piece, "compare");
    uint64_t size = 0;
    uint32_t crc = 0;
    int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd < 0)
        return forge_local_failure(error, path ? errno : ENOMEM, "make a scratch file");
    enum hf_status status = forge_get_object(piece, piece->order->output, fd, &progress, error);
    if (status == HF_OK)
        status = forge_check_sum(fd, &size, &crc, error);
    close(fd);
    if (status == HF_OK && (size != piece->product->size || crc != piece->product->crc32c))
        status =
            error_set(error, HF_CONFLICT, "there is another object under the output's name");
    return status;
}

/* Puts until there is an answer: the name is ours, so to put it again changes nothing. */
static enum hf_status put_file(struct piece *piece, struct view key, int fd,
                               struct condition condition, struct hf_error *error)
{
    /* What others have written they may still write to. */
    bool give = !forge_by_others(piece);
    struct forge_files *files = piece->files;
    const struct progress progress = { put_step, piece };
    enum hf_status status = HF_OK;
    for (int i = 0; i < TRIES_MAX; i++) {
        struct put_call call = {
            .key = key, .condition = condition, .quiet = true, .give = give
        };
        status = store_put_file(files->store, &call, fd, &progress);
        *error = call.error;
        bool again = status == HF_UNSURE || status == HF_UNAVAILABLE || status == HF_TIMEOUT;
        if (!again || i + 1 == TRIES_MAX || !put_step(piece, 0, 0))
            break;
        env_sleep(files->env, env_jitter(files->env, SPAN_US(TRY_WAIT.us << i)));
    }
    return status;
}

/* Rows that could not be read are kept before what was made of the others can be committed. */
static enum hf_status put_rejects(struct piece *piece, struct hf_error *error)
{
    struct forge_product *product = piece->product;
    if (product->rows_rejected == 0)
        return HF_OK;
    int size = snprintf(product->rejects, sizeof product->rejects, "%s%.*s%s",
                        LAYOUT_KEPT_FOLDER, VIEW_ARGS(piece->order->output), LAYOUT_REJECTS);
    if (size < 0 || size >= (int)sizeof product->rejects)
        return error_set(error, HF_INVALID, "the output's name is too long");
    int fd = open(piece->rejects, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return forge_local_failure(error, errno, "open the rejected rows");
    enum hf_status status =
        put_file(piece, view_of(product->rejects), fd, (struct condition){ 0 }, error);
    close(fd);
    return status;
}

static enum hf_status put_output(struct piece *piece, uint32_t crc, struct hf_error *error)
{
    struct forge_product *product = piece->product;
    struct stat info;
    int fd = open(piece->output, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &info) != 0) {
        forge_local_failure(error, errno, "open what was merged");
        if (fd >= 0)
            close(fd);
        return error->status;
    }
    product->size = (uint64_t)info.st_size;
    product->crc32c = crc;
    enum hf_status status = HF_OK;
    if (forge_by_others(piece))
        status = forge_check_sum(fd, &product->size, &product->crc32c, error);
    if (status == HF_OK)
        status = put_rejects(piece, error);
    if (status == HF_OK && !forge_goes_on(piece, 2 * piece->bytes))
        status = forge_cancelled(error);
    if (status == HF_OK) {
        product->put_sent = true;
        status = put_file(piece, piece->order->output, fd, if_absent(), error);
        if (status == HF_CONFLICT)
            status = compare_output(piece, error);
    }
    close(fd);
    return status;
}

/* ---- The forge ----------------------------------------------------------------------- */

static enum hf_status name_files(struct piece *piece, struct hf_error *error)
{
    const struct forge_order *order = piece->order;
    size_t count = order->source_count;
    piece->paths = arena_take(&piece->arena, count * sizeof *piece->paths);
    piece->lent = arena_take(&piece->arena, count * sizeof *piece->lent);
    for (size_t i = 0; piece->lent && i < count; i++)
        piece->lent[i].fd = -1;
    piece->output = path_in(piece, "output");
    piece->rejects = path_in(piece, "rejects");
    if (!piece->paths || !piece->lent || !piece->output || !piece->rejects)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        piece->paths[i] = source_path(piece, i);
        piece->bytes += order->sources[i].size;
        if (!piece->paths[i])
            return error_no_memory(error);
    }
    return HF_OK;
}

static enum hf_status make_folder(struct piece *piece, struct hf_error *error)
{
    struct forge_files *files = piece->files;
    snprintf(piece->name, sizeof piece->name, "%" PRIuFAST64,
             atomic_fetch_add(&files->jobs, 1));
    int size = snprintf(piece->folder, sizeof piece->folder, "%s/%s", files->scratch.path,
                        piece->name);
    if (size < 0 || size >= (int)sizeof piece->folder - 32)
        return error_set(error, HF_INVALID, "the path of the scratch folder is too long");
    if (!scratch_make(&files->scratch, piece->name))
        return forge_local_failure(error, errno, "make a scratch folder");
    return HF_OK;
}

static enum hf_status work(struct piece *piece, struct hf_error *error)
{
    uint32_t crc = 0;
    enum hf_status status = name_files(piece, error);
    if (status == HF_OK)
        status = forge_fetch_all(piece, error);
    if (status == HF_OK)
        status = merge(piece, &crc, error);
    if (status == HF_OK)
        status = put_output(piece, crc, error);
    return status;
}

/* What the catalog lets one expect: sources that are copied, once more while they are sorted, and
 * the output. */
static uint64_t expected_bytes(const struct piece *piece)
{
    return 3 * piece->bytes + 16 * MIB;
}

/* There was no room for it. Where the disk was fit for it, being half empty or having more room
 * than one could expect to be needed, and what it took was at least half of that room: then it is
 * too large, and its group is blamed, halved, and in the end the one chunk that is too large alone
 * is left alone. Any other full disk is the fault of this machine. To be asked once its files are
 * removed. */
static void judge_room(struct piece *piece, struct hf_error *error)
{
    struct scratch_room before = piece->room, after = scratch_room(piece->files->scratch.path);
    char size[SIZE_TEXT_MAX];
    bool fit = before.free >= before.total / 2 || before.free >= expected_bytes(piece);
    if (before.free == 0 || !fit || after.free < before.free / 2)
        return;
    piece->product->group_fault = true;
    error_prefix(error, "it takes more scratch space than the %s that were free",
                 size_text(before.free, size));
}

/* A partition names its merger by the first word of its command. */
static enum hf_status find_merger(const struct forge_merger *merger,
                                  const struct compact_settings *settings,
                                  struct hf_error *error)
{
    struct view rest = settings->command, name = VIEW("");
    while (rest.size > 0 && name.size == 0)
        name = view_cut(&rest, ' ');
    if (!merger->name || view_equal(name, view_of(merger->name)))
        return HF_OK;
    if (name.size == 0)
        return error_set(error, HF_DENIED, "names no merger, and the one here is '%.60s'",
                         merger->name);
    return error_set(error, HF_DENIED, "is merged by '%.*s', and the merger here is '%.60s'",
                     VIEW_ARGS(view_first(name, 60)), merger->name);
}

/* No command runs but by this. */
static enum hf_status find_program(const struct forge_files *files,
                                   const struct compact_settings *settings,
                                   const char **ret_program, struct hf_error *error)
{
    *ret_program = NULL;
    if (files->merger.merge)
        return find_merger(&files->merger, settings, error);
    if (settings->command.size == 0)
        return HF_OK;
    return allow_exec_find(&files->exec, settings->command, ret_program, error);
}

static enum hf_status allows(struct forge *forge, const struct compact_settings *settings,
                             struct hf_error *error)
{
    const char *program;
    return find_program((struct forge_files *)(void *)forge, settings, &program, error);
}

static enum hf_status make(struct forge *forge, const struct forge_order *order,
                           struct forge_product *ret_product, struct hf_error *error)
{
    struct forge_files *files = (struct forge_files *)(void *)forge;
    struct piece piece = { .files = files,
                           .order = order,
                           .product = ret_product,
                           .arena = ARENA_INIT,
                           .shared = { .culprit = FORGE_NOBODY } };
    *ret_product = (struct forge_product){ .culprit = FORGE_NOBODY };
    if (order->memory_bytes < MERGE_MEMORY_MIN || order->source_count == 0)
        return error_set(error, HF_INVALID,
                         "a merge needs sources, and %zu MiB of memory at least",
                         MERGE_MEMORY_MIN / MIB);
    enum hf_status status = find_program(files, order->settings, &piece.program, error);
    if (status == HF_OK)
        status = make_folder(&piece, error);
    if (status != HF_OK)
        return status;
    piece.room = scratch_room(piece.folder);
    env_mutex_init(files->env, &piece.shared.mutex);
    env_cond_init(files->env, &piece.shared.changed);
    status = work(&piece, error);
    forge_give_back(&piece);
    env_cond_release(&piece.shared.changed);
    env_mutex_release(&piece.shared.mutex);
    scratch_remove(&files->scratch, piece.name);
    if (status != HF_OK && atomic_load(&piece.disk_full))
        judge_room(&piece, error);
    arena_release(&piece.arena);
    return status;
}

struct forge *forge_files_new(struct env *env, struct store *store, const char *scratch,
                              size_t threads, struct hf_error *error)
{
    struct forge_files *files = calloc(1, sizeof *files);
    if (!files) {
        error_no_memory(error);
        return NULL;
    }
    files->forge.make = make;
    files->forge.allows = allows;
    files->env = env;
    files->store = store;
    files->threads = threads;
    if (scratch_open(&files->scratch, env, scratch, error) != HF_OK) {
        free(files);
        return NULL;
    }
    return &files->forge;
}

void forge_files_allow(struct forge *forge, const struct allow_exec *allowed)
{
    struct forge_files *files = (struct forge_files *)(void *)forge;
    files->exec = *allowed;
}

void forge_files_use(struct forge *forge, const struct forge_merger *merger)
{
    struct forge_files *files = (struct forge_files *)(void *)forge;
    files->merger = *merger;
}

void forge_files_free(struct forge *forge)
{
    struct forge_files *files = (struct forge_files *)(void *)forge;
    if (!files)
        return;
    scratch_close(&files->scratch);
    free(files);
}
