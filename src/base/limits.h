/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h: all limits of the program. The relations between them are checked at compile time. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <assert.h>
#include <stddef.h>

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* Keys and ETags: the strictest limits of all stores (S3: 1,024 bytes). */
#define KEY_BYTES_MAX  1024
#define ETAG_BYTES_MAX 127

/* The largest object that is read into or written from memory; larger ones are streamed by
 * get_file and put_file. */
#define BODY_BYTES_MAX (256 * MIB)

/* The largest object (S3: 5 TiB, in parts). */
#define OBJECT_BYTES_MAX (5 * 1024 * GIB)

/* Entries per page of a listing (S3: 1,000). */
#define LIST_PAGE_MAX 1000

/* Requests per put_many, get_many or delete_many (S3's multi-object delete: 1,000). */
#define BATCH_MAX 1000

/* Objects that are changed together in one step. */
#define TOGETHER_MAX 32

/* Objects that are changed by one call, each by itself. */
#define EACH_MAX 64

/* A store URL with its query. */
#define URL_BYTES_MAX      2048
#define URL_PARAMETERS_MAX 16

/* The default timeout of a request without a deadline. */
#define STORE_TIMEOUT_MS 30000

/* Streams are copied in pieces of this size. */
#define STREAM_PIECE (256 * KIB)

/* An sqlite store keeps objects up to this size as rows, and larger ones as files beside the
 * database. */
#define SQLITE_INLINE_MAX (64 * KIB)

static_assert(KEY_BYTES_MAX < URL_BYTES_MAX, "a key must fit into a URL");
static_assert(SQLITE_INLINE_MAX < BODY_BYTES_MAX, "small objects are a part of all objects");

#endif
