/* SPDX-License-Identifier: Apache-2.0 */
/* store_contract.h: what src/store/store.h promises, as a table of sentences that every back
 * end is held to: memory, directory, SQLite, S3, each under the wrappers, and the simulated
 * store.
 *
 * A row is a plain function on a store and its env, without assertions of a test framework, so
 * that it can run in a fiber of the simulator too: it notes the first thing that is wrong and
 * returns. Rows use keys under a random prefix of their own; they may share a bucket. */
#ifndef TESTS_STORE_CONTRACT_H
#define TESTS_STORE_CONTRACT_H

#include "store/store.h"

struct contract {
    struct env *env;
    struct store *store;
    bool any_bytes;    /* keys may hold any byte; else only readable ASCII */
    unsigned racers;   /* tasks in a race */
    unsigned rounds;   /* of a race */
    char prefix[24];   /* of all keys of this row */
    char failure[512]; /* empty: the promise was kept */
};

struct contract_row {
    const char *sentence;
    void (*run)(struct contract *contract);
};

/* One table a file: basics, changes, listings, streams, races. */
struct contract_rows {
    const struct contract_row *rows;
    size_t count;
};

extern const struct contract_rows contract_basics, contract_changes, contract_listings,
    contract_streams, contract_races;

/* Every row of every table. Returns NULL behind the last. */
const struct contract_row *contract_row(size_t index);

/* Draws a prefix and runs one row; true when the promise was kept. */
bool contract_run(struct contract *contract, const struct contract_row *row);

/* ---- For rows ------------------------------------------------------------------------ */

__attribute__((format(printf, 4, 5))) void contract_fail(struct contract *contract,
                                                         const char *file, int line,
                                                         const char *format, ...);

#define EXPECT(contract, condition)                                                   \
    do {                                                                              \
        if (!(condition)) {                                                           \
            contract_fail((contract), __FILE__, __LINE__, "expected %s", #condition); \
            return;                                                                   \
        }                                                                             \
    } while (0)

#define EXPECT_STATUS(contract, expected, call, error)                                      \
    do {                                                                                    \
        enum hf_status got_ = (call);                                                       \
        if (got_ != (expected)) {                                                           \
            contract_fail((contract), __FILE__, __LINE__, "%s: %s, expected %s: %s", #call, \
                          hf_status_name(got_), hf_status_name(expected), (error).why);     \
            return;                                                                         \
        }                                                                                   \
    } while (0)

struct contract_key {
    char text[KEY_BYTES_MAX + 1];
    struct view view;
};

/* The key `name` under the row's prefix. */
struct view contract_key(const struct contract *contract, struct view name,
                         struct contract_key *space);

/* Puts and gets that a row takes for granted: false, and the failure noted, when they fail. */
bool contract_put(struct contract *contract, struct view name, struct view body,
                  struct etag *ret_etag);
bool contract_holds(struct contract *contract, struct view name, struct view body);
bool contract_missing(struct contract *contract, struct view name);

#endif
