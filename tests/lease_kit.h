/* SPDX-License-Identifier: Apache-2.0 */
/* lease_kit.h: shared by the tests of the lease table: settings, evidence, wishes, and one-line
 * calls. It uses only the headers of src/lease. */
#ifndef TESTS_LEASE_KIT_H
#define TESTS_LEASE_KIT_H

#include "lease/table.h"

/* Drift 200 ppm, margin 100 ms, tolerance 2 s, ttl up to one hour, D 24 hours. */
struct lease_settings kit_settings(void);

/* The difference between store time on the clock of kit_at and our boot-time clock. */
#define KIT_CLOCK_OFFSET INT64_C(5000000000)
#define KIT_CLOCK        "clock-a"

/* Evidence at so many milliseconds, or microseconds: the store time is known exactly, and the
 * nonce is new. The nonce lives as long as the program. */
struct evidence kit_at(int64_t ms);
struct evidence kit_at_us(int64_t us);

struct lease_table *kit_table(void);

/* A request. Defaults: exclusive, ttl 10 s, poll 100 ms, holder "tester", and as session the
 * part of the id before its last "-". Scopes are separated by one blank. */
struct wish {
    const char *id;
    const char *scopes;
    const char *session;
    enum lease_mode mode;
    uint64_t slots;
    int64_t ttl_us;
    int64_t poll_ms;
    bool wait;
    const char *output;
    const char *note;
    struct span once_per, once_slack;
};

enum hf_status kit_acquire(struct lease_table *table, struct table_op *op,
                           struct evidence evidence, struct wish wish);

/* Any operation that names an id and perhaps a token. */
enum hf_status kit_do(struct lease_table *table, struct table_op *op, struct evidence evidence,
                      enum table_op_kind kind, const char *id, uint64_t token);

enum hf_status kit_barrier(struct lease_table *table, struct table_op *op,
                           struct evidence evidence, const char *id, int64_t ttl_us,
                           uint64_t epoch);

/* Writes the table, reads it back as of that moment, with or without the previous reading, and
 * frees the old one. Fails the test on an error. */
struct lease_table *kit_reload(struct lease_table *table, int64_t arrived_ms);
struct lease_table *kit_reload_afresh(struct lease_table *table, int64_t arrived_ms);

/* The document as text, without a checksum, so that a test may change it. The caller frees it with
 * buffer_release. */
#define KIT_WRITE_SIZE ((size_t)NONCE_SIZE - 1)
struct buffer kit_encode(const struct lease_table *table);

const struct lease *kit_lease(const struct lease_table *table, const char *id);
const struct waiter *kit_waiter(const struct lease_table *table, const char *id);
size_t kit_active(const struct lease_table *table);

/* Aborts if an invariant of lease/table.h does not hold. */
void table_check(const struct lease_table *table);

/* Parses at most `max` scopes; the views point into the text. */
size_t kit_scopes(const char *texts, struct scope *ret_scopes, size_t max);

#endif
