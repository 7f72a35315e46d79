/* SPDX-License-Identifier: Apache-2.0 */
/* change_kit.h: shared by the tests of changes in one step: a disk that fails on request,
 * another process that keeps the database busy, and counts of calls.
 *
 * Two of SQLite's system calls pass through the kit: its writes, which can find no space, and
 * its sync of the WAL, after which a commit may or may not be there. */
#ifndef TESTS_CHANGE_KIT_H
#define TESTS_CHANGE_KIT_H

#include "sqlite_steps.h"
#include "store/observe.h"

#include <sqlite3.h>
#include <stdatomic.h>

/* How many of the next calls fail; and the number of syncs of the WAL so far. */
extern atomic_int syncs_to_fail, writes_to_fail, log_syncs;

/* Call this once, before the first store is opened. */
void disk_stand_between(void);

/* Acts as another process in the middle of a write, until the handle is closed. */
sqlite3 *keep_busy(const char *name);

struct seen {
    unsigned kinds[CALL_KIND_COUNT];
    unsigned conflicts, failed;
    uint64_t bytes_sent, bytes_received;
};

struct store *open_observed(struct seen *seen);

/* Checks the counts since the last call. */
void assert_seen(struct seen *seen, unsigned gets, unsigned puts, unsigned failed);

#endif
