/* SPDX-License-Identifier: Apache-2.0 */
/* api_index_kit.h: an index of hosts, for tests that use only the public headers. */
#ifndef TESTS_API_INDEX_KIT_H
#define TESTS_API_INDEX_KIT_H

#include "api_client_kit.h"

#define T1 "2026-02-06T10:00:00Z"
#define T2 "2026-02-06T11:00:00Z"

/* The first `field_count` of the fields host (the key), owner, seen (the time), note; 16
 * shards. */
struct hf_index_options hosts_options(size_t field_count);

/* Creates the index `hosts` with the first three fields. */
struct hf_index *hosts_make(struct place *place);

enum hf_status hosts_put(struct place *place, struct hf_index *index, const char *host,
                         const char *owner, const char *seen);

/* Puts h0 to h39, which fill all shards but two. */
void hosts_put_forty(struct place *place, struct hf_index *index);

void assert_owner(struct place *place, struct hf_index *index, const char *host,
                  const char *owner);

/* The keys that a query finds, in byte order and separated by blanks. Checks the cursor against
 * the count. */
const char *hosts_found(struct place *place, struct hf_index *index,
                        const struct hf_index_query *query);

#endif
