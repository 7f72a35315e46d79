/* probe.h: does this store keep the promises that everything above it is built on?
 *
 * Some stores accept conditions and ignore them; a lock on such a store protects nothing, and
 * it must be refused before the first one is taken. The probe tries, on scratch objects, what
 * the protocol needs (refused when missing) and what it can use (noted in the store's traits).
 * bucket.h says who needs its verdict, and keeps it in the bucket for others. */
#ifndef STORE_PROBE_H
#define STORE_PROBE_H

#include "store/store.h"

/* As enum hf_finding, whose names (hf_finding_name) are theirs too. */
enum probe_verdict {
    PROBE_GOOD,    /* as it should be */
    PROBE_LACKING, /* not there; Holdfast does without */
    PROBE_REFUSED, /* needed, and not there: the store cannot be used */
    PROBE_WARNING, /* works, but somebody should know */
};

struct probe_finding {
    const char *what; /* a short name: "put if absent" */
    enum probe_verdict verdict;
    char detail[HF_WHY_MAX];
};

#define PROBE_FINDINGS_MAX 32

struct probe_report {
    struct probe_finding findings[PROBE_FINDINGS_MAX];
    size_t count;
    struct store_traits traits;
    uint32_t requests; /* that it took */
};

/* Notes one finding; for back ends that look at themselves (store_ops.inspect). */
__attribute__((format(printf, 4, 5))) void probe_note(struct probe_report *report,
                                                      const char *what,
                                                      enum probe_verdict verdict,
                                                      const char *format, ...);

/* Tries the store and sets its traits, until `deadline` (zero: each request has the store's own
 * time-out). UNSUPPORTED, with a sentence that says what failed, when it breaks a promise; another
 * status when it could not be tried. The report holds what was found so far either way. Scratch
 * objects are removed again. What comes of it is kept by bucket.h. */
enum hf_status store_probe(struct store *store, struct mono_time deadline,
                           struct probe_report *ret_report, struct hf_error *error);

#endif
