/* index_data.h: an index for benchmarks: its records, which are known by their numbers, and a
 * handle that counts what it asks of its store. */
#ifndef BENCH_INDEX_DATA_H
#define BENCH_INDEX_DATA_H

#include "index/compile.h"
#include "index/read.h"
#include "store/observe.h"

#include <stdatomic.h>

#define DATA_NAME     "sites"
#define DATA_KEY_MAX  32
#define DATA_LINE_MAX 160

void must(enum hf_status status, const struct hf_error *error, const char *what);

/* "h0012345.example.com": so a prefix of the number's digits is one of the key. */
struct view data_key(uint64_t number, char space[DATA_KEY_MAX]);

/* The record of a number, about 120 bytes, without its end: site, note, updated_at. */
struct view data_record(uint64_t number, char space[DATA_LINE_MAX]);

/* The next number at or behind this one whose key is in the shard. */
uint64_t data_in_shard(uint64_t number, struct shard_id shard);

/* What an index asked of its store. In memory that processes share, if it has to be. */
struct tally {
    atomic_ulong calls[CALL_KIND_COUNT], batches[CALL_KIND_COUNT];
    atomic_ulong bytes_received;
    atomic_ulong lists_elsewhere; /* not of `folder` */
    char folder[64];
};

struct desk {
    struct store *store;
    struct hf_client *client;
    struct index *index;
};

/* `tally` may be NULL. A new index is made if there is none. */
void desk_open(struct desk *desk, const char *url, bool compiles, struct tally *tally);
void desk_close(struct desk *desk);

/* Puts the records of these numbers into the inbox, so many at once. Seconds. */
double desk_put(struct desk *desk, const uint64_t *numbers, size_t count, size_t at_once);

/* All records from 0 to count - 1 straight into their shards. Seconds. */
double desk_load(struct desk *desk, uint64_t count);

#endif
