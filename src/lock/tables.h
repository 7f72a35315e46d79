/* tables.h: lease tables as documents: where each is, how it is born, adopted, and replaced when it
 * is damaged. docs/design.md sections 5 and 6. */
#ifndef LOCK_TABLES_H
#define LOCK_TABLES_H

#include "doc/doc.h"
#include "lease/table.h"
#include "lock/limits.h"

/* Kinds of tables: leases of one kind tend to be as long. */
enum table_kind { TABLES_OF_NAMES, TABLES_OF_INODES, TABLES_OF_PATHS, TABLES_OF_CHUNKS };
#define TABLE_KINDS 4

/* What the tables of one namespace have in common, or the locks of all shards. */
struct table_space {
    struct store *store;
    struct doc_clock *clock;
    struct lease_settings settings;
    struct limit_policy policy;
    bool of_shards; /* these have one limit for all, SHARD_TTL_MAX */
    char ns[NAME_BYTES_MAX + 1];
    struct {
        struct env_mutex mutex;
        struct ttl_limit limits[TABLE_KINDS]; /* that we have seen recorded */
    } seen;
};

void table_space_init(struct table_space *space, const struct table_space *fields);
void table_space_release(struct table_space *space);

/* The kind of a table, by its key. */
enum table_kind table_kind_of(struct view key);

/* A limit of tables of this kind that we have seen recorded. */
struct ttl_limit table_limit(struct table_space *space, enum table_kind kind);

/* Has it recorded that leases of this ttl may be granted, and remembers so. */
enum hf_status table_record_limit(struct table_space *space, enum table_kind kind,
                                  struct span ttl, struct mono_time deadline,
                                  struct hf_error *error);

/* Bodies are struct lease_table, the context is the struct table_space. */
extern const struct doc_type table_doc_type;

/* The same for locks of shards. */
extern const struct doc_type shard_doc_type;

/* The key of the table in which a scope lives: what can conflict is in one table. */
enum hf_status table_key(const struct table_space *space, const struct scope *scope,
                         char ret_key[KEY_BYTES_MAX + 1], struct hf_error *error);

/* Whether there can be a table of this key, in any namespace: what is none is never to be taken for
 * one that is damaged. */
bool table_key_is_ours(struct view key);

/* The name whose table it is, in this namespace. False: it is of something else, or of another
 * namespace, and the name is empty. */
bool name_of_table(struct view ns, struct view key, char ret_name[NAME_BYTES_MAX + 1]);

/* Whether it is the table of the chunks and pins of some partition. */
bool table_key_is_of_chunks(struct view key);

/* Whether it is the lock of some shard. */
bool table_key_is_of_shard(struct view key);

/* Keeps the bytes of a table that is damaged, for people: .holdfast/kept/<key>.<random>. */
enum hf_status table_keep_aside(struct table_space *space, struct view key, struct view bytes,
                                struct mono_time deadline, struct hf_error *error);

/* The holder of the barrier then. */
#define TABLE_REPLACED HF_TABLE_REPLACED

/* Puts a good table in the place of one that cannot be read: the damaged bytes are kept aside, the
 * epoch is raised, and nothing is granted until a barrier is over, since nobody knows who held
 * what: as long as the longest lease that can be alive. CONFLICT: somebody else did, or the table
 * is not damaged any more; read it again. */
enum hf_status table_replace(struct table_space *space, struct view key,
                             struct mono_time deadline, struct hf_error *error);

#endif
