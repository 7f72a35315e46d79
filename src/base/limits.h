/* limits.h: every bound of the program, in one place, related to each other at compile time. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <assert.h>
#include <stddef.h>

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* Keys and ETags, as the narrowest of the stores takes them (S3: 1,024 bytes). */
#define KEY_BYTES_MAX  1024
#define ETAG_BYTES_MAX 127

/* One object read into or written from memory; larger ones are streamed by get_file, put_file.
 */
#define BODY_BYTES_MAX (256 * MIB)

/* The largest object (S3: 5 TiB, in parts). */
#define OBJECT_BYTES_MAX (5 * 1024 * GIB)

/* Entries of one page of a listing (S3: 1,000). */
#define LIST_PAGE_MAX 1000

/* Requests of one put_many, get_many or delete_many (S3's multi-object delete: 1,000). */
#define BATCH_MAX 1000

/* A store URL with its query. */
#define URL_BYTES_MAX      2048
#define URL_PARAMETERS_MAX 16

/* A request that names no deadline of its own may take this long. */
#define STORE_TIMEOUT_MS 30000

/* Streams are moved in pieces of this size. */
#define STREAM_PIECE (256 * KIB)

/* Objects up to this size are rows of an sqlite store, larger ones files beside it. */
#define SQLITE_INLINE_MAX (64 * KIB)

static_assert(KEY_BYTES_MAX < URL_BYTES_MAX, "a key must fit into a URL");
static_assert(SQLITE_INLINE_MAX < BODY_BYTES_MAX, "small objects are a part of all objects");

#endif
