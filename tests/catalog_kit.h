/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_kit.h: short calls for catalogs, evidence and operations, for the tests of
 * src/compact/catalog/catalog.h. */
#ifndef TESTS_CATALOG_KIT_H
#define TESTS_CATALOG_KIT_H

#include "catalog_check.h"

#define KIT_PARTITION "default"
#define KIT_HOUR_MS   INT64_C(3600000)

/* Valid settings: usv by key 1 and time 3, grace 1,000 s, D 100,000 s. */
struct compact_settings catalog_kit_settings(void);

struct catalog *kit_catalog(void);

/* Evidence at so many seconds on the clock `clock`, with an interval of one second; our
 * boot-time clock shows the same. */
struct evidence kit_at_clock(int64_t seconds, const char *clock);
struct evidence catalog_kit_at(int64_t seconds);

/* The key of chunk number n of a level, in a partition. It is never freed. */
struct view kit_key(unsigned level, unsigned n);
struct view kit_key_of(const char *partition, unsigned level, unsigned n);

/* A chunk with ten rows and five minutes of the hour n / 100, written by w1. */
struct chunk kit_chunk(unsigned level, unsigned n);

/* Applies the operation, and checks the invariants afterwards. */
enum hf_status kit_apply(struct catalog *catalog, struct catalog_op *op, struct evidence at);

/* The same for one kind of operation each, expecting OK. Names are new. */
void catalog_kit_add(struct catalog *catalog, unsigned first, unsigned count,
                     struct evidence at);
enum hf_status kit_commit(struct catalog *catalog, struct catalog_op *op, unsigned level,
                          unsigned target, unsigned first, unsigned count, struct evidence at);
enum condemned kit_condemn(struct catalog *catalog, struct view key, struct evidence at);
size_t kit_maintain(struct catalog *catalog, struct evidence at);

struct buffer catalog_kit_encode(const struct catalog *catalog);

/* Writes the catalog and reads it back at this moment. */
struct catalog *catalog_kit_reload(const struct catalog *catalog,
                                   const struct catalog *previous, int64_t seconds);

/* Reads a catalog from this text. */
enum hf_status kit_decode(const char *text, struct catalog **ret_catalog,
                          struct hf_error *error);

#endif
