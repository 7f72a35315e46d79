/* judge_bank.h: judges keys with state, and transactions over them, by what nodes are told and by
 * what the store applied.
 *
 * The judge reads documents, records and states by itself. Every state says which operation wrote
 * it, and a balance: all balances together come to nothing at any moment, and of some pairs of keys
 * the sum is never negative. What a key is worth at a moment is what is staged if the record of
 * that transaction says commit, else what is published. It fails the run when
 *
 *   what is in the store
 *   - the version of a key does not rise by one, or is one that it had before; it is changed
 *     otherwise than under a lease that was active in the document of before, or by promoting what
 *     a committed transaction has staged, or what a lease has that ends with it;
 *   - a key is published that is taken for a transaction; one is taken for a transaction that never
 *     had a record, or under a lease that is not active;
 *   - a stage is promoted whose record does not say commit, or goes though it does, or goes before
 *     a rollback is recorded, unless nothing was changed and nobody told that the key is taken;
 *   - a record is born as commit, changes its decision, or goes before D after it, or while what
 *     it was committed with is staged still, with changes or without;
 *   - something is staged for a transaction after its commit;
 *   - commit is recorded and a participant has no stage, or one that has is not named, or not what
 *     was told as staged, or a key that was told as taken is not;
 *   - a document names a body that is not there, or one goes that a document names;
 *   - the balances do not come to nothing, or a pair is overdrawn: money is made, or a read was not
 *     what it was any more when the transaction was committed;
 *   - a document goes that holds something; tokens fall;
 *
 *   what nodes are told
 *   - what was refused, rolled back or dropped is there, or comes later; what was told as done is
 *     not there, or not what stood in the document;
 *   - a reader is shown what the key was not worth at any moment since it began to read;
 *
 *   and in the end, after the calm and a few sweeps: something is staged, pending, leased, or lies
 *   about. */
#ifndef SIM_JUDGE_BANK_H
#define SIM_JUDGE_BANK_H

#include "holdfast.h"
#include "sim/run.h"

#define BANK_KEYS_MAX 16

struct judge_bank;

struct judge_bank_options {
    const char *const *keys; /* their names; they outlive the judge */
    size_t key_count;        /* the first two are a pair, ... */
    size_t pairs;            /* ... and so on, so many of them */
    struct span late_bound;  /* D */
};

struct judge_bank *judge_bank_new(struct run *run, const struct judge_bank_options *options);
void judge_bank_free(struct judge_bank *judge);

/* ---- What nodes do ------------------------------------------------------------------------ */

/* The number of an operation that writes this balance to a key; `txn` is empty where it is of
 * none. To be called before it is asked for. */
uint64_t judge_bank_writes(struct judge_bank *judge, size_t key, struct view txn,
                           int64_t balance);

/* The same of one that removes what a key holds. */
uint64_t judge_bank_removes(struct judge_bank *judge, size_t key, struct view txn);

/* What such an operation writes: so many bytes, the number and the balance in front. */
void judge_bank_text(uint64_t operation, int64_t balance, size_t size, char *text);

/* ---- What nodes are told ------------------------------------------------------------------ */

/* What an update was told. `staged`: it is to be seen when it is committed. */
void judge_bank_told_write(struct judge_bank *judge, uint64_t operation, bool staged,
                           enum hf_status status);

/* The same of an operation that could not be done: its condition was false. */
void judge_bank_told_impossible(struct judge_bank *judge, uint64_t operation,
                                enum hf_status status);

/* That a key is taken for a transaction. */
void judge_bank_told_taken(struct judge_bank *judge, struct view txn, size_t key);

/* What was staged without a transaction is published now for certain, or never will be. */
void judge_bank_told_published(struct judge_bank *judge, uint64_t operation);
void judge_bank_told_dropped(struct judge_bank *judge, uint64_t operation);

/* What commit or rollback was told. */
void judge_bank_told_end(struct judge_bank *judge, struct view txn, enum hf_decision asked,
                         enum hf_status status, enum hf_decision decision);

/* A moment, to be given back when what began there has ended. */
uint64_t judge_bank_now(const struct judge_bank *judge);

void judge_bank_told_get(struct judge_bank *judge, uint64_t began, size_t key,
                         enum hf_status status, struct view bytes,
                         const struct hf_key_info *info);

/* ---- The end ------------------------------------------------------------------------------ */

/* After the run, at whose end somebody swept until nothing was left to do. */
void judge_bank_end(struct judge_bank *judge);

#endif
