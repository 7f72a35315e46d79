/* SPDX-License-Identifier: Apache-2.0 */
/* txn_call.h: the calls of the library for a transaction as a whole: begin, decide, replay, and ask
 * whether it is pending. A server keeps nothing about a transaction: each call finds it by its id,
 * so a retry of a decision, at any server, is told what the record says. */
#ifndef SERVE_CALLS_TXN_CALL_H
#define SERVE_CALLS_TXN_CALL_H

#include "base/buffer.h"
#include "holdfast.h"

enum txn_call_kind {
    TXN_CALL_BEGIN,  /* sets `begun`, and `id` to it */
    TXN_CALL_DECIDE, /* MISMATCH: it was decided the other way */
    TXN_CALL_REPLAY, /* settles the keys of a decided transaction; a pending one is left alone,
                      * because its client may still be at work */
    TXN_CALL_CHECK,  /* MISMATCH: it is no longer pending */
};

struct txn_call {
    enum txn_call_kind kind;
    const char *id;
    char begun[HF_TXN_ID_SIZE + 1];
    enum hf_decision decision; /* DECIDE */
    struct buffer *freed; /* DECIDE: gets the names of its keys, each followed by a NUL; NULL:
                                * nobody waits for them */
    enum hf_txn_state state; /* set if the result is OK */
};

enum hf_status txn_call_make(struct hf_client *client, struct txn_call *call,
                             struct hf_error *error);

#endif
