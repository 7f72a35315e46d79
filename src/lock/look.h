/* look.h: lease tables as they stand in the store, for people to look at.
 *
 * Looking changes nothing: a table of another program is not adopted, a damaged one is not
 * replaced. What stands in a listing under an ETag that we have seen is not read again, so
 * looking again and again, as `locks watch` does, costs little more than the listings. */
#ifndef LOCK_LOOK_H
#define LOCK_LOOK_H

#include "lock/client.h"

/* Tables that are remembered between two looks. */
#define LOOK_TABLES_MAX 10000

/* One table, as it is shown. */
struct sight {
    struct view key;
    const struct lease_table *table; /* NULL: it cannot be read ... */
    struct hf_error error;           /* ... and this is why */
    struct lease_settings
        settings; /* the more careful of the table's and ours, as it is judged */
    struct evidence evidence;
};

/* Anything but OK ends the look. */
typedef enum hf_status look_fn(void *argument, const struct sight *sight,
                               struct hf_error *error);

struct look {
    struct hf_client *client;
    bool remembers;    /* to be set by those who look more than once */
    bool briefly;      /* to be set where the answer is known, and this only explains it */
    struct map tables; /* of struct remembered */
    uint64_t round;
};

void look_init(struct look *look, struct hf_client *client);
void look_release(struct look *look);

/* Shows one table. NOT_FOUND when there is none. */
enum hf_status look_at(struct look *look, struct view key, look_fn *show, void *argument,
                       struct hf_error *error);

/* Shows the tables of the client's namespace, those of chunks, and the locks of shards, each in
 * order of their keys, as far as they may hold scopes that start with this: "" for all, "deploy" or
 * "named:deploy" for names, "path:", "range:7:" and so on. INVALID when no scope could start like
 * that. */
enum hf_status look_around(struct look *look, struct view start, look_fn *show, void *argument,
                           struct hf_error *error);

/* Only those of chunks and shards, which belong to no namespace. */
enum hf_status look_at_common(struct look *look, look_fn *show, void *argument,
                              struct hf_error *error);

/* Whether some scope of the lease starts with this. A barrier covers all. */
bool look_matches(const struct lease *lease, struct view start);

#endif
