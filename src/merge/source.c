/* SPDX-License-Identifier: Apache-2.0 */
/* source.c: reads an input block by block and cuts it into batches. An input that changes while it
 * is being read is an error, because missing rows would go unnoticed. */
#include "merge/source.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Open and close ------------------------------------------------------------------ */

enum hf_status feed_init(struct feed *feed, const char *path, struct hf_error *error)
{
    struct stat info;
    *feed = (struct feed){ .path = path, .name = path, .run = -1 };
    if (stat(path, &info) != 0)
        return error_cannot_open(error, errno, path);
    if (!S_ISREG(info.st_mode))
        return error_set(error, HF_INVALID, "'%.*s' is %s", ERROR_PATH_MAX, path,
                         S_ISDIR(info.st_mode) ? "a folder, not a file" : "not a regular file");
    feed->size = (uint64_t)info.st_size;
    return HF_OK;
}

/* Returns UNAVAILABLE and sets too_wide: the merge may succeed with fewer inputs at a time. */
static enum hf_status too_wide(struct source *source, struct hf_error *error)
{
    source->too_wide = true;
    return error_set(error, HF_UNAVAILABLE,
                     "the memory setting is too small for records or windows of this size");
}

static enum hf_status charge(struct source *source, size_t bytes, struct hf_error *error)
{
    if (!budget_take(source->budget, bytes))
        return too_wide(source, error);
    source->charged += bytes;
    return HF_OK;
}

static enum hf_status open_feed(const struct feed *feed, int *ret_fd, bool *ret_too_many,
                                struct hf_error *error)
{
    struct stat info;
    int fd = feed->run >= 0 ? fcntl(feed->run, F_DUPFD_CLOEXEC, 0)
                            : open(feed->path, O_RDONLY | O_CLOEXEC);
    *ret_too_many = fd < 0 && errno == EMFILE;
    if (fd < 0)
        return error_from_errno(error, errno, "open");
    if (feed->run >= 0 && lseek(fd, 0, SEEK_SET) != 0) {
        close(fd);
        return error_from_errno(error, errno, "seek in a scratch file");
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return error_set(error, HF_INVALID, "it is not a regular file");
    }
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *ret_fd = fd;
    return HF_OK;
}

static void name_source(const struct source *source, struct hf_error *error)
{
    if (source->feed->name)
        error_about(error, source->feed->name);
}

/* If the name of a file says that it is compressed, but it is not, it must not be read as plain
 * records. */
static enum hf_status check_coding(const struct source *source, struct hf_error *error)
{
    if (!source->feed->path || !source->feed->name || source->feed->size == 0)
        return HF_OK;
    enum hf_merge_coding promised = merge_coding_of_name(view_of(source->feed->name));
    if (promised == HF_MERGE_PLAIN || promised == decoder_coding(source->decoder))
        return HF_OK;
    return error_set(error, HF_CORRUPT, "its name says %s, but its data is not",
                     hf_merge_coding_name(promised));
}

static enum hf_status open_decoder(struct source *source, struct hf_error *error)
{
    int fd = -1;
    enum hf_status status = open_feed(source->feed, &fd, &source->too_wide, error);
    if (status != HF_OK)
        return status;
    status = decoder_new(fd, source->feed->sum, source->budget, &source->decoder, error);
    if (status == HF_OK)
        return check_coding(source, error);
    close(fd);
    source->too_wide = status == HF_UNSUPPORTED;
    return status;
}

enum hf_status source_init(struct source *source, const struct feed *feed,
                           const struct source_options *options, struct hf_error *error)
{
    *source = (struct source){
        .feed = feed,
        .cutter = *options->like,
        .header = options->header,
        .budget = options->budget,
        .block_bytes = options->block_bytes,
        .batch_count = options->batch_count,
        .started = !options->header.data,
    };
    /* Their contents come from a block, whose size is limited and charged. */
    source->cutter.last_key = BUFFER_INIT(UINT32_MAX);
    source->cutter.scratch = BUFFER_INIT(UINT32_MAX);
    source->cutter.encoded = BUFFER_INIT(UINT32_MAX);
    source->cutter.fields = BUFFER_INIT(SIZE_MAX / 4);
    enum hf_status status =
        charge(source, source->batch_count * source_memory(source->block_bytes), error);
    for (size_t i = 0; i < source->batch_count; i++)
        if (status == HF_OK && !batch_init(&source->batches[i], source->block_bytes))
            status = error_no_memory(error);
    if (status == HF_OK)
        status = open_decoder(source, error);
    if (status != HF_OK)
        name_source(source, error);
    return status;
}

void source_release(struct source *source)
{
    for (size_t i = 0; i < source->batch_count; i++)
        batch_release(&source->batches[i]);
    buffer_release(&source->cutter.last_key);
    buffer_release(&source->cutter.scratch);
    buffer_release(&source->cutter.encoded);
    buffer_release(&source->cutter.fields);
    decoder_free(source->decoder);
    if (source->budget)
        budget_give(source->budget, source->charged + source->buffers_charged);
    *source = (struct source){ 0 };
}

/* ---- Blocks -------------------------------------------------------------------------- */

/* Reads until the block contains this many bytes, or the input ends. */
static enum hf_status read_block(struct source *source, struct batch *batch, size_t until,
                                 struct hf_error *error)
{
    enum hf_status status = HF_OK;
    while (status == HF_OK && !source->at_end && batch->filled < until) {
        size_t size = 0;
        status = decoder_read(source->decoder, batch->block + batch->filled,
                              until - batch->filled, &size, error);
        batch->filled += size;
        source->at_end = status == HF_OK && size == 0;
    }
    source->too_wide = source->too_wide || status == HF_UNSUPPORTED;
    batch->position = decoder_position(source->decoder);
    /* A file that was truncated or extended while it was being read would look like a complete
     * input. */
    if (source->at_end && source->feed->path && batch->position != source->feed->size)
        return error_set(error, HF_UNAVAILABLE, "the file changed while it was being read");
    if (source->at_end && source->feed->sum)
        *source->feed->sum = (struct merge_input_sum){
            .known = true,
            .size = batch->position,
            .crc32c = decoder_crc32c(source->decoder),
        };
    return status;
}

/* A block for one record need not be larger than the longest record and its end. */
static size_t block_bytes_max(const struct source *source)
{
    return source->cutter.record_bytes_max + 64;
}

static enum hf_status grow_block(struct source *source, struct batch *batch, size_t wanted,
                                 struct hf_error *error)
{
    if (wanted <= batch->capacity)
        return HF_OK;
    enum hf_status status = charge(source, wanted - batch->capacity, error);
    if (status != HF_OK)
        return status;
    char *block = realloc(batch->block, wanted + BLOCK_SLACK);
    if (!block)
        return error_no_memory(error);
    batch->block = block;
    batch->capacity = wanted;
    return HF_OK;
}

/* For an incomplete record: reads to the end of the block, or enlarges the block. */
static enum hf_status extend_block(struct source *source, struct batch *batch, size_t bytes_max,
                                   struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (batch->filled == batch->capacity) {
        size_t wanted = source->cutter.wanted;
        if (wanted <= batch->capacity)
            wanted = batch->capacity + batch->capacity / 2;
        status = grow_block(source, batch, wanted < bytes_max ? wanted : bytes_max, error);
    }
    return status == HF_OK ? read_block(source, batch, batch->capacity, error) : status;
}

/* ---- Records that are too long ------------------------------------------------------- */

/* Cuts a piece from a record that is too long. The bytes before `from` were already cut. Returns
 * where the piece ends. */
static size_t cut_piece(struct source *source, struct batch *batch, size_t from)
{
    struct view bytes = { batch->block + from, batch->filled - from };
    bool ended = false;
    size_t size = bytes.size; /* of the first piece; it has no end, or it would be a row */
    if (source->skipping)
        size = source->cutter.format->skip(bytes, &ended);
    bool whole = ended || (source->at_end && from + size == batch->filled);
    if (!whole && bytes.data[size - 1] == '\r')
        size--; /* if an LF follows, the CR is part of the record end */
    struct view record = { bytes.data, size };
    if (ended)
        record.size--; /* its LF, or another record end */
    if (ended && record.size && source->cutter.format->is_text &&
        record.data[record.size - 1] == '\r')
        record.size--;
    cut_fault(&source->cutter, record, whole ? ROW_TOO_LONG : ROW_PIECE);
    source->skipping = !whole;
    return from + size;
}

/* ---- Cutting ------------------------------------------------------------------------- */

/* Cuts the block into rows. If the block contains no whole record, either the record is too long,
 * or the block is enlarged and more is read. */
static enum hf_status cut_block(struct source *source, struct batch *batch,
                                struct hf_error *error)
{
    struct cutter *cutter = &source->cutter;
    size_t from = source->rest_from;
    for (;;) {
        if (source->skipping)
            from = cut_piece(source, batch, from);
        from += cutter->format->cut(cutter, from, batch->filled - from, source->at_end);
        bool stuck = from == 0 && batch->row_count == 0 && !source->at_end &&
                     !batch->unsorted && !batch->keys.failed;
        if (!stuck)
            break;
        if (batch->filled >= block_bytes_max(source)) {
            from = cut_piece(source, batch, from);
            break;
        }
        enum hf_status status = extend_block(source, batch, block_bytes_max(source), error);
        if (status != HF_OK)
            return status;
    }
    source->rest_from = from;
    return batch->keys.failed ? error_no_memory(error) : HF_OK;
}

/* The key of the last good row must outlive its batch. */
static bool keep_last_key(struct cutter *cutter)
{
    if (!cutter->last_good || cutter->any_order)
        return true;
    struct view key = cut_last_key(cutter);
    buffer_clear(&cutter->last_key);
    return buffer_reserve(&cutter->last_key, key.size + KEY_SLACK) &&
           buffer_append(&cutter->last_key, key);
}

/* Charges the buffers to the budget. This is done afterwards, because the size of keys outside the
 * block is not known before. */
static enum hf_status charge_buffers(struct source *source, struct hf_error *error)
{
    const struct cutter *cutter = &source->cutter;
    size_t bytes = cutter->last_key.capacity + cutter->scratch.capacity +
                   cutter->encoded.capacity + cutter->fields.capacity;
    for (size_t i = 0; i < source->batch_count; i++)
        bytes += source->batches[i].keys.capacity + source->batches[i].texts.capacity;
    if (bytes <= source->buffers_charged)
        return HF_OK;
    if (!budget_take(source->budget, bytes - source->buffers_charged))
        return too_wide(source, error);
    source->buffers_charged = bytes;
    return HF_OK;
}

/* ---- The start ----------------------------------------------------------------------- */

/* Reads until the header is complete; ret_record->data is NULL if the input is empty. */
static enum hf_status find_header(struct source *source, struct batch *batch,
                                  struct view *ret_record, struct hf_error *error)
{
    enum hf_status status = read_block(source, batch, source->block_bytes, error);
    while (status == HF_OK) {
        struct view record = { NULL, 0 };
        struct view bytes = { batch->block, batch->filled };
        size_t size =
            source->cutter.format->header(&source->cutter, bytes, source->at_end, &record);
        if (batch->filled == 0 || (size && (record.data || source->at_end))) {
            source->rest_from = size;
            *ret_record = record;
            return HF_OK;
        }
        if (source->at_end || batch->filled >= HEADER_BYTES_MAX)
            return error_set(error, HF_INVALID, "its header does not end within 1 MiB");
        status = extend_block(source, batch, HEADER_BYTES_MAX, error);
    }
    return status;
}

enum hf_status source_read_header(struct source *source, struct buffer *to,
                                  struct hf_error *error)
{
    struct view record;
    enum hf_status status = find_header(source, &source->batches[0], &record, error);
    if (status == HF_OK && !buffer_append(to, record))
        status = error_no_memory(error);
    if (status != HF_OK)
        name_source(source, error);
    return status;
}

enum hf_status source_read(struct source *source, struct view *ret_bytes,
                           struct hf_error *error)
{
    struct batch *batch = &source->batches[0];
    batch->filled = 0;
    enum hf_status status = read_block(source, batch, source->block_bytes, error);
    *ret_bytes = (struct view){ batch->block, batch->filled };
    if (status != HF_OK)
        name_source(source, error);
    return status;
}

/* ---- Filling ------------------------------------------------------------------------- */

static enum hf_status fill_batch(struct source *source, struct batch *batch,
                                 struct hf_error *error)
{
    batch_clear(batch);
    source->cutter.batch = batch;
    source->cutter.last_good = 0;
    size_t rest = source->last ? source->last->filled - source->rest_from : 0;
    enum hf_status status = grow_block(source, batch, rest, error);
    if (status != HF_OK)
        return status;
    bool first = !source->last;
    struct view header = { NULL, 0 };
    /* The uncut bytes of the last batch come first. */
    if (rest > 0)
        memmove(batch->block, source->last->block + source->rest_from, rest);
    batch->filled = rest;
    source->last = batch;
    source->rest_from = 0;
    status = source->started ? read_block(source, batch, source->block_bytes, error)
                             : find_header(source, batch, &header, error);
    if (status == HF_OK && header.data && !view_equal(header, source->header)) {
        source->other_header = true;
        return error_set(error, HF_INVALID, "its header differs from that of the other inputs");
    }
    struct view bytes = { batch->block, batch->filled };
    if (first && !source->header.data && source->cutter.format->is_text)
        source->rest_from = format_mark_size(bytes);
    source->started = true;
    return status == HF_OK ? cut_block(source, batch, error) : status;
}

enum hf_status source_fill(struct source *source, struct batch *batch, struct hf_error *error)
{
    enum hf_status status;
    /* A block may contain nothing but empty lines. */
    do {
        status = fill_batch(source, batch, error);
    } while (status == HF_OK && batch->row_count == 0 && !batch->unsorted &&
             !(source->at_end && source->rest_from == batch->filled));
    if (status == HF_OK && !keep_last_key(&source->cutter))
        status = error_no_memory(error);
    if (status == HF_OK)
        status = charge_buffers(source, error);
    if (status != HF_OK) {
        name_source(source, error);
        return status;
    }
    batch->text = source->cutter.map ? batch->texts.data : batch->block;
    batch->rows[batch->row_count].fault = ROW_END;
    batch->rows_before = source->rows;
    source->rows += batch->row_count - source->skipping; /* the last may be a piece */
    return HF_OK;
}
