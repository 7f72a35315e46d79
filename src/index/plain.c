/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c: writes a plain shard and its sidecar, one after the other, and reads both again before
 * entries may be cleared. plain.h has the rules; cursor.c reads the pair. */
#include "index/plain.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "index/swap.h"

/* ---- The shard ----------------------------------------------------------------------- */

struct plain_put {
    const struct plain_fold *fold;
    struct etag after;
};

static enum hf_status put_plain(void *argument, struct hf_error *error)
{
    struct plain_put *job = argument;
    const struct shard_cursor *cursor = job->fold->cursor;
    struct put_call put = { .key = view_of(cursor->object) };
    put.condition = cursor->etag.size > 0 ? if_match(&cursor->etag) : if_absent();
    if (index_check_mark(job->fold->index, error) != HF_OK)
        return error->status;
    enum hf_status status =
        object_writer_put(&job->fold->writer->writer, job->fold->index->store, VIEW(""), &put);
    if (status == HF_NOT_FOUND)
        status = error_set(&put.error, HF_CONFLICT, "it is gone");
    MUTANT(mutant_takes_plain_for_stored(&status));
    job->after = put.etag;
    if (status != HF_OK) {
        *error = put.error;
        error_prefix(error, "%s", cursor->object);
    }
    return status;
}

/* Whether these bytes are those of the new shard, by the checksums of its blocks. */
static bool has_blocks_of(struct view text, const struct shard_head *head)
{
    if (text.size != head->size)
        return false;
    for (size_t i = 0; i < head->block_count; i++) {
        const struct shard_block *block = &head->blocks[i];
        struct view bytes = view_first(view_from(text, (size_t)block->at), (size_t)block->size);
        if (crc32c(0, bytes) != block->crc32c)
            return false;
    }
    return true;
}

/* A plain shard has no nonce, but a shard with the same bytes is as good as ours. */
static enum stored_version look_at_plain(void *argument)
{
    struct plain_put *job = argument;
    const struct shard_cursor *then = job->fold->cursor;
    struct buffer text = BUFFER_INIT(PLAIN_BYTES_MAX);
    struct get_call get = { .key = view_of(then->object), .body = &text };
    enum hf_status status = store_get(then->index->store, &get);
    enum stored_version version = STORED_ANOTHER;
    if (status != HF_OK && status != HF_NOT_FOUND && status != HF_INVALID)
        version = STORED_UNREADABLE;
    else if (status == HF_OK && has_blocks_of(buffer_view(&text), &job->fold->writer->head))
        version = STORED_OURS;
    else if (status == HF_OK ? etag_equal(&get.info.etag, &then->etag)
                             : status == HF_NOT_FOUND && then->etag.size == 0)
        version = STORED_OLD;
    job->after = get.info.etag;
    buffer_release(&text);
    return version;
}

static enum hf_status swap_plain(const struct plain_fold *fold, struct etag *ret_etag,
                                 struct hf_error *error)
{
    struct plain_put job = { .fold = fold };
    const struct swap swap = { fold->index->env, put_plain, look_at_plain, &job };
    enum hf_status status = swap_object(&swap, error);
    *ret_etag = job.after;
    return status;
}

/* Whether it is too late to write the shard (rule 6). */
static enum hf_status check_age(const struct plain_fold *fold, struct hf_error *error)
{
    const struct index *index = fold->index;
    struct span d = index->client ? client_settings(index->client)->late_bound
                                  : lease_settings_default().late_bound;
    if (mono_since(env_now(index->env), fold->cursor->opened).us <= d.us / 2)
        return HF_OK;
    return error_set(error, HF_CONFLICT, "%s: it was read too long ago", fold->cursor->object);
}

/* ---- The sidecar --------------------------------------------------------------------- */

/* Adds the new deletions to those of the old sidecar. Nothing is dropped yet. The seal is, because
 * the new deletions may be older than what was sealed. */
static enum hf_status announce_deletions(const struct plain_fold *fold, struct etag *etag,
                                         struct hf_error *error)
{
    const struct sidecar *old = &fold->cursor->sidecar;
    const struct shard_head *new = &fold->writer->head;
    struct buffer deletions = BUFFER_INIT(2 * DELETIONS_MAX);
    struct shard_head head = { .plain = true,
                               .token = new->token,
                               .writes = new->writes,
                               .version = new->version,
                               .schema_hash = new->schema_hash,
                               .deleted = old->head.deleted + new->deleted,
                               .has_floor = old->head.has_floor,
                               .floor = old->head.floor,
                               .of = fold->cursor->etag };
    env_random_hex(fold->index->env, NONCE_SIZE, head.nonce);
    buffer_append(&deletions, old->deletions);
    enum hf_status status = HF_OK;
    if (!buffer_append(&deletions, buffer_view(&fold->writer->deletions)))
        status =
            error_set(error, HF_INVALID, "%s has too many deletions", fold->cursor->object);
    if (status == HF_OK)
        status = sidecar_swap(fold->index, fold->cursor->shard, &head, buffer_view(&deletions),
                              etag, error);
    buffer_release(&deletions);
    return status;
}

/* ---- Reading back -------------------------------------------------------------------- */

static enum hf_status check_shown(struct shard_cursor *cursor, const struct record *folded,
                                  struct hf_error *error)
{
    struct record found;
    enum hf_status status = shard_cursor_find(cursor, folded->key, &found, error);
    if (status == HF_NOT_FOUND || (status == HF_OK && record_compare(&found, folded) < 0))
        status = error_set(error, HF_CONFLICT,
                           "%s: another program has written it, without the records that were "
                           "folded into it",
                           cursor->object);
    return status;
}

/* Whether readers of the pair find everything that was folded. */
static enum hf_status read_back(const struct plain_fold *fold, struct hf_error *error)
{
    struct shard_cursor cursor;
    enum hf_status status =
        shard_cursor_open(&cursor, fold->index, fold->cursor->shard, SHARD_READ_LARGE, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0, behind; i < fold->count && status == HF_OK; i = behind) {
        const struct record *latest = record_latest(fold->records, i, fold->count, &behind);
        if (!latest->refused && !latest->moot)
            status = check_shown(&cursor, latest, error);
    }
    shard_cursor_close(&cursor);
    return status;
}

enum hf_status plain_swap(const struct plain_fold *fold, struct hf_error *error)
{
    struct shard_head *head = &fold->writer->head;
    struct etag sidecar = fold->cursor->sidecar.etag;
    enum hf_status status = check_age(fold, error);
    if (RULE(DELETION_BEFORE_RECORD_GOES) && status == HF_OK && fold->adds_deletions)
        status = announce_deletions(fold, &sidecar, error);
    if (status == HF_OK)
        status = check_age(fold, error);
    if (status == HF_OK)
        status = swap_plain(fold, &head->of, error);
    if (status == HF_OK)
        status = sidecar_swap(fold->index, fold->cursor->shard, head,
                              buffer_view(&fold->writer->deletions), &sidecar, error);
    if (RULE(PLAIN_SHARDS_ARE_READ_BACK) && status == HF_OK)
        status = read_back(fold, error);
    return status;
}
