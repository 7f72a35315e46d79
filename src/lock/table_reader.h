/* SPDX-License-Identifier: Apache-2.0 */
/* table_reader.h: lease tables as they are in the store, for display.
 *
 * Nothing is changed: another program's table is not adopted, and a damaged table is not replaced.
 * A table that is listed with a known ETag is not read again, so repeated calls, such as the calls
 * that `locks watch` makes, cost little more than the listings. */
#ifndef LOCK_TABLE_READER_H
#define LOCK_TABLE_READER_H

#include "base/map.h"
#include "lock/client.h"

/* The maximum number of tables remembered between two calls. */
#define READER_TABLES_MAX 10000

/* One table for display. */
struct table_snapshot {
    struct view key;
    const struct lease_table *table; /* NULL: it cannot be read ... */
    struct hf_error error;           /* ... for this reason */
    /* The more careful of the table's settings and ours. They determine which leases have ended. */
    struct lease_settings settings;
    struct evidence evidence;
};

/* Shows one table. Any status other than OK stops the listing. */
typedef enum hf_status table_snapshot_fn(void *argument, const struct table_snapshot *snapshot,
                                         struct hf_error *error);

struct table_reader {
    struct hf_client *client;
    bool remembers;    /* set this if you read more than once */
    bool briefly;      /* set this if the read only adds detail to a message */
    struct map tables; /* of struct remembered */
    uint64_t round;
};

void table_reader_init(struct table_reader *reader, struct hf_client *client);
void table_reader_release(struct table_reader *reader);

/* Shows one table; NOT_FOUND if it does not exist. */
enum hf_status table_reader_read(struct table_reader *reader, struct view key,
                                 table_snapshot_fn *show, void *argument,
                                 struct hf_error *error);

/* Shows the tables of the client's namespace, the tables of chunks, and the locks of shards, each
 * in key order. Shows only tables that may have scopes that start with `start`: "" for all,
 * "deploy" or "named:deploy" for names, "path:", "range:7:" and so on. INVALID if no scope can
 * start with it. */
enum hf_status table_reader_list(struct table_reader *reader, struct view start,
                                 table_snapshot_fn *show, void *argument,
                                 struct hf_error *error);

/* Shows only the tables of chunks and shards, which belong to no namespace. */
enum hf_status table_reader_list_common(struct table_reader *reader, table_snapshot_fn *show,
                                        void *argument, struct hf_error *error);

/* Whether a scope of the lease starts with `start`. A barrier always matches. */
bool lease_starts_with(const struct lease *lease, struct view start);

#endif
