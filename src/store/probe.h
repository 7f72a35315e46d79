/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h: tests whether a store keeps the promises that everything above it is built on.
 *
 * Some stores accept conditions and ignore them. A lock on such a store protects nothing, so the
 * store must be refused before the first lock is acquired. The probe tries, on scratch objects,
 * every operation that the protocol needs (the store is refused if one fails) and every operation
 * that it can use if present (noted in the store's traits). bucket.h says which clients need a
 * verdict, and keeps it in the bucket for others. */
#ifndef STORE_PROBE_H
#define STORE_PROBE_H

#include "store/store.h"

struct probe_finding {
    const char *what; /* a short name: "put if absent" */
    enum hf_finding verdict;
    char detail[HF_WHY_MAX];
};

#define PROBE_FINDINGS_MAX 32

struct probe_report {
    struct probe_finding findings[PROBE_FINDINGS_MAX];
    size_t count;
    struct store_traits traits;
    uint32_t requests; /* how many the probe has sent */
    bool unanswered; /* `inspect` got no answer about a trait: what it set must not be saved */
};

/* Records one finding. Back ends that report on themselves (store_ops.inspect) use it too. */
__attribute__((format(printf, 4, 5))) void probe_note(struct probe_report *report,
                                                      const char *what, enum hf_finding verdict,
                                                      const char *format, ...);

/* False: a request without a reply, which says nothing about the store's abilities. */
bool probe_has_answer(enum hf_status status);

/* Tests the store and sets its traits, until `deadline` (zero: each request has the store's own
 * timeout). Returns UNSUPPORTED, with a message that says what failed, if the store breaks a
 * promise, and another status if the store could not be tested. In both cases the report contains
 * the findings so far. The scratch objects are removed. bucket.h saves the result. */
enum hf_status store_probe(struct store *store, struct mono_time deadline,
                           struct probe_report *ret_report, struct hf_error *error);

#endif
