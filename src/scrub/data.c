/* SPDX-License-Identifier: Apache-2.0 */
/* data.c: reads the objects that contain data, and compares their bytes with the checksum in the
 * document that refers to them: bodies of fenced objects, chunks and shards. States of keys have
 * only a size. Other objects are read to find out whether they can be. */
#include "scrub/scrub_inside.h"

#include "base/checksum.h"
#include "base/hash.h"
#include "compact/catalog/chunk_object.h"
#include "index/sidecar.h"
#include "key/key.h"
#include "lock/fenced.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Any object ---------------------------------------------------------------------- */

static void take_nothing(void *argument, struct view piece)
{
    (void)argument;
    (void)piece;
}

enum hf_status scrub_data(struct scrub *scrub, struct view key, struct fault *fault,
                          struct hf_error *error)
{
    struct get_call get = { .key = key };
    struct object_info info;
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = scrub_read(scrub, &get, take_nothing, NULL, &info, &why);
    return scrub_note_read(scrub, status, &why, fault, error);
}

/* Reads an object that another document refers to. *ret_read is false if it could not be, which
 * is then the fault. */
static enum hf_status read_referred(struct scrub *scrub, const struct get_call *get,
                                    scrub_take *take, void *argument,
                                    struct object_info *ret_info, bool *ret_read,
                                    struct fault *fault, struct hf_error *error)
{
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = scrub_read(scrub, get, take, argument, ret_info, &why);
    enum hf_status noted = scrub_note_read(scrub, status, &why, fault, error);
    *ret_read = noted == HF_OK && status == HF_OK;
    if (noted == HF_OK && status == HF_NOT_FOUND)
        fault_set(fault, HF_SCRUB_MISSING, "");
    if (fault->found)
        snprintf(fault->key, sizeof fault->key, "%.*s", VIEW_ARGS(get->key));
    return noted;
}

static void fault_set_at(struct fault *fault, enum hf_scrub_kind kind, struct view key,
                         const char *why)
{
    fault_set(fault, kind, why);
    snprintf(fault->key, sizeof fault->key, "%.*s", VIEW_ARGS(key));
}

static void fault_set_size(struct fault *fault, struct view key, uint64_t found,
                           uint64_t expected)
{
    char why[HF_WHY_MAX];
    snprintf(why, sizeof why, "it has %" PRIu64 " bytes, expected %" PRIu64, found, expected);
    fault_set_at(fault, HF_SCRUB_DAMAGED, key, why);
}

/* ---- Fenced objects ------------------------------------------------------------------ */

static void take_into_hash(void *argument, struct view piece)
{
    hash_stream_add(argument, piece);
}

static enum hf_status scrub_fenced_body(struct scrub *scrub, const struct fence *fence,
                                        struct fault *fault, struct hf_error *error)
{
    struct get_call get = { .key = fence_text(fence) };
    struct hash_stream hash;
    struct object_info info;
    bool read;
    if (scrub_skips(scrub, fence->size))
        return HF_OK;
    hash_stream_init(&hash);
    enum hf_status status =
        read_referred(scrub, &get, take_into_hash, &hash, &info, &read, fault, error);
    if (status != HF_OK || !read)
        return status;
    scrub->report->objects++;
    scrub->report->checked++;
    if (info.size != fence->size)
        fault_set_size(fault, get.key, info.size, fence->size);
    else if (hash_stream_xxh3(&hash) != fence->xxh3)
        fault_set_at(fault, HF_SCRUB_DAMAGED, get.key, "it is not the body that was written");
    return HF_OK;
}

/* The rest of an object that is not fenced. */
static enum hf_status scrub_rest(struct scrub *scrub, struct view key,
                                 const struct object_info *info, struct fault *fault,
                                 struct hf_error *error)
{
    struct get_call get = { .key = key, .match = info->etag, .offset = scrub->text.size };
    struct object_info again;
    struct hf_error why = { .status = HF_OK };
    if (info->size <= scrub->text.size || scrub->options->documents ||
        scrub_skips(scrub, info->size))
        return HF_OK;
    enum hf_status status = scrub_read(scrub, &get, take_nothing, NULL, &again, &why);
    return scrub_note_read(scrub, status, &why, fault, error);
}

enum hf_status scrub_fenced(struct scrub *scrub, struct view key,
                            const struct object_info *info, struct fault *fault,
                            struct hf_error *error)
{
    struct fence fence;
    struct hf_error why;
    struct view text = buffer_view(&scrub->text);
    struct view line = view_first(text, view_find(text, '\n') + 1);
    enum hf_status status = fence_decode(text, &fence, &why);
    if (status == HF_MISMATCH && checksum_check(line) != CHECKSUM_WRONG)
        return scrub_rest(scrub, key, info, fault, error);
    scrub->report->documents++;
    scrub_count_checksum(scrub, line, fault);
    if (status == HF_OK && fence.kind == FENCE_BODY &&
        !fenced_is_body_of(key, fence_text(&fence)))
        status = fenced_strange_body(&why);
    if (status == HF_UNSUPPORTED)
        fault_set(fault, HF_SCRUB_TOO_NEW, why.why);
    else if (status == HF_MISMATCH) /* its first bytes are lost, by which a fence is known */
        fault_set(fault, HF_SCRUB_DAMAGED, CHECKSUM_MISTAKE);
    else if (status != HF_OK)
        fault_set(fault, HF_SCRUB_DAMAGED, why.why);
    else if (info->size > text.size)
        fault_set(fault, HF_SCRUB_DAMAGED, "it is too long for a fenced object");
    else if (fence.kind == FENCE_INLINE && hash_xxh3(fence_text(&fence)) != fence.xxh3)
        fault_set(fault, HF_SCRUB_DAMAGED, "it is not the body that was written");
    else if (fence.kind == FENCE_BODY && !scrub->options->documents)
        return scrub_fenced_body(scrub, &fence, fault, error);
    return HF_OK;
}

/* ---- States of keys ------------------------------------------------------------------ */

static enum hf_status scrub_state_body(struct scrub *scrub, struct view table_key,
                                       const struct state_version *version, struct fault *fault,
                                       struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1], name[NAME_BYTES_MAX + 1];
    struct view rest = table_key, ns = view_cut(&rest, '/');
    struct body_name body = { .token = version->token };
    struct object_info info;
    bool read;
    memcpy(body.etag, version->etag, sizeof body.etag);
    if (!name_of_table(ns, table_key, name) || !key_body_key(ns, view_of(name), &body, key) ||
        scrub_skips(scrub, version->size))
        return HF_OK;
    struct get_call get = { .key = view_of(key) };
    enum hf_status status =
        read_referred(scrub, &get, take_nothing, NULL, &info, &read, fault, error);
    if (status != HF_OK || !read)
        return status;
    scrub->report->objects++;
    if (info.size != version->size)
        fault_set_size(fault, get.key, info.size, version->size);
    return HF_OK;
}

enum hf_status scrub_states(struct scrub *scrub, struct view table_key, struct view state,
                            struct fault *fault, struct hf_error *error)
{
    struct key_state decoded;
    struct hf_error why;
    state_init(&decoded);
    enum hf_status status = state_read(state, &decoded, &why);
    if (status == HF_CORRUPT) {
        fault_set(fault, HF_SCRUB_DAMAGED, why.why);
        status = HF_OK;
    } else if (status != HF_OK) {
        *error = why;
    }
    if (status == HF_OK && decoded.now.has_body)
        status = scrub_state_body(scrub, table_key, &decoded.now, fault, error);
    if (status == HF_OK && !fault->found && decoded.staged && decoded.stage.changes &&
        decoded.stage.next.has_body)
        status = scrub_state_body(scrub, table_key, &decoded.stage.next, fault, error);
    state_release(&decoded);
    return status;
}

/* ---- Shards -------------------------------------------------------------------------- */

/* The blocks of a shard, compared as their bytes arrive. */
struct block_reader {
    const struct shard_head *head;
    size_t block;
    uint64_t done; /* bytes of that block */
    uint32_t crc;
    const char *why; /* what is wrong, or NULL */
};

static void take_blocks(void *argument, struct view piece)
{
    struct block_reader *reader = argument;
    while (piece.size > 0 && !reader->why) {
        if (reader->block == reader->head->block_count) {
            reader->why = "it is longer than its first line says";
            return;
        }
        const struct shard_block *block = &reader->head->blocks[reader->block];
        uint64_t left = block->size - reader->done;
        struct view part = view_first(piece, left < piece.size ? (size_t)left : piece.size);
        reader->crc = crc32c(reader->crc, part);
        reader->done += part.size;
        piece = view_from(piece, part.size);
        if (reader->done < block->size)
            return;
        if (reader->crc != block->crc32c)
            reader->why = "the checksum of one of its blocks does not match";
        reader->block++;
        reader->done = 0;
        reader->crc = 0;
    }
}

static const char *end_blocks(const struct block_reader *reader)
{
    if (!reader->why && reader->block < reader->head->block_count)
        return "it is shorter than its first line says";
    return reader->why;
}

/* A shard with its line, which must be complete before the first block can be compared. */
struct shard_reader {
    struct buffer line;
    uint64_t line_size; /* 0: unknown */
    bool has_head;
    struct shard_head head;
    struct block_reader blocks;
    enum hf_status status; /* of the line */
    struct hf_error why;
};

static void take_shard(void *argument, struct view piece)
{
    struct shard_reader *reader = argument;
    if (reader->status != HF_OK)
        return;
    if (reader->has_head) {
        take_blocks(&reader->blocks, piece);
        return;
    }
    if (!buffer_append(&reader->line, piece)) {
        reader->status = error_no_memory(&reader->why);
        return;
    }
    struct view text = buffer_view(&reader->line);
    if (reader->line_size == 0)
        reader->status = shard_line_size(text, &reader->line_size, &reader->why);
    if (reader->status != HF_OK || text.size < reader->line_size)
        return;
    size_t size = (size_t)reader->line_size;
    reader->status = shard_head_read(view_first(text, size), &reader->head, &reader->why);
    reader->has_head = reader->status == HF_OK;
    reader->blocks.head = &reader->head;
    if (reader->has_head)
        take_blocks(&reader->blocks, view_from(text, size));
}

/* A shard of an index that other programs write may consist of bare records, and so does a plain
 * shard. */
static bool may_be_bare(const struct scrub *scrub, const struct shard_reader *reader)
{
    struct view text = buffer_view(&reader->line);
    return !view_starts_with(text, VIEW("{\"format\":\"holdfast.")) &&
           (!scrub->index_is_known || scrub->index_is_plain || scrub->index_is_foreign);
}

static void judge_shard(struct scrub *scrub, const struct shard_reader *reader,
                        struct fault *fault)
{
    const char *why = reader->has_head ? end_blocks(&reader->blocks) : NULL;
    if (!reader->has_head && may_be_bare(scrub, reader))
        return;
    scrub->report->checked++;
    if (reader->status == HF_UNSUPPORTED)
        fault_set(fault, HF_SCRUB_TOO_NEW, reader->why.why);
    else if (reader->status != HF_OK)
        fault_set(fault, HF_SCRUB_DAMAGED, reader->why.why);
    else if (!reader->has_head)
        fault_set(fault, HF_SCRUB_DAMAGED, "it ends within its first line");
    else if (why)
        fault_set(fault, HF_SCRUB_DAMAGED, why);
}

enum hf_status scrub_shard(struct scrub *scrub, struct view key, struct fault *fault,
                           struct hf_error *error)
{
    struct shard_reader reader = { .line = BUFFER_INIT(SHARD_LINE_MAX + SCRUB_PIECE) };
    struct get_call get = { .key = key };
    struct object_info info;
    struct hf_error why = { .status = HF_OK };
    if (view_equal(view_of(scrub->compared), key)) /* it was read with its sidecar */
        return HF_OK;
    enum hf_status status = scrub_read(scrub, &get, take_shard, &reader, &info, &why);
    enum hf_status noted = scrub_note_read(scrub, status, &why, fault, error);
    if (status == HF_OK && reader.status == HF_UNAVAILABLE) {
        *error = reader.why;
        noted = reader.status;
    } else if (status == HF_OK) {
        fault->version = info.etag;
        judge_shard(scrub, &reader, fault);
    }
    shard_head_release(&reader.head);
    buffer_release(&reader.line);
    return noted;
}

/* The sidecar describes one version of its shard. Another program may have written a later one. */
enum hf_status scrub_sidecar(struct scrub *scrub, struct view key, struct fault *fault,
                             struct hf_error *error)
{
    struct sidecar sidecar = { .text = scrub->text }; /* only borrowed */
    struct block_reader blocks = { .head = &sidecar.head };
    char shard[KEY_BYTES_MAX + 1];
    struct object_info info;
    struct hf_error why = { .status = HF_OK };
    enum hf_status status = HF_OK, noted = HF_OK;
    snprintf(shard, sizeof shard, "%.*s" LAYOUT_SHARD,
             VIEW_ARGS(view_first(key, key.size - strlen(LAYOUT_SIDECAR))));
    if (sidecar_parse(&sidecar, &why) == HF_OK && sidecar.head.of.size > 0 &&
        !scrub_skips(scrub, sidecar.head.size)) {
        struct get_call get = { .key = view_of(shard), .match = sidecar.head.of };
        status = scrub_read(scrub, &get, take_blocks, &blocks, &info, &why);
        if (status != HF_CONFLICT) /* it has been replaced */
            noted = scrub_note_read(scrub, status, &why, fault, error);
        if (noted == HF_OK && status == HF_OK) {
            scrub->report->checked++;
            memcpy(scrub->compared, shard, sizeof shard);
            if (end_blocks(&blocks))
                fault_set_at(fault, HF_SCRUB_DAMAGED, view_of(shard), end_blocks(&blocks));
        }
    }
    shard_head_release(&sidecar.head);
    return noted;
}

/* ---- Chunks -------------------------------------------------------------------------- */

static void take_crc(void *argument, struct view piece)
{
    uint32_t *crc = argument;
    *crc = crc32c(*crc, piece);
}

enum hf_status scrub_chunk(struct scrub *scrub, const struct chunk *chunk, struct fault *fault,
                           struct hf_error *error)
{
    struct get_call get = chunk_get_call(chunk);
    struct object_info info;
    char why[HF_WHY_MAX];
    uint32_t crc = 0;
    bool read;
    *fault = (struct fault){ .found = false };
    enum hf_status status =
        read_referred(scrub, &get, take_crc, &crc, &info, &read, fault, error);
    if (status == HF_OK && fault->busy && chunk->object.size > 0)
        fault_set_at(fault, HF_SCRUB_DAMAGED, get.key,
                     "it no longer has the ETag under which it was adopted");
    if (status != HF_OK || !read)
        return status;
    if (info.size != chunk->size) {
        fault_set_size(fault, get.key, info.size, chunk->size);
    } else if (crc != chunk->crc32c) {
        snprintf(why, sizeof why, "its checksum is %08" PRIx32 ", expected %08" PRIx32, crc,
                 chunk->crc32c);
        fault_set_at(fault, HF_SCRUB_DAMAGED, get.key, why);
    }
    return HF_OK;
}
