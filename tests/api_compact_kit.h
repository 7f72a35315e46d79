/* SPDX-License-Identifier: Apache-2.0 */
/* api_compact_kit.h: a partition in its own store, for tests of holdfast/compact.h, which use
 * only the public headers. */
#ifndef TESTS_API_COMPACT_KIT_H
#define TESTS_API_COMPACT_KIT_H

#include "holdfast.h"

#include "test.h"

struct desk {
    char *folder;
    char url[600];
    struct hf_client *client;
    struct hf_compact *compact;
    struct hf_error error;
};

/* Sets the kind of store from the argument of the test program: mem, sqlite or dir. */
bool desk_kind_set(int argc, char **argv);

/* Settings for tests: small groups, merged at once, no grace. Records are usv: key 1, time 2. */
struct hf_compact_settings desk_settings(void);

/* Opens a store, a client, and a partition. `settings` NULL: the partition is not created yet. */
void desk_open(struct desk *desk, const struct hf_compact_settings *settings);
void desk_close(struct desk *desk);

/* Writes a file into the directory. The path is valid until eight more have been requested. */
const char *desk_file(struct desk *desk, const char *name, const char *text);

/* Adds this many chunks of one row each: key, time and a value. */
void desk_fill(struct desk *desk, unsigned count);

/* Numbers of chunks by state, and rows. */
struct counted {
    uint64_t chunks, rows, quarantined, tombstones, deleting;
    char first[1100]; /* a live chunk */
    char grave[1100]; /* a tombstone */
};
struct counted desk_count(struct desk *desk);

#define GOOD(desk, call) assert_status(HF_OK, call, &(desk)->error)

#endif
