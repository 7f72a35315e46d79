/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_object.c: finds and reads the object of a chunk. An adopted object belongs to somebody
 * else, so it is never read without its ETag. */
#include "compact/catalog/chunk_object.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/rule.h"

struct view chunk_object_key(const struct chunk *chunk)
{
    return chunk_is_adopted(chunk) ? chunk->object : chunk->key;
}

struct get_call chunk_get_call(const struct chunk *chunk)
{
    struct get_call call = { .key = chunk_object_key(chunk) };
    if (RULE(READ_ADOPTED_BY_ETAG) && chunk_is_adopted(chunk))
        check(etag_set(&call.match, chunk->etag)); /* the catalog has checked its length */
    return call;
}

enum hf_status chunk_got(const struct chunk *chunk, const struct get_call *call,
                         struct hf_error *error)
{
    *error = call->error;
    if (!chunk_is_adopted(chunk) || error->status != HF_CONFLICT)
        return error->status;
    return error_set(
        error, HF_CORRUPT,
        "the object was rewritten after it was adopted: adopt it again, and discard "
        "this chunk with 'holdfast compact quarantine --discard'");
}

void object_identity(struct view key, struct view etag, char ret_file_id[FILE_ID_DIGITS + 1])
{
    unsigned char digest[SHA256_BYTES];
    struct hash_sha256_stream stream;
    hash_sha256_init(&stream);
    hash_sha256_add(&stream, VIEW("the object that is named\0"));
    hash_sha256_add(&stream, key);
    hash_sha256_add(&stream, (struct view){ "\0", 1 });
    hash_sha256_add(&stream, etag);
    hash_sha256_end(&stream, digest);
    hex_encode(digest, FILE_ID_DIGITS / 2, ret_file_id);
}
