/* SPDX-License-Identifier: Apache-2.0 */
/* sidecar.c: reads and swaps the sidecar of a plain shard. Every byte is checked, because a
 * deletion that is lost brings back what it deleted. */
#include "index/sidecar.h"

#include "base/check.h"
#include "base/hash.h"
#include "index/swap.h"

void sidecar_release(struct sidecar *sidecar)
{
    shard_head_release(&sidecar->head);
    buffer_release(&sidecar->text);
    *sidecar = (struct sidecar){ 0 };
}

static void name_sidecar(const struct index *index, struct shard_id shard,
                         char ret_key[KEY_BYTES_MAX + 1])
{
    check(index_key(index, ret_key, LAYOUT_SHARD_FOLDER "%s" LAYOUT_SIDECAR, shard.text));
}

/* ---- Reading ------------------------------------------------------------------------- */

enum hf_status sidecar_parse(struct sidecar *sidecar, struct hf_error *error)
{
    struct view text = buffer_view(&sidecar->text);
    struct shard_head *head = &sidecar->head;
    uint64_t size;
    if (shard_line_size(text, &size, error) != HF_OK)
        return error->status;
    if (size > text.size)
        return error_set(error, HF_CORRUPT, "it ends within its first line");
    if (shard_head_read(view_first(text, (size_t)size), head, error) != HF_OK)
        return error->status;
    sidecar->deletions = view_from(text, (size_t)size);
    if (!head->plain)
        return error_set(error, HF_CORRUPT, "it is not the sidecar of a shard");
    if (sidecar->deletions.size != head->deletions_size ||
        crc32c(0, sidecar->deletions) != head->deletions_crc32c)
        return error_set(error, HF_CORRUPT, "its deletions are damaged");
    return HF_OK;
}

enum hf_status sidecar_read(struct index *index, struct shard_id shard,
                            const struct etag *known, struct sidecar *ret_sidecar,
                            struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct sidecar sidecar = { .text = BUFFER_INIT(SIDECAR_BYTES_MAX) };
    name_sidecar(index, shard, key);
    struct get_call get = { .key = view_of(key), .body = &sidecar.text };
    if (known)
        get.none_match = *known;
    enum hf_status status = store_get(index->store, &get);
    *error = get.error;
    if (status == HF_OK) {
        sidecar.exists = true;
        sidecar.etag = get.info.etag;
        status = sidecar_parse(&sidecar, error);
    } else if (status == HF_INVALID) {
        status = error_set(error, HF_CORRUPT, "it is too large for a sidecar");
    }
    if (status == HF_OK || status == HF_NOT_FOUND) {
        *ret_sidecar = sidecar;
        return error_clear(error);
    }
    if (status != HF_NOT_MODIFIED)
        error_prefix(error, "%s", key);
    sidecar_release(&sidecar);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------- */

struct sidecar_put {
    struct index *index;
    struct shard_id shard;
    char key[KEY_BYTES_MAX + 1];
    const struct shard_head *head;
    struct view text;
    struct etag before; /* empty: there is none */
    struct etag after;
};

static enum hf_status put_sidecar(void *argument, struct hf_error *error)
{
    struct sidecar_put *job = argument;
    struct put_call put = { .key = view_of(job->key), .body = job->text, .quiet = true };
    put.condition = job->before.size > 0 ? if_match(&job->before) : if_absent();
    if (index_check_mark(job->index, error) != HF_OK)
        return error->status;
    enum hf_status status = store_put(job->index->store, &put);
    if (status == HF_NOT_FOUND)
        status = error_set(&put.error, HF_CONFLICT, "it is gone");
    job->after = put.etag;
    if (status != HF_OK) {
        *error = put.error;
        error_prefix(error, "%s", job->key);
    }
    return status;
}

/* The nonce tells our version from all others. */
static enum stored_version look_at_sidecar(void *argument)
{
    struct sidecar_put *job = argument;
    struct sidecar now;
    struct hf_error ignored;
    enum stored_version version = STORED_ANOTHER;
    if (sidecar_read(job->index, job->shard, /* known */ NULL, &now, &ignored) != HF_OK)
        return STORED_UNREADABLE;
    if (now.exists && strcmp(now.head.nonce, job->head->nonce) == 0)
        version = STORED_OURS;
    else if (etag_equal(&now.etag, &job->before))
        version = STORED_OLD;
    job->after = now.etag;
    sidecar_release(&now);
    return version;
}

enum hf_status sidecar_swap(struct index *index, struct shard_id shard, struct shard_head *head,
                            struct view deletions, struct etag *etag, struct hf_error *error)
{
    struct sidecar_put job = { .index = index, .shard = shard, .head = head, .before = *etag };
    struct buffer text = BUFFER_INIT(SIDECAR_BYTES_MAX);
    const struct swap swap = { index->env, put_sidecar, look_at_sidecar, &job };
    name_sidecar(index, shard, job.key);
    head->deletions_size = deletions.size;
    head->deletions_crc32c = crc32c(0, deletions);
    enum hf_status status = HF_OK;
    if (!shard_head_write(head, &text) || !buffer_append(&text, deletions))
        status = error_no_memory(error);
    job.text = buffer_view(&text);
    if (status == HF_OK)
        status = swap_object(&swap, error);
    if (status == HF_OK)
        *etag = job.after;
    buffer_release(&text);
    return status;
}
