/* key_data.h: very many keys for benchmarks, made in no time: copies of the document of a key that
 * was really taken, and of its entry in the expiry index, under other names. */
#ifndef BENCH_KEY_DATA_H
#define BENCH_KEY_DATA_H

#include "base/buffer.h"
#include "lock/client.h"
#include "lock/expiry.h"

void must(enum hf_status status, const struct hf_error *error, const char *what);

/* Where they are; both on one store. */
struct key_site {
    struct hf_client *client;
    struct store *store;
};

/* The document of a key that was taken and left, and its entry; its name stands in both. */
struct key_mould {
    const char *folder; /* its name is "<folder>/0000000" */
    struct buffer document, entry;
    struct hour hour; /* of the entry */
};

struct key_moulds {
    struct key_mould live; /* held for an hour, with an entry in the next one */
    struct key_mould gone; /* over, with a state and an entry in the last hour */
    struct key_mould lock; /* as gone, without a state */
};

/* Makes the three keys themselves, and waits until two are over. */
struct key_moulds key_moulds_make(struct key_site site);
void key_moulds_release(struct key_moulds *moulds);

/* So many copies, with numbers from 1 on. */
void keys_cast(struct key_site site, const struct key_mould *mould, size_t count);

#endif
