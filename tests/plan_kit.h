/* SPDX-License-Identifier: Apache-2.0 */
/* plan_kit.h: catalogs of chunks that take one line each, and plans as text. */
#ifndef TESTS_PLAN_KIT_H
#define TESTS_PLAN_KIT_H

#include "compact/plan/plan.h"
#include "test.h"

#define HOUR_MS  INT64_C(3600000)
#define EPOCH_MS (INT64_C(490000) * HOUR_MS) /* any full hour */

/* The properties of a chunk. Its key is made from its number. */
struct piece {
    unsigned number;
    unsigned level;
    int hour; /* of its first record, relative to EPOCH_MS */
    int span; /* hours to its last */
    uint64_t size;
    unsigned tries, tested;
    const char *home; /* NULL: the catalog's */
    bool quarantined;
};

/* Merged by levels: 4 chunks of an hour, 1 MiB, groups of up to 8; cascade of base 4. */
struct compact_settings small_settings(void);

struct catalog *new_catalog(const struct compact_settings *settings);

const char *key_of(const struct piece *piece, char key[128]);

/* Adds a chunk, which arrived at the moment of its number, by clock 7. */
void add(struct catalog *catalog, struct piece piece);

/* Adds this many chunks of level 0 of one hour, numbered from `first` on. */
void add_hour(struct catalog *catalog, unsigned first, unsigned count, int hour);

struct plan plan_with(const struct catalog *catalog, struct plan_options options);
struct plan plan_of(const struct catalog *catalog);
struct plan forced_plan(const struct catalog *catalog);

unsigned number_of(const struct chunk *chunk);

/* The plan in one line: "0?7 1:3-6,9 2:1,2" is a test of 7, which is of level 0, a group into level
 * 1 and one into level 2. */
const char *in_words(const struct plan *plan);

/* Checks the plan, and that planning the catalog again gives the same. */
void expect(const struct catalog *catalog, const char *words);
void expect_forced(const struct catalog *catalog, const char *words);

#endif
