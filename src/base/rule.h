/* SPDX-License-Identifier: Apache-2.0 */
/* rule.h: the rules that prevent races, by name.
 *
 *     if (RULE(RENEW_NEVER_REVIVES) && lease->status != LEASE_ACTIVE)
 *
 * A rule always holds. Only a simulator configured with -Dmutants=true can break one (holdfast-sim
 * --mutant NAME), and then its checks must detect it: `make mutants` shows for each rule how many
 * seeds that took. So this table lists the code that must not be simplified away, and how the
 * system would fail without it. Nothing else in the library knows about mutants. */
#ifndef BASE_RULE_H
#define BASE_RULE_H

#include <stdbool.h>

/* The rule, the workload that detects when it is broken, and what the mutant does. */
#define RULE_TABLE(ROW)                                                                        \
    /* When a lease is over, and for how long it is held. */                                   \
    ROW(SCAVENGE_WITH_PROOF, "locks", "scavenges at now >= expires_at")                        \
    ROW(SKEW_TOLERANCE, "locks", "takes over at the store's expires_at, without tolerance")    \
    ROW(WATCH_TO_THE_END, "locks", "takes over one tick (12 ms) before the holder stops")      \
    ROW(WATCH_SINCE_ARRIVAL, "locks",                                                          \
        "watches since the request was sent, not since its reply")                             \
    ROW(WATCH_ANEW_WHEN_RENEWED, "locks", "goes on watching a lease that was renewed")         \
    ROW(WATCH_OVER_RELOADS, "locks", "begins to watch anew at each load")                      \
    ROW(CLOCK_ID_MUST_MATCH, "locks", "compares store times of two boots or machines")         \
    ROW(BOOT_CLOCK_FOR_LOCAL_STORES, "locks", "takes the wall clock for a local store's time") \
    ROW(CACHED_DATES_TELL_NOTHING, "locks", "takes a stale Date for a sample")                 \
    ROW(VALID_FROM_T0, "locks", "counts validity from the reply")                              \
    ROW(VALID_FROM_THAT_ATTEMPT, "locks", "counts validity from the last attempt")             \
    ROW(CLAIM_BY_OWN_PUT, "locks",                                                             \
        "is handed the lease, and counts from the poll that saw it")                           \
    ROW(GONE_STAYS_GONE, "locks",                                                              \
        "a late renewal revives what its holder was told to be gone")                          \
    ROW(RENEWAL_NEEDS_AN_ANSWER, "locks", "believes in a renewal without an answer")           \
    ROW(GONE_IS_TOLD, "locks", "tells the holder only when a renewal is refused")              \
    /* One document, changed by compare-and-swap. */                                           \
    ROW(NONCE_IN_EVERY_WRITE, "locks", "writes without a nonce")                               \
    ROW(NO_BLIND_RETRY, "doc", "sends a put without answer again, without its condition")      \
    ROW(RELOAD_AFTER_FAILURE, "doc", "goes on from a body that was not written")               \
    ROW(FIRST_WRITE_IF_ABSENT, "doc", "writes a new document without a condition")             \
    ROW(CONFLICT_MAY_BE_OURS, "doc", "takes a conflict for a write that was not done")         \
    ROW(NOT_DONE_AFTER_A_SWAP, "doc", "what is not there after UNSURE is told as not done")    \
    ROW(SETTLE_WRITES, "locks", "cancels without a write what may still land")                 \
    ROW(REFUSED_AFTER_THE_PUT, "doc", "tells refusals of a batch that was not written")        \
    ROW(REFUSED_BY_FRESH_BODY, "doc", "tells refusals from a cached body")                     \
    ROW(LATE_IS_UNSURE, "doc", "tells TIMEOUT of what may still land")                         \
    /* The lease table. */                                                                     \
    ROW(TOKENS_RISE, "locks", "a grant uses up no token")                                      \
    ROW(RENEW_NEVER_REVIVES, "locks", "renews what was taken for over")                        \
    ROW(RELEASE_NAMES_THE_LEASE, "locks", "releases whatever lease stands there")              \
    ROW(BREAK_NAMES_THE_LEASE, "locks", "breaks whatever lease stands there")                  \
    ROW(REENTRANCE_BY_SESSION, "locks",                                                        \
        "lets the same holder id enter again, in place of its lease")                          \
    ROW(SHARED_BESIDE_SHARED_ONLY, "locks", "grants exclusive beside shared")                  \
    ROW(SLOTS_ARE_COUNTED, "locks", "grants more slots than there are")                        \
    ROW(ONCE_PER_BY_STORE_TIME, "locks", "judges once_per by wall clocks")                     \
    ROW(ONCE_PER_KNOWS_THE_TIME, "locks",                                                      \
        "judges once_per by calendars where no store time is known yet")                       \
    ROW(COMPLETION_IS_REMEMBERED, "locks", "forgets what was done when the next lease ends")   \
    ROW(RANGES_OVERLAP, "ranges", "compares only where ranges start")                          \
    ROW(TREE_BY_SEGMENT, "ranges", "takes /ab for a part of the tree /a")                      \
    ROW(TREE_ABOVE_TOO, "ranges", "overlooks that a tree lies inside another")                 \
    ROW(EVERY_SCOPE_COUNTS, "ranges", "compares only the first scope of a lock")               \
    /* Waiting. */                                                                             \
    ROW(NEWCOMERS_OBEY_ORDER, "locks", "newcomers overtake those who wait")                    \
    ROW(CLAIM_IN_TURN, "locks", "claims what is free out of turn")                             \
    ROW(FIRST_IN_LINE, "locks", "reserves for everybody in line at once")                      \
    ROW(CLAIM_WINDOW, "locks", "drops one whose turn it is after a tenth of the window")       \
    ROW(TURN_SINCE_WRITTEN, "ranges", "counts a turn from before the write that gave it")      \
    ROW(MISSED_TURN_IS_DROPPED, "locks", "waits for ever for one who does not claim")          \
    ROW(CANCEL_GIVES_BACK, "locks", "a cancel leaves what was granted meanwhile")              \
    /* Epochs, new tables and damage. */                                                       \
    ROW(BARRIER_AFTER_DAMAGE, "epochs", "replaces a damaged table by one that grants at once") \
    ROW(BARRIER_OF_THE_LONGEST, "epochs",                                                      \
        "the barrier after damage is shorter than leases can be")                              \
    ROW(LIMIT_BEFORE_THE_GRANT, "epochs",                                                      \
        "records how long a lease can be once it is granted")                                  \
    ROW(LIMIT_AFTER_THE_MARK, "epochs", "reads how long leases can be, then marks the damage") \
    ROW(LIMIT_OUTLIVES_ITS_LEASES, "epochs", "drops a limit while leases can be that long")    \
    ROW(DAMAGE_RAISES_EPOCH, "epochs", "replaces a damaged table without raising the epoch")   \
    ROW(DAMAGE_IS_MARKED, "epochs", "replaces damage that may come again, by its ETag")        \
    ROW(ADOPTION_RAISES_EPOCH, "epochs",                                                       \
        "adopts another program's table in the epoch as it is")                                \
    ROW(PURGE_RAISES_EPOCH, "epochs", "purges a table without raising the epoch")              \
    ROW(BORN_IN_TWO_WRITES, "epochs", "a table is born in one write")                          \
    ROW(BORN_SO_EVERYWHERE, "epochs",                                                          \
        "a table is born in one write by who has not learnt that tables are purged")           \
    ROW(EPOCH_AFTER_THE_STUB, "epochs", "reads the epoch before the stub has landed")          \
    ROW(EPOCH_COPY_FIRST, "epochs", "raises the epoch's document before its copy")             \
    ROW(LOST_EPOCH_IS_NOT_ZERO, "epochs", "takes a lost epoch document for epoch 0")           \
    /* Fenced objects. */                                                                      \
    ROW(LOWER_TOKEN_IS_FENCED, "fenced", "writes with a lower token than the last")            \
    ROW(SAME_TOKEN_IN_ORDER, "fenced", "an older write of the same lease goes over a newer")   \
    ROW(FENCE_IN_THE_BYTES, "fenced",                                                          \
        "keeps the fence in metadata, where ETags hash the content")                           \
    ROW(FENCE_ASKS_THE_LEASE, "fenced", "writes though its own lease is over")                 \
    ROW(WRITER_COVERS_THE_FENCE, "fenced", "writes what belongs to another lock of the table") \
    ROW(WRITER_HOLDS_ALONE, "fenced", "writes with a lock that others share")                  \
    ROW(FENCE_KEEPS_ITS_SCOPES, "fenced", "a later writer's scopes become those of the fence") \
    ROW(OVERTAKEN_MAY_HAVE_BEEN_THERE, "fenced",                                               \
        "tells FENCED of what a later holder has written over")                                \
    ROW(BODY_BEFORE_FENCE, "fenced", "swaps the fence before its body is known to be there")   \
    ROW(REFUSED_BODY_IS_LOOKED_FOR, "fenced",                                                  \
        "takes a body that is refused for one that landed")                                    \
    ROW(UNSURE_KEEPS_BODY, "fenced", "deletes the body of a fence that may still land")        \
    ROW(OLD_BODY_AFTER_THE_SWAP, "fenced", "deletes the old body before the swap is known")    \
    ROW(SEEN_IS_NOT_UNDONE, "fenced", "tells as not done what had been there")                 \
    ROW(MAYBE_GONE_IS_NOT_DONE, "fenced",                                                      \
        "writes again what another of its lease may have replaced")                            \
    ROW(SEQ_OF_A_SESSION, "fenced", "compares numbers of two sessions")                        \
    /* Election. */                                                                            \
    ROW(DUE_IN_THE_DOCUMENT, "elect", "counts the steps from when it looked first")            \
    ROW(LADDER_WAITS, "elect", "starts at once, whatever its rank")                            \
    ROW(TIES_BY_FINGERPRINT, "elect", "of equal scores everybody leads")                       \
    ROW(ABSENT_ARE_LEFT_OUT, "elect", "ranks members that have not been heard of for long")    \
    ROW(CASCADE_CARRIES, "elect", "a completed level adds nothing to the next")                \
    ROW(GUARD_BEFORE_WORK, "elect", "does not look again just before work starts")             \
    /* Compaction: what may be in a catalog. */                                                \
    ROW(COMMIT_NEEDS_LIVE_SOURCES, "compact", "commits though a source is not live any more")  \
    ROW(COMMIT_REFUSES_CONDEMNED, "compact", "commits a target that was condemned")            \
    ROW(COMMIT_ONCE, "compact", "commits again what it committed, after a lost reply")         \
    ROW(ADD_REFUSES_CONDEMNED, "compact", "adds a chunk that was condemned")                   \
    ROW(ADD_ONCE, "compact", "adds again what it added, after a lost reply")                   \
    ROW(ADD_KNOWS_THE_FILE, "compact", "adds a file again, under another name")                \
    ROW(DELETING_KNOWS_THE_FILE, "compact", "forgets a file as soon as its chunk is deleted")  \
    ROW(SPLIT_KNOWS_THE_FILE, "compact", "a split forgets the files of what it moves")         \
    ROW(PARENTS_KNOW_THE_FILE, "compact", "does not ask the parent for a file")                \
    ROW(NAMES_EXPIRE, "compact", "adds or commits a name that was drawn more than D/2 ago")    \
    ROW(CONDEMN_SPARES_LIVE, "compact", "condemns what is live")                               \
    ROW(CONDEMN_SPARES_TOMBSTONES, "compact", "condemns what was live, in its grace")          \
    ROW(CONDEMN_KNOWS_MOVED, "compact", "condemns what a split has moved to a child")          \
    ROW(UNDELETE_UNDOES_ALL, "compact", "undeletes one source and leaves the target live")     \
    ROW(TRY_COUNTS_WHEN_LEASED, "compact", "counts no try of a lease that just died")          \
    ROW(QUARANTINE_ALONE, "compact", "quarantines all of a group that was tried too often")    \
    ROW(TRY_COUNTS_ONCE, "compact", "counts a try again for a lease that was settled before")  \
    ROW(RETIRE_BY_MAX_TIME, "compact", "retires a chunk once its first record is too old")     \
    ROW(SPLIT_CHECKS_LIVE, "compact", "splits though entries changed since they were copied")  \
    ROW(SPLIT_SWAPS_LAST, "compact", "swaps the parent before its children have landed")       \
    /* Compaction: what may be deleted. */                                                     \
    ROW(CONDEMN_BEFORE_DELETE, "compact",                                                      \
        "deletes the output of a lease that is over without condemning it")                    \
    ROW(UNSURE_COMMIT_IS_ASKED, "compact", "takes an unsure commit for one that failed")       \
    ROW(FRESH_OUTPUT_NAMES, "compact", "names an output after its sources")                    \
    ROW(GRACE_IS_PROVEN, "compact", "ends the time of grace at a tenth of it")                 \
    ROW(STAMPS_OF_ONE_CLOCK, "compact", "compares stamps of two clocks")                       \
    ROW(PINS_AFTER_THE_MOVE, "compact", "reads the pins before it moves names to deleting")    \
    ROW(PIN_THEN_READ, "compact", "reads the catalog, then pins")                              \
    ROW(DELETING_STAYS_FOR_D, "compact", "drops a name as soon as its object is deleted")      \
    ROW(DELETE_ONCE_MORE, "compact", "drops a name at D without deleting once more")           \
    ROW(SETTLE_BEFORE_FORGET, "compact", "forgets a lease before its output is condemned")     \
    ROW(CHECKSUM_ON_READ, "compact", "merges what it read as it is")                           \
    /* Inbox to shards. */                                                                     \
    ROW(ENTRIES_HAVE_A_NONCE, "index", "names an entry after its key and time alone")          \
    ROW(INBOX_BEFORE_SHARD, "index", "reads the shard, then the inbox")                        \
    ROW(VANISHED_IS_IN_THE_SHARD, "index", "does not open the shard anew for what is gone")    \
    ROW(REWRITTEN_IS_VANISHED, "index",                                                        \
        "takes an entry that was written anew for the one it listed")                          \
    ROW(CLEAR_AFTER_THE_SWAP, "index", "clears entries away, then puts the shard")             \
    ROW(UNSURE_CLEARS_NOTHING, "index", "takes a shard's put without an answer for done")      \
    ROW(CONFLICT_CLEARS_NOTHING, "index", "clears entries though another wrote the shard")     \
    ROW(SHARDS_ARE_SWAPPED, "index", "puts a shard without a condition")                       \
    ROW(FIRST_SHARD_IF_ABSENT, "index", "puts the first version of a shard unconditionally")   \
    ROW(STALE_COMPILERS_ARE_FENCED, "index", "writes a shard that a later token has written")  \
    ROW(FENCED_ASKS_THE_STORE, "index", "gives a shard up for ever that is ahead of its lock") \
    ROW(CLEAR_BY_ETAG, "index", "deletes another program's entry by its name")                 \
    ROW(MARK_BY_ETAG, "index", "puts a marker over whatever stands there")                     \
    ROW(MARKERS_SAY_NOTHING, "index", "sets markers aside as entries that cannot be read")     \
    ROW(LATEST_WINS, "index", "of two records the one that was read last wins")                \
    ROW(TIES_BY_BYTES, "index", "of two records of one time the one that was there stays")     \
    ROW(ASIDE_BEFORE_CLEAR, "index", "clears what cannot be read without a copy")              \
    ROW(SCHEMA_READ_AFTER_ENTRY, "index", "sets aside what a later schema would take")         \
    ROW(REFUSED_ENTRY_IS_LOOKED_FOR, "index",                                                  \
        "takes an entry that is refused for one that landed")                                  \
    ROW(ONE_VERSION_OF_A_SHARD, "index", "reads blocks of whatever version is there")          \
    ROW(STATISTICS_GO_FORWARD, "index", "writes statistics of an older shard over newer ones") \
    /* Keys with state. */                                                                     \
    ROW(PUBLISH_NAMES_THE_LEASE, "bank", "publishes though its lease is not there any more")   \
    ROW(STATE_BEFORE_THE_SWAP, "bank", "names a state before it is known to be there")         \
    ROW(OLD_STATE_AFTER_THE_SWAP, "bank", "deletes a state before a swap without it is known") \
    ROW(UNSURE_KEEPS_STATE, "bank", "deletes the state of a swap that may still land")         \
    ROW(UNNAMED_AFTER_A_SWAP, "bank",                                                          \
        "deletes states that nothing names and a lease could still publish")                   \
    /* Transactions. */                                                                        \
    ROW(RECORD_BEFORE_STAGE, "bank", "takes keys before its record is known to stand")         \
    ROW(STAGE_LOCKS_THE_KEY, "bank", "goes on with a key whose stage is not settled")          \
    ROW(TAKEN_UNTIL_DECIDED, "bank", "lets go of a key that it only read with its lease")      \
    ROW(OVER_FOR_ITS_OWN_TOO, "bank", "takes up what its transaction has under a dead lease")  \
    ROW(GIVES_BACK_ITS_OWN, "bank", "gives back what another process of its transaction took") \
    ROW(SETTLED_BY_THE_RECORD, "bank", "promotes a stage whose record is pending")             \
    ROW(SETTLE_NAMES_THE_TXN, "bank", "promotes whatever is staged there by now")              \
    ROW(ROLLBACK_IS_RECORDED, "bank", "discards a stage without recording the rollback")       \
    ROW(COMMIT_NEEDS_PENDING, "bank", "commits a record that is not pending any more")         \
    ROW(PARTICIPANTS_WITH_THE_DECISION, "bank", "names the participants after the decision")   \
    ROW(STAGES_ARE_CONFIRMED, "bank", "commits though a stage had no answer")                  \
    ROW(SEALED_BEFORE_THE_COMMIT, "bank", "commits what another process can still change")     \
    ROW(READER_ASKS_THE_RECORD, "bank", "shows the state of before though the record commits") \
    ROW(COMMITTED_STAGE_IS_READ_AGAIN, "bank", "shows what was staged before the last change") \
    ROW(RECORD_PURGED_AFTER_D, "bank", "purges a record as soon as it is applied")             \
    ROW(READ_RECORD_CLEARED_WHEN_APPLIED, "bank",                                              \
        "clears a commit that it has read, applied or not")                                    \
    ROW(RECORD_PURGED_WHEN_APPLIED, "bank",                                                    \
        "purges a commit whose participants were not seen applied")                            \
    /* Sweeping. */                                                                            \
    ROW(ENTRY_MOVES_BEFORE_IT_GOES, "sweep", "drops the entry of a lease that is not over")    \
    ROW(ENTRY_EACH_HOUR, "sweep", "writes an entry for the first hour of a lease only")        \
    ROW(PURGE_UNCHANGED_ONLY, "sweep", "purges a table that was used since it was looked at")

#define RULE_ENUM_(name, workload, broken) RULE_##name,
enum rule { RULE_TABLE(RULE_ENUM_) RULE_COUNT };
#undef RULE_ENUM_

#ifdef HOLDFAST_MUTANTS
extern enum rule rule_broken; /* RULE_COUNT: none */
#define RULE(name) (rule_broken != RULE_##name)
#else
#define RULE(name) ((void)RULE_##name, true)
#endif

#endif
