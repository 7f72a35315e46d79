/* SPDX-License-Identifier: Apache-2.0 */
/* key_change_kit.h: changes of a key's state on one body of its document, without a store;
 * built on lease_kit.h. */
#ifndef TESTS_KEY_CHANGE_KIT_H
#define TESTS_KEY_CHANGE_KIT_H

#include "key/key.h"
#include "lease_kit.h"
#include "test.h"

#define ETAG_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ETAG_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ETAG_C "cccccccccccccccccccccccccccccccc"
#define TXN_A  "0123456789abcdef0123456789abcdef"
#define TXN_B  "fedcba9876543210fedcba9876543210"

#define NOW_A(number, token, text_size, content)                             \
    "\"now\":{\"version\":" number ",\"token\":" token ",\"etag\":\"" ETAG_A \
    "\",\"size\":" text_size ",\"updated_ms\":7," content "}"
#define NOW_B(number, token, text_size, content)                             \
    "\"now\":{\"version\":" number ",\"token\":" token ",\"etag\":\"" ETAG_B \
    "\",\"size\":" text_size ",\"updated_ms\":7," content "}"

/* The first tokens of kit_table. */
#define T1 "4294967297"
#define T2 "4294967298"

/* As in a request: the hook, the operation, the hook again. Without `op`: TABLE_KEEP. */
enum hf_status apply_to(struct lease_table *table, struct change *change, struct table_op *op,
                        const struct lease_request *wanted, int64_t ms, bool *ret_changed);

uint64_t hold(struct lease_table *table, const char *id, enum lease_mode mode, int64_t ms);

void let_go(struct lease_table *table, const char *id, uint64_t token);

void set_state(struct lease_table *table, const char *text);

void assert_state(struct lease_table *table, const char *expected);

struct state_version version_of(const char *etag, uint64_t token, const char *text);

struct state_version with_body(const char *etag, uint64_t token);

struct change change_by(enum change_kind kind, const char *lease, uint64_t token,
                        const struct state_version *version);

/* Checks that the change is done and must be written, and gives this state. */
void assert_done(struct lease_table *table, struct change *change, const char *expected);

/* Checks that the change is refused for this reason, with nothing to write. */
void assert_refused(struct lease_table *table, struct change *change,
                    enum hf_key_outcome outcome, int64_t ms);

/* Acquires with the hook. */
enum hf_status enlist(struct lease_table *table, struct change *change, const char *id,
                      bool wait, int64_t ms, struct table_op *op, bool *ret_changed);

/* A table in which "a-1" holds the key for TXN_A. */
struct lease_table *taken(uint64_t *ret_token);

/* A table in which TXN_A has staged a state under "a-1". */
struct lease_table *staged(uint64_t *ret_token);

#endif
