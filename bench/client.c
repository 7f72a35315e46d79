/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: opens a store and a client, and counts the requests that they make. */
#include "client.h"

#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

struct counts *counts_new(void)
{
    struct counts *counts = bench_share_memory(sizeof *counts);
    return counts;
}

unsigned long counts_all(const struct counts *counts)
{
    unsigned long all = 0;
    for (size_t i = 0; i < HF_STORE_CALL_COUNT; i++)
        all += atomic_load(&counts->calls[i]);
    return all;
}

void counts_clear(struct counts *counts)
{
    for (size_t i = 0; i < HF_STORE_CALL_COUNT; i++) {
        atomic_store(&counts->calls[i], 0);
        atomic_store(&counts->batches[i], 0);
    }
    atomic_store(&counts->puts_in_vain, 0);
    atomic_store(&counts->bytes_received, 0);
    atomic_store(&counts->bytes_most, 0);
}

void counts_add(void *argument, const struct hf_store_request *request)
{
    struct counts *counts = argument;
    bool put = request->call == HF_STORE_CALL_PUT || request->call == HF_STORE_CALL_PUT_FILE;
    unsigned long most = atomic_load(&counts->bytes_most);
    atomic_fetch_add(&counts->calls[request->call], 1);
    atomic_fetch_add(&counts->batches[request->call], request->first_of_batch);
    atomic_fetch_add(&counts->puts_in_vain, put && request->status != HF_OK);
    atomic_fetch_add(&counts->bytes_received, request->received_bytes);
    while (request->call == HF_STORE_CALL_GET && most < request->received_bytes &&
           !atomic_compare_exchange_weak(&counts->bytes_most, &most, request->received_bytes))
        ;
}

void client_open(struct client *client, const char *url,
                 void (*trace)(void *argument, const struct hf_store_request *request),
                 void *argument)
{
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct hf_error error;
    url = slow_parse(url, &client->slow);
    options.coordinates = true;
    options.trace = trace;
    options.trace_argument = argument;
    if (client->slow) {
        client->slow->next = trace;
        client->slow->argument = argument;
        options.trace = slow_delay;
        options.trace_argument = client->slow;
    }
    must(hf_store_open(url, &options, &client->store, &error), &error, url);
    must(hf_client_open_on(client->store, NULL, &client->client, &error), &error, url);
}

void client_close(struct client *client)
{
    hf_client_close(client->client);
    hf_store_close(client->store);
    free(client->slow);
}

void must(enum hf_status status, const struct hf_error *error, const char *what)
{
    if (status != HF_OK)
        bench_die("%s: %s: %s", what, hf_status_name(status), error->why);
}

double peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss;
}
