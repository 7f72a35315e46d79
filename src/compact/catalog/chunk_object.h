/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_object.h: where the bytes of a chunk are, and how they are read. Every read of a chunk uses
 * these functions: the object of an adopted chunk has another key than the chunk, and may be
 * rewritten by its owner at any time. It is read only by If-Match with the ETag under which it was
 * adopted, so no read ever returns bytes of another version. */
#ifndef COMPACT_CATALOG_CHUNK_OBJECT_H
#define COMPACT_CATALOG_CHUNK_OBJECT_H

#include "compact/catalog/catalog.h"
#include "store/store.h"

/* The key of the object that contains the chunk's bytes. */
struct view chunk_object_key(const struct chunk *chunk);

/* A request for the chunk's bytes. */
struct get_call chunk_get_call(const struct chunk *chunk);

/* The status of such a request. CONFLICT becomes CORRUPT, with a sentence: the object was rewritten
 * after it was adopted, so the chunk no longer exists. */
enum hf_status chunk_got(const struct chunk *chunk, const struct get_call *call,
                         struct hf_error *error);

/* The identity of an object: the first 128 bits of the SHA-256 of its key and its ETag. It is never
 * the identity of a file (ingest_survey.c). */
void object_identity(struct view key, struct view etag, char ret_file_id[FILE_ID_DIGITS + 1]);

#endif
