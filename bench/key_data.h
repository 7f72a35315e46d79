/* SPDX-License-Identifier: Apache-2.0 */
/* key_data.h: creates very many keys for benchmarks quickly: copies of the document of a real
 * key under other names, and an entry of the expiry index for each. */
#ifndef BENCH_KEY_DATA_H
#define BENCH_KEY_DATA_H

#include "client.h"

/* The document of a key that was acquired and abandoned; it contains its name. */
struct key_mould {
    const char *folder; /* its name is "<folder>/0000000" */
    char *document;
    size_t size;
    char hour[16]; /* of the entries, as in "2026111510" */
};

struct key_moulds {
    struct key_mould live; /* held for an hour, with an entry in the next one */
    struct key_mould gone; /* over, with a state and an entry in the last hour */
    struct key_mould lock; /* as gone, without a state */
};

/* Makes the three keys themselves, and waits until two are over. */
struct key_moulds key_moulds_make(const struct client *site);
void key_moulds_release(struct key_moulds *moulds);

/* So many copies, with numbers from 1 on. */
void keys_cast(const struct client *site, const struct key_mould *mould, size_t count);

/* Reads two keys, and changes both in one step if they are still the same: CONFLICT if not,
 * UNSUPPORTED if the store cannot. */
enum hf_status keys_move(struct hf_client *client, char names[2][32], const void *data,
                         size_t size, struct hf_error *error);

/* The name of an account; creates the first `count` of them. */
void account_name(size_t number, char name[32]);
void accounts_open(struct hf_client *client, size_t count, const void *data, size_t size);

#endif
