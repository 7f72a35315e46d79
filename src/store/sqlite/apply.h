/* SPDX-License-Identifier: Apache-2.0 */
/* apply.h: single writes inside an open transaction of an sqlite store. The results count only once
 * the transaction is committed (group.c). */
#ifndef STORE_SQLITE_APPLY_H
#define STORE_SQLITE_APPLY_H

#include "store/sqlite/group.h"

/* Prepares the statements that a write usually needs, so that this does not take place while the
 * transaction keeps other processes waiting. A failure is no harm: they are then prepared when they
 * are needed. */
void sqlite_prepare_write(struct sqlite_connection *connection,
                          const struct sqlite_write *write);

/* Performs a write. Returns false if it has ended the whole transaction; its error contains the
 * reason. */
bool sqlite_apply(struct sqlite_writer *writer, struct sqlite_write *write);

/* Performs all of these changes, or none: if one of them fails, is refused by its caller or must be
 * postponed, so are all. Returns false if the whole transaction has ended. If they are the `first`
 * of the transaction, it needs no savepoint: if they are refused, *ret_spoiled is set, and the
 * caller must roll the transaction back instead of committing it. */
bool sqlite_apply_together(struct sqlite_writer *writer, struct sqlite_write *writes,
                           size_t count, bool first, bool *ret_spoiled);

/* Ends the transaction, if one is open. */
void sqlite_roll_back(struct sqlite_writer *writer);

#endif
