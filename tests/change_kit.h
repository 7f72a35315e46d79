/* change_kit.h: what the tests of changes in one step have in common: a disk that fails when it is
 * told to, another process that keeps the database busy, and counts of what was asked.
 *
 * The disk fails by two calls of SQLite to the system that come through the kit: its writes, which
 * find no room, and its sync of the log, after which a commit may or may not be there. */
#ifndef TESTS_CHANGE_KIT_H
#define TESTS_CHANGE_KIT_H

#include "sqlite_steps.h"
#include "store/observe.h"

#include <sqlite3.h>
#include <stdatomic.h>

/* So many of the next ones fail; and all syncs of the log so far. */
extern atomic_int syncs_to_fail, writes_to_fail, log_syncs;

/* To be called once, before the first store is opened. */
void disk_stand_between(void);

/* Another process in the middle of a write, until it is closed. */
sqlite3 *keep_busy(const char *name);

struct seen {
    unsigned kinds[CALL_KIND_COUNT];
    unsigned conflicts, failed;
    uint64_t bytes_sent, bytes_received;
};

struct store *open_observed(struct seen *seen);

/* Since the last time. */
void assert_seen(struct seen *seen, unsigned gets, unsigned puts, unsigned failed);

#endif
