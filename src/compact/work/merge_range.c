/* SPDX-License-Identifier: Apache-2.0 */
/* merge_range.c: finds where to cut the sources of a large merge. A cut must be the same key in
 * every source: otherwise two outputs would have versions of the same record. Samples decide only
 * how evenly the ranges are sized, never which records belong to a range. */
#include "compact/catalog/chunk_object.h"
#include "compact/work/merger_inside.h"

#include "base/check.h"
#include "base/parse.h"
#include "base/rule.h"
#include "merge/record_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAMPLES_PER_RANGE  32
#define SAMPLES_PER_SOURCE 4 /* at least */

/* How much is read to find one record, and to search all records: more if a record is longer. */
#define PROBE_BYTES     (16 * KIB)
#define BLOCK_BYTES     (256 * KIB)
#define BLOCK_BYTES_MAX (2 * CHUNK_RECORD_MAX)

/* ---- Reading records in the middle --------------------------------------------------- */

/* A sorted source, and the bytes of it that were read last. */
struct probed {
    const struct chunk *chunk;
    struct buffer block;
    uint64_t at; /* where the block starts */
};

struct dividing {
    struct file_merger *files;
    const struct merge_order *order;
    struct merge_options options;
    struct probed *sources;
    struct buffer key; /* of the record that was read last */
};

static enum hf_status read_source_block(struct dividing *dividing, struct probed *source,
                                        uint64_t at, uint64_t size, struct hf_error *error)
{
    uint64_t left = source->chunk->size - at;
    struct get_call call = chunk_get_call(source->chunk);
    call.offset = at;
    call.length = size < left ? size : left;
    call.body = &source->block;
    buffer_clear(&source->block);
    source->at = at;
    enum hf_status status = store_get(dividing->files->store, &call);
    *error = call.error;
    if (status == HF_OK && source->block.size != call.length)
        status = error_set(error, HF_CORRUPT, "%.*s is shorter than the catalog records",
                           VIEW_ARGS(view_first(source->chunk->key, 120)));
    return status;
}

/* Finds the first record that starts at `from` or later, in the block. False: the block does not
 * have all of it. */
static bool find_in_block(const struct probed *source, uint64_t from, uint64_t *ret_start,
                          struct view *ret_line)
{
    uint64_t before = from > 0 ? from - 1 : 0, end = source->at + source->block.size;
    if (source->block.size == 0 || before < source->at || before >= end)
        return false;
    struct view rest = view_from(buffer_view(&source->block), (size_t)(before - source->at));
    if (from > 0) {
        size_t line_end = view_find(rest, '\n');
        if (line_end == rest.size && end < source->chunk->size)
            return false;
        rest = view_from(rest, line_end + (line_end < rest.size));
    }
    size_t size = view_find(rest, '\n');
    if (size == rest.size && end < source->chunk->size)
        return false;
    *ret_start = end - rest.size;
    *ret_line = view_first(rest, size);
    return true;
}

/* The same, reading other bytes if needed. If there is no record, *ret_start is the end of the
 * source. The key is in dividing->key. */
static enum hf_status find_record(struct dividing *dividing, struct probed *source,
                                  uint64_t from, uint64_t *ret_start, struct hf_error *error)
{
    struct view line = VIEW("");
    uint64_t before = from > 0 ? from - 1 : 0, size = PROBE_BYTES;
    if (from >= source->chunk->size) {
        *ret_start = source->chunk->size;
        return HF_OK;
    }
    for (; !find_in_block(source, from, ret_start, &line); size *= 4) {
        if (size > BLOCK_BYTES_MAX)
            return error_set(error, HF_CORRUPT, "a record is longer than allowed");
        enum hf_status status = read_source_block(dividing, source, before, size, error);
        if (status != HF_OK)
            return status;
    }
    if (*ret_start >= source->chunk->size)
        return HF_OK;
    return merge_record_key(dividing->files->env, &dividing->options, line, &dividing->key,
                            error);
}

/* Reads the bytes between these offsets at once, unless the block has them. */
static enum hf_status read_between(struct dividing *dividing, struct probed *source,
                                   uint64_t low, uint64_t high, struct hf_error *error)
{
    uint64_t before = low > 0 ? low - 1 : 0;
    if (high - low > BLOCK_BYTES || (source->block.size > 0 && before >= source->at &&
                                     high <= source->at + source->block.size))
        return HF_OK;
    return read_source_block(dividing, source, before, high - before + PROBE_BYTES, error);
}

/* Where the records with this key or a greater one start, at `low` or later. */
static enum hf_status find_start(struct dividing *dividing, struct probed *source,
                                 struct view bound, uint64_t low, uint64_t *ret_start,
                                 struct hf_error *error)
{
    uint64_t high = source->chunk->size, start;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        enum hf_status status = read_between(dividing, source, low, high, error);
        if (status == HF_OK)
            status = find_record(dividing, source, middle, &start, error);
        if (status != HF_OK)
            return status;
        bool is_after = start >= source->chunk->size ||
                        view_compare(buffer_view(&dividing->key), bound) >= 0;
        if (is_after)
            high = middle;
        else
            low = start + 1;
    }
    return find_record(dividing, source, low, ret_start, error);
}

/* ---- Choosing the first keys --------------------------------------------------------- */

struct sample {
    struct view key;
    uint64_t weight; /* the bytes that it stands for */
};

static int compare_samples(const void *a, const void *b)
{
    return view_compare(((const struct sample *)a)->key, ((const struct sample *)b)->key);
}

/* Takes samples at equal distances in each source. */
static enum hf_status take_samples(struct dividing *dividing, size_t wanted, uint64_t bytes,
                                   struct arena *arena, struct sample *samples,
                                   size_t *ret_count, struct hf_error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < dividing->order->source_count; i++) {
        struct probed *source = &dividing->sources[i];
        uint64_t size = source->chunk->size, start;
        size_t own =
            SAMPLES_PER_SOURCE + (size_t)((double)wanted * (double)size / (double)bytes);
        for (size_t k = 0; k < own && size > 0; k++) {
            uint64_t from = (uint64_t)((double)size * (double)k / (double)own);
            enum hf_status status = find_record(dividing, source, from, &start, error);
            if (status != HF_OK)
                return status;
            if (start >= size)
                continue;
            struct view key = view_first(buffer_view(&dividing->key), MERGE_FROM_MAX / 2);
            samples[count] = (struct sample){ arena_copy(arena, key), size / own };
            if (!samples[count++].key.data)
                return error_no_memory(error);
        }
        if (dividing->order->go_on && !dividing->order->go_on(dividing->order->argument, 0, 1))
            return merge_cancelled(error);
    }
    if (count > 0)
        qsort(samples, count, sizeof *samples, compare_samples);
    *ret_count = count;
    return HF_OK;
}

/* Chooses ascending keys that cut the samples into parts of equal weight; fewer if many samples
 * have the same key. */
static size_t choose_bounds(const struct sample *samples, size_t count, size_t ranges,
                            struct view *bounds)
{
    uint64_t all = 0, passed = 0;
    size_t chosen = 0;
    for (size_t i = 0; i < count; i++)
        all += samples[i].weight;
    for (size_t i = 0; i < count && chosen + 1 < ranges; i++) {
        bool due = (double)passed >= (double)all * (double)(chosen + 1) / (double)ranges;
        /* The first range has the first sample, so that no range is empty. */
        struct view last = chosen > 0 ? bounds[chosen - 1] : samples[0].key;
        bool after = view_compare(samples[i].key, last) > 0;
        if (due && after)
            bounds[chosen++] = samples[i].key;
        passed += samples[i].weight;
    }
    return chosen;
}

static struct view in_hex(struct arena *arena, struct view bytes)
{
    char *text = arena_take(arena, 2 * bytes.size + 1);
    if (text)
        hex_encode(bytes.data, bytes.size, text);
    return (struct view){ text, text ? 2 * bytes.size : 0 };
}

/* ---- Dividing ------------------------------------------------------------------------ */

static enum hf_status make_ranges(struct dividing *dividing, const struct view *bounds,
                                  size_t count, struct arena *arena, struct range *ranges,
                                  struct hf_error *error)
{
    size_t sources = dividing->order->source_count;
    uint64_t *starts = arena_take(arena, (count + 1) * sources * sizeof *starts);
    if (!starts)
        return error_no_memory(error);
    ranges[0] = (struct range){ .from = VIEW(""), .starts = starts, .unknown = VIEW("") };
    for (size_t i = 0; i < sources; i++)
        starts[i] = 0;
    for (size_t r = 1; r <= count; r++) {
        uint64_t *own = starts + r * sources;
        ranges[r] = (struct range){ .from = in_hex(arena, bounds[r - 1]),
                                    .starts = own,
                                    .unknown = VIEW("") };
        if (!ranges[r].from.data)
            return error_no_memory(error);
        for (size_t i = 0; i < sources; i++) {
            enum hf_status status = find_start(dividing, &dividing->sources[i], bounds[r - 1],
                                               ranges[r - 1].starts[i], &own[i], error);
            if (status != HF_OK)
                return status;
        }
        if (dividing->order->go_on && !dividing->order->go_on(dividing->order->argument, 0, 1))
            return merge_cancelled(error);
    }
    return HF_OK;
}

static enum hf_status divide_into(struct dividing *dividing, size_t wanted, uint64_t bytes,
                                  struct arena *arena, struct range **ret_ranges,
                                  size_t *ret_count, struct hf_error *error)
{
    size_t sources = dividing->order->source_count, count = 0;
    size_t room = SAMPLES_PER_RANGE * wanted + (SAMPLES_PER_SOURCE + 1) * sources;
    struct sample *samples = arena_take(arena, room * sizeof *samples);
    struct view *bounds = arena_take(arena, wanted * sizeof *bounds);
    struct range *ranges = arena_take(arena, wanted * sizeof *ranges);
    if (!samples || !bounds || !ranges)
        return error_no_memory(error);
    enum hf_status status = take_samples(dividing, SAMPLES_PER_RANGE * wanted, bytes, arena,
                                         samples, &count, error);
    if (status != HF_OK)
        return status;
    size_t chosen = choose_bounds(samples, count, wanted, bounds);
    status = make_ranges(dividing, bounds, chosen, arena, ranges, error);
    *ret_ranges = ranges;
    *ret_count = chosen + 1;
    return status;
}

/* How many ranges there should be. 1: the merge cannot be divided, or is too small. */
static size_t ranges_wanted(const struct file_merger *files, const struct merge_order *order,
                            uint64_t *ret_bytes)
{
    const struct compact_settings *settings = order->settings;
    uint64_t bytes = 0;
    bool good = merge_records_are_lines(settings->format) && settings->key.size > 0 &&
                settings->command.size == 0 && !files->callback.merge;
    for (size_t i = 0; i < order->source_count; i++) {
        bytes += order->sources[i].size;
        good = good && merge_coding_of_name(order->sources[i].key) == HF_MERGE_PLAIN;
    }
    *ret_bytes = bytes;
    uint64_t wanted = bytes / settings->output_max + (bytes % settings->output_max > 0);
    uint64_t most = MERGE_STARTS_MAX / order->source_count;
    most = most < MERGE_RANGES_MAX ? most : MERGE_RANGES_MAX;
    return !good ? 1 : (size_t)(wanted < most ? wanted : most);
}

enum hf_status merge_divide(struct merger *merger, const struct merge_order *order,
                            struct arena *arena, struct range **ret_ranges, size_t *ret_count,
                            struct hf_error *error)
{
    struct file_merger *files = (struct file_merger *)(void *)merger;
    struct dividing dividing = { .files = files,
                                 .order = order,
                                 .options = compact_chunk_options(order->settings),
                                 .key = BUFFER_INIT(CHUNK_RECORD_MAX) };
    uint64_t bytes;
    size_t wanted = ranges_wanted(files, order, &bytes);
    *ret_count = 1;
    if (wanted < 2)
        return HF_OK;
    dividing.options.memory_bytes = order->memory_bytes;
    dividing.sources = arena_take(arena, order->source_count * sizeof *dividing.sources);
    if (!dividing.sources)
        return error_no_memory(error);
    for (size_t i = 0; i < order->source_count; i++)
        dividing.sources[i] = (struct probed){ .chunk = &order->sources[i],
                                               .block = BUFFER_INIT(2 * BLOCK_BYTES_MAX) };
    enum hf_status status =
        divide_into(&dividing, wanted, bytes, arena, ret_ranges, ret_count, error);
    /* If a record cannot be read, the merge of the whole group finds out why. */
    if (status == HF_CORRUPT || status == HF_INVALID || status == HF_NOT_FOUND) {
        *ret_count = 1;
        status = error_clear(error);
    }
    for (size_t i = 0; i < order->source_count; i++)
        buffer_release(&dividing.sources[i].block);
    buffer_release(&dividing.key);
    return status;
}

/* ---- Checking a part ----------------------------------------------------------------- */

/* Reads the first or the last line of a file. The caller releases the line. */
static enum hf_status read_edge_line(int fd, uint64_t size, bool last, struct buffer *line,
                                     struct hf_error *error)
{
    for (uint64_t block = 4 * KIB; block <= 4 * BLOCK_BYTES_MAX; block *= 4) {
        uint64_t taken = block < size ? block : size, at = last ? size - taken : 0;
        buffer_clear(line);
        if (!buffer_reserve(line, (size_t)taken))
            return error_no_memory(error);
        ssize_t got = pread(fd, line->data, (size_t)taken, (off_t)at);
        if (got != (ssize_t)taken)
            return merge_local_failure(error, got < 0 ? errno : EIO, "read a scratch file");
        struct view all = { line->data, (size_t)taken };
        struct view found = all;
        if (last) {
            if (found.size > 0 && found.data[found.size - 1] == '\n')
                found.size--;
            size_t start = found.size;
            while (start > 0 && found.data[start - 1] != '\n')
                start--;
            if (start == 0 && taken < size)
                continue;
            found = view_from(found, start);
        } else {
            size_t end = view_find(found, '\n');
            if (end == found.size && taken < size)
                continue;
            found = view_first(found, end);
        }
        memmove(line->data, found.data, found.size);
        line->size = found.size;
        return HF_OK;
    }
    return error_set(error, HF_CORRUPT, "a record is longer than allowed");
}

/* Compares a key with one that is given in hexadecimal, whose digits compare like the bytes. */
static int compare_with_hex(struct view key, struct view hex)
{
    char own[MERGE_FROM_MAX + 3];
    struct view start =
        view_first(key, MERGE_FROM_MAX / 2 + 1); /* decides, as `hex` is shorter */
    hex_encode(start.data, start.size, own);
    return view_compare((struct view){ own, 2 * start.size }, hex);
}

static enum hf_status check_line(struct merge_run *run, int fd, uint64_t size, bool last,
                                 struct hf_error *error)
{
    struct merge_options options = compact_chunk_options(run->order->settings);
    struct buffer line = BUFFER_INIT(4 * BLOCK_BYTES_MAX), key = BUFFER_INIT(CHUNK_RECORD_MAX);
    const struct merge_parts *parts = run->order->parts;
    options.memory_bytes = run->order->memory_bytes;
    enum hf_status status = read_edge_line(fd, size, last, &line, error);
    if (status == HF_OK)
        status = merge_record_key(run->files->env, &options, buffer_view(&line), &key, error);
    bool before = status == HF_OK && compare_with_hex(buffer_view(&key), parts->from) < 0;
    bool after = status == HF_OK && parts->to.size > 0 &&
                 compare_with_hex(buffer_view(&key), parts->to) >= 0;
    if (RULE(PARTS_HAVE_THEIR_KEYS) && (before || after))
        status = error_set(error, HF_CORRUPT, "a source is not sorted by key");
    buffer_release(&line);
    buffer_release(&key);
    return status;
}

enum hf_status merge_check_part(struct merge_run *run, const char *path, struct hf_error *error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &info) != 0) {
        merge_local_failure(error, errno, "open a scratch file");
        if (fd >= 0)
            close(fd);
        return error->status;
    }
    enum hf_status status = HF_OK;
    if (info.st_size > 0)
        status = check_line(run, fd, (uint64_t)info.st_size, /* last */ false, error);
    if (status == HF_OK && info.st_size > 0)
        status = check_line(run, fd, (uint64_t)info.st_size, /* last */ true, error);
    close(fd);
    return status;
}
