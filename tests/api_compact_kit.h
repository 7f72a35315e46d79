/* api_compact_kit.h: a partition of a store of its own, for tests of holdfast/compact.h, which know
 * nothing but the public headers. */
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

/* By the argument of the test program: mem, sqlite or dir. */
bool desk_kind_set(int argc, char **argv);

/* Small groups, at once, and no grace: what a test wants. Records of usv: key 1, time 2. */
struct hf_compact_settings desk_settings(void);

/* A store, a client, and a partition that is not made yet; or one with these settings. */
void desk_open(struct desk *desk, const struct hf_compact_settings *settings);
void desk_close(struct desk *desk);

/* Writes a file into the folder; the path is good until the next eight are asked for. */
const char *desk_file(struct desk *desk, const char *name, const char *text);

/* Adds so many chunks of one row each: key, time and a value. */
void desk_fill(struct desk *desk, unsigned count);

/* So many live chunks, of so many rows in all. */
struct counted {
    uint64_t chunks, rows, quarantined, tombstones, deleting;
    char first[1100]; /* a live one */
    char grave[1100]; /* a tombstone */
};
struct counted desk_count(struct desk *desk);

#define GOOD(desk, call) assert_status(HF_OK, call, &(desk)->error)

#endif
