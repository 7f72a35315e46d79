/* tables.h: lease tables as documents: where each is, how it is born, adopted, and replaced when it
 * is damaged. docs/design.md sections 5 and 6. */
#ifndef LOCK_TABLES_H
#define LOCK_TABLES_H

#include "doc/doc.h"
#include "lease/table.h"

/* What the tables of one namespace have in common, or the locks of all shards. */
struct table_space {
    struct store *store;
    struct doc_clock *clock;
    struct lease_settings settings;
    bool of_shards;
    char ns[NAME_BYTES_MAX + 1];
};

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

/* Whether it is the table of the chunks and pins of some partition. */
bool table_key_is_of_chunks(struct view key);

/* Whether it is the lock of some shard. */
bool table_key_is_of_shard(struct view key);

/* Keeps the bytes of a table that is damaged, for people: .holdfast/kept/<key>.<random>. */
enum hf_status table_keep_aside(struct table_space *space, struct view key, struct view bytes,
                                struct mono_time deadline, struct hf_error *error);

/* Puts a good table in the place of one that cannot be read: the damaged bytes are kept aside, the
 * epoch is raised, and nothing is granted until a barrier is over, since nobody knows who held
 * what. CONFLICT: somebody else did, or the table is not damaged any more; read it again. */
enum hf_status table_replace(struct table_space *space, struct view key,
                             struct mono_time deadline, struct hf_error *error);

#endif
