/* SPDX-License-Identifier: Apache-2.0 */
/* served_begin.h: a wait at a server in steps. A task of its own keeps the request open. All calls
 * are made with the handle's `calls` locked, or by whoever frees the handle. */
#ifndef LOCK_SERVED_BEGIN_H
#define LOCK_SERVED_BEGIN_H

#include "lock/handle.h"

/* Begins to wait: HELD. After every other status, the handle is idle. */
enum hf_status served_begin_start(struct hf_lock *lock, struct hf_error *error);

/* HELD: it still waits. Otherwise the wait has ended, and lock->begun is NULL. */
enum hf_status served_begin_poll(struct hf_lock *lock, struct hf_error *error);

/* Ends the wait; what was granted at the last moment is released. */
void served_begin_cancel(struct hf_lock *lock);

#endif
