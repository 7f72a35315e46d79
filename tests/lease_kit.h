/* lease_kit.h: what the tests of the lease table share: settings, evidence, wishes and the
 * calls in one line each. It knows the headers of src/lease only. */
#ifndef TESTS_LEASE_KIT_H
#define TESTS_LEASE_KIT_H

#include "lease/table.h"

/* Drift 200 ppm, margin 100 ms, tolerance 2 s, ttl up to one hour, D 24 hours. */
struct lease_settings kit_settings(void);

/* Store time on the clock of kit_at is this far from our boot-time clock. */
#define KIT_CLOCK_OFFSET INT64_C(5000000000)
#define KIT_CLOCK        "clock-a"

/* Evidence at so many milliseconds, or microseconds: store time exactly known, a nonce that was
 * never used before. The nonce lives as long as the program. */
struct evidence kit_at(int64_t ms);
struct evidence kit_at_us(int64_t us);

struct lease_table *kit_table(void);

/* What somebody asks for. Unset: exclusive, ttl 10 s, poll 100 ms, holder "tester", and a
 * session that is all of the id before its last "-". Scopes stand apart by one blank. */
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

/* Writes it, reads it back as of that moment, with or without what was known before, and frees
 * the old one. Fails the test when that does not work. */
struct lease_table *kit_reload(struct lease_table *table, int64_t arrived_ms);
struct lease_table *kit_reload_afresh(struct lease_table *table, int64_t arrived_ms);

/* The document as text, to be freed with buffer_release. */
struct buffer kit_encode(const struct lease_table *table);

const struct lease *kit_lease(const struct lease_table *table, const char *id);
const struct waiter *kit_waiter(const struct lease_table *table, const char *id);
size_t kit_active(const struct lease_table *table);

/* Scopes as text into at most `max` parsed; the views point into the text. */
size_t kit_scopes(const char *texts, struct scope *ret_scopes, size_t max);

#endif
