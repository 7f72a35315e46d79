/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h: lease tables as documents: where each table is stored, and how it is created, adopted,
 * and replaced when damaged. See docs/design.md, sections 5 and 6. */
#ifndef LOCK_TABLES_H
#define LOCK_TABLES_H

#include "doc/doc.h"
#include "lease/table.h"
#include "lock/limits.h"
#include "lock/placement.h"

/* Kinds of tables. Leases of one kind tend to have similar ttls. */
enum table_kind { TABLES_OF_NAMES, TABLES_OF_INODES, TABLES_OF_PATHS, TABLES_OF_CHUNKS };
#define TABLE_KINDS 4

/* What the tables of one namespace, or the locks of all shards, have in common. */
struct table_space {
    struct store *store;
    struct doc_clock *clock;
    struct lease_settings settings;
    struct limit_policy policy;
    bool of_shards; /* all shard locks have one fixed limit, SHARD_TTL_MAX */
    char ns[NAME_BYTES_MAX + 1];
    struct placement placement; /* of its paths */
    struct {
        struct env_mutex mutex;
        struct ttl_limit limits[TABLE_KINDS]; /* limits that we have seen recorded */
    } seen;
};

void table_space_init(struct table_space *space, const struct table_space *fields);
void table_space_release(struct table_space *space);

/* The kind of a table, by its key. */
enum table_kind table_kind_of(struct view key);

/* A limit for tables of this kind that we have seen recorded. */
struct ttl_limit table_limit(struct table_space *space, enum table_kind kind);

/* Records that leases of this ttl may be granted, and remembers the limit. */
enum hf_status table_record_limit(struct table_space *space, enum table_kind kind,
                                  struct span ttl, struct mono_time deadline,
                                  struct hf_error *error);

/* The body of such a document is a struct lease_table, and its context a struct table_space.
 *
 * A table that cannot be read is replaced. A copy of its bytes is kept, a mark is put in their
 * place, and the epoch is raised. The holders of the lost leases are unknown. So the new table has
 * a barrier, and grants nothing while the longest of these leases may still be valid. The holder of
 * the barrier is shown as HF_TABLE_REPLACED. */
extern const struct doc_type table_doc_type;

/* The same for shard locks. */
extern const struct doc_type shard_doc_type;

/* INVALID, with the reason, if a client cannot have this namespace. */
enum hf_status namespace_check(struct view ns, struct hf_error *error);

/* The key of a scope's table. Scopes that can conflict are in the same table. INVALID if there is
 * no such table (placement.h). */
enum hf_status table_key(const struct table_space *space, const struct scope *scope,
                         char ret_key[KEY_BYTES_MAX + 1], struct hf_error *error);

/* A server does not say where the tables are. In place of a table's key, a lease that it has
 * granted has the key of the name's table, if the lock is an exclusive lock of a name (a key), and
 * otherwise <ns> LAYOUT_SCOPE_FOLDER <scope>. UNSUPPORTED if a server has no locks of this kind.
 * */
enum hf_status table_key_at_server(const struct table_space *space, const struct scope *scope,
                                   bool exclusive, char ret_key[KEY_BYTES_MAX + 1],
                                   struct hf_error *error);

/* Whether this is such a key in place of a table's. */
bool table_key_is_at_server(struct view key);

/* The scope that either of these keys stands for; its views point into the key. */
bool table_scope_at_server(const struct table_space *space, struct view key,
                           struct scope *ret_scope);

/* Whether a table can have this key, in any namespace. Any other object must never be mistaken
 * for a damaged table. */
bool table_key_is_ours(struct view key);

/* The name whose table has this key, in this namespace. If the key is not that of a name's table,
 * or belongs to another namespace, returns false and an empty name. */
bool name_of_table(struct view ns, struct view key, char ret_name[NAME_BYTES_MAX + 1]);

/* Whether this is the key of the table of a partition's chunks and pins. */
bool table_key_is_of_chunks(struct view key);

/* Whether this is the key of a shard's lock. */
bool table_key_is_of_shard(struct view key);

/* Saves a copy of a damaged table's bytes for operators: .holdfast/kept/<key>.<random>. */
enum hf_status table_keep_aside(struct store *store, struct view key, struct view bytes,
                                struct mono_time deadline, struct hf_error *error);

#endif
