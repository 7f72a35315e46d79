/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep.h: what a server does besides serving: sweeping while it is idle, merging partitions,
 * compiling indexes, and being a member of a group. Each part can be switched on or off, and uses
 * threads of its own and the public library.
 *
 *     upkeep_start(&options, &upkeep, &error);
 *     upkeep_note_request(upkeep, request);     for each request; the loop
 *     upkeep_stop(upkeep);                      asks everything to stop
 *     upkeep_free(upkeep);                      waits for that
 *
 * INVARIANTS.
 *
 *   - No request depends on upkeep, and it removes nothing without the proofs that the library
 *     demands. Several servers of one store may all do it.
 *   - A sweep yields to requests: the idle rule of sweep.h holds for the requests of the server as
 *     if they were calls of one client. A run also yields to other processes, where the store
 *     reports their changes.
 *   - A part that fails (the partition does not exist yet, the store does not answer) is said once
 *     for each reason, and begins again after ten seconds.
 *   - A scrub reads slowly (4 MiB/s), and changes nothing but its own position in the store. It
 *     does not yield to requests. Without that position, it goes on in this process.
 *   - It ends in bounded time: a sweep after one more entry, a scrub within a second, a merge and a
 *     compile at their next step, and each of them after at most one timeout of the store. */
#ifndef SERVE_UPKEEP_UPKEEP_H
#define SERVE_UPKEEP_UPKEEP_H

#include "env/env.h"
#include "holdfast.h"
#include "serve/http/server.h"
#include "serve/metrics/metrics.h"

#define UPKEEP_NAMES_MAX 16 /* partitions and indexes, each */

struct upkeep_options {
    struct env *env;
    struct hf_store *store;
    struct metrics *metrics;
    bool sweeps;
    struct hf_sweeper_options sweeper; /* its callback is set by upkeep_start */
    uint64_t scrub_bytes;              /* are scrubbed after each complete sweep; 0: none */
    const char *partitions[UPKEEP_NAMES_MAX];
    const char *indexes[UPKEEP_NAMES_MAX];
    size_t partition_count, index_count;
    const char *group; /* NULL: none */
    /* Both are called by the threads of upkeep: a part has failed, and is tried again; and a scrub
     * has found an object that is damaged, missing or unknown. */
    void (*failed)(void *argument, const char *part, const struct hf_error *why);
    void (*found)(void *argument, const struct hf_scrub_finding *finding);
    void *argument; /* of both */
};

struct upkeep;

/* Opens a client of its own. The strings must stay valid. */
enum hf_status upkeep_start(const struct upkeep_options *options, struct upkeep **ret_upkeep,
                            struct hf_error *error);

/* A client has sent a request. Does nothing if `upkeep` is NULL. The loop only. */
void upkeep_note_request(struct upkeep *upkeep, const struct http_request *request);

/* Does nothing if `upkeep` is NULL, as upkeep_free does. */
void upkeep_stop(struct upkeep *upkeep);
void upkeep_free(struct upkeep *upkeep);

#endif
