/* SPDX-License-Identifier: Apache-2.0 */
/* client.h: a store and a client on it, with counted requests. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include "slow.h"

/* Counts the requests to a store. Each call of a batch counts, and the first one also counts as
 * a batch. */
struct counts {
    atomic_ulong calls[HF_STORE_CALL_COUNT], batches[HF_STORE_CALL_COUNT];
    atomic_ulong
        puts_in_vain; /* all that were not OK, because some stores give losers no definite answer */
    atomic_ulong bytes_received, bytes_most; /* all, and of one get */
};

/* Counts that processes share, all 0. To be given back by munmap, or never. */
struct counts *counts_new(void);

void counts_clear(struct counts *counts);
unsigned long counts_all(const struct counts *counts);

/* The trace of struct hf_store_options that counts; its argument is the counts. */
void counts_add(void *counts, const struct hf_store_request *request);

struct client {
    struct hf_store *store;
    struct hf_client *client;
    struct slow *slow; /* NULL: no latency is added */
};

/* `url` may ask for latency (slow.h). `trace` may be NULL. Whatever fails ends the program. */
void client_open(struct client *client, const char *url,
                 void (*trace)(void *argument, const struct hf_store_request *request),
                 void *argument);
void client_close(struct client *client);

/* Exits if the status is not OK. */
void must(enum hf_status status, const struct hf_error *error, const char *what);

/* The most memory that this process had so far. */
double peak_kib(void);

#endif
