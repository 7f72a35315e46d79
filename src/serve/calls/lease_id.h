/* SPDX-License-Identifier: Apache-2.0 */
/* lease_id.h: the ids of leases on the wire. A client that has a lease's id may renew and release
 * the lease and change its key, so an id must not be guessed, and is never listed.
 *
 * The id is the first 128 bits of HMAC-SHA256(secret, scope and text of the lease), in hexadecimal.
 * So an id is valid only together with the scope under which the lease was acquired. The text
 * (hf_lock_text) contains the table, the lease's own id and its token, and identifies the lease
 * forever. The secret has 256 random bits. It is an object of the bucket, so that all servers of
 * the bucket compute the same ids, and a server that was restarted still knows them. A client that
 * can read that object can also write the leases themselves.
 *
 * From an id to its lease: the leases of the lock are read and their ids are compared. A bounded
 * cache saves this read; a server can lose it at any time. Any thread may use the ids. */
#ifndef SERVE_CALLS_LEASE_ID_H
#define SERVE_CALLS_LEASE_ID_H

#include "env/env.h"
#include "holdfast.h"
#include "serve/core/core.h"

#define LEASE_SECRET_BYTES 32
#define LEASE_SECRET_KEY   ".holdfast/serve.json"

/* Reads the secret of a bucket, and creates it if there is none. CORRUPT if it cannot be read. */
enum hf_status lease_secret_load(struct env *env, struct hf_store *store,
                                 unsigned char ret_secret[LEASE_SECRET_BYTES],
                                 struct hf_error *error);

struct lease_ids;

/* `cached_max` leases are cached; the one that was added first is dropped first. NULL if memory
 * runs out. */
struct lease_ids *lease_ids_new(struct env *env, const unsigned char secret[LEASE_SECRET_BYTES],
                                size_t cached_max);
void lease_ids_free(struct lease_ids *ids);

/* The id of a lease, which is cached. */
void lease_id_of(struct lease_ids *ids, const char *scope, const char *lease,
                 char ret_id[CORE_LEASE_ID_SIZE + 1]);

/* The lease with this id among those of a scope. NOT_FOUND: there is none. Without a client, only
 * the cache is searched; UNSUPPORTED: it is not there. */
enum hf_status lease_id_find(struct lease_ids *ids, struct hf_client *client, const char *scope,
                             const char *id, char ret_lease[HF_LEASE_TEXT_MAX],
                             struct hf_error *error);

/* Memory for orders (lease_order.c), of one size, which is kept to be used again. NULL if memory
 * runs out. Only the thread that runs the loop may call these. */
void *lease_ids_take_block(struct lease_ids *ids, size_t size);
void lease_ids_give_block(struct lease_ids *ids, void *block);

/* Drops a lease from the cache, because it has ended. */
void lease_id_forget(struct lease_ids *ids, const char *id);

#endif
