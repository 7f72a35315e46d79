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
    /* When a lease has ended, and for how long it is held. */                                 \
    ROW(SCAVENGE_WITH_PROOF, "locks", "treats a lease as over at now >= expires_at")           \
    ROW(SKEW_TOLERANCE, "locks", "takes over at the store's expires_at, without tolerance")    \
    ROW(WATCH_TO_THE_END, "locks", "takes over one tick (12 ms) before the holder stops")      \
    ROW(WATCH_SINCE_ARRIVAL, "locks",                                                          \
        "watches since the request was sent, not since its reply")                             \
    ROW(WATCH_ANEW_WHEN_RENEWED, "locks",                                                      \
        "does not restart its watch when the lease is renewed")                                \
    ROW(WATCH_OVER_RELOADS, "locks", "restarts its watch at each load")                        \
    ROW(CLOCK_ID_MUST_MATCH, "locks", "compares store times of two boots or machines")         \
    ROW(BOOT_CLOCK_FOR_LOCAL_STORES, "locks", "uses the wall clock as a local store's time")   \
    ROW(CACHED_DATES_TELL_NOTHING, "locks", "uses a stale Date as a sample")                   \
    ROW(VALID_FROM_T0, "locks", "counts validity from the reply")                              \
    ROW(VALID_FROM_THAT_ATTEMPT, "locks", "counts validity from the last attempt")             \
    ROW(CLAIM_BY_OWN_PUT, "locks", "grants a reservation, counted from the poll that saw it")  \
    ROW(GONE_STAYS_GONE, "locks",                                                              \
        "revives a lease by a late renewal after reporting it as gone")                        \
    ROW(RENEWAL_NEEDS_AN_ANSWER, "locks", "counts a renewal that got no reply")                \
    ROW(KEEPER_WAKES_IN_TIME, "locks", "sleeps while a lease that was just granted expires")   \
    ROW(GONE_IS_TOLD, "locks", "notifies the holder only when a renewal is refused")           \
    /* One document, changed by compare-and-swap. */                                           \
    ROW(NONCE_IN_EVERY_WRITE, "locks", "writes without a nonce")                               \
    ROW(NO_BLIND_RETRY, "doc", "repeats an unanswered put without its condition")              \
    ROW(RELOAD_AFTER_FAILURE, "doc", "continues from a body that was not written")             \
    ROW(FIRST_WRITE_IF_ABSENT, "doc", "writes a new document without a condition")             \
    ROW(CONFLICT_MAY_BE_OURS, "doc", "treats a conflict as proof that nothing was written")    \
    ROW(NOT_DONE_AFTER_A_SWAP, "doc", "reports a write as not done if missing after UNSURE")   \
    ROW(SETTLE_WRITES, "locks", "cancels, without a write, a request that may still land")     \
    ROW(REFUSED_AFTER_THE_PUT, "doc", "reports refusals from a batch that was not written")    \
    ROW(REFUSED_BY_FRESH_BODY, "doc", "reports refusals based on a cached body")               \
    ROW(STEP_DECIDES_ANEW, "steps",                                                            \
        "writes in one step what it prepared for an earlier version")                          \
    ROW(ONCE_BODY_HAS_THE_TOKEN, "bank",                                                       \
        "publishes a body without a lease under another token than the one in its name")       \
    ROW(SWEEP_USES_UP_THE_TOKEN, "bank",                                                       \
        "deletes a body while a change without a lease can still take its token")              \
    ROW(ONE_REFUSES_ALL, "bank",                                                               \
        "changes the other keys of a step in which one change is refused")                     \
    ROW(LATE_IS_UNSURE, "doc", "reports TIMEOUT for a write that may still land")              \
    ROW(CROWD_IS_REMEMBERED, "crowd", "forgets after each change how crowded a document is")   \
    ROW(OLD_BODIES_ARE_READ, "crowd", "puts a cached body that others have surely replaced")   \
    ROW(QUIET_IS_MEASURED, "crowd",                                                            \
        "trusts cached bodies twice as long after each read that finds no change")             \
    ROW(SLOW_LOSES_PATIENCE, "crowd", "pauses on a slow store until no time is left")          \
    ROW(CLAIMS_READ_FIRST, "crowd",                                                            \
        "claims with a body that it saw before it waited for its turn")                        \
    ROW(AWAITED_IS_TRIED_SOON, "handover",                                                     \
        "pauses for the crowd before it releases a lock, or joins the line of one")            \
    ROW(OTHERS_SLEEP, "handover", "makes all in line read as often as the first one")          \
    ROW(RETRIES_ARE_LIMITED, "outage", "retries as often as its pauses allow")                 \
    /* The lease table. */                                                                     \
    ROW(TOKENS_RISE, "locks", "grants a lease without using up a token")                       \
    ROW(RENEW_NEVER_REVIVES, "locks", "renews a lease that was treated as over")               \
    ROW(RELEASE_NAMES_THE_LEASE, "locks", "releases whatever lease is there")                  \
    ROW(BREAK_NAMES_THE_LEASE, "locks", "breaks whatever lease is there")                      \
    ROW(REENTRANCE_BY_SESSION, "locks",                                                        \
        "grants the same holder id again, in place of its lease")                              \
    ROW(SHARED_BESIDE_SHARED_ONLY, "locks", "grants an exclusive lease beside a shared one")   \
    ROW(SLOTS_ARE_COUNTED, "locks", "grants more slots than there are")                        \
    ROW(ONCE_PER_BY_STORE_TIME, "locks", "checks once_per against the wall clock")             \
    ROW(ONCE_PER_KNOWS_THE_TIME, "locks",                                                      \
        "checks once_per against the wall clock while no store time is known")                 \
    ROW(COMPLETION_IS_REMEMBERED, "locks", "forgets a completion when the next lease ends")    \
    ROW(RANGES_OVERLAP, "ranges", "compares only where ranges start")                          \
    ROW(TREE_BY_SEGMENT, "ranges", "treats /ab as part of the tree /a")                        \
    ROW(TREE_ABOVE_TOO, "ranges", "overlooks that a tree lies inside another")                 \
    ROW(EVERY_SCOPE_COUNTS, "ranges", "compares only the first scope of a lock")               \
    ROW(CLAIM_MINDS_OTHERS, "claims",                                                          \
        "claims, in the write that completes a lease, what overlaps another's lease")          \
    ROW(CLAIM_NEEDS_ITS_WRITE, "claims", "counts a claim whose completing write got no reply") \
    /* Waiting. */                                                                             \
    ROW(NEWCOMERS_OBEY_ORDER, "locks", "lets newcomers overtake waiters")                      \
    ROW(CLAIM_IN_TURN, "locks", "claims a free lock out of turn")                              \
    ROW(FIRST_IN_LINE, "locks", "reserves for all waiters at once")                            \
    ROW(CLAIM_WINDOW, "locks", "drops the next waiter after a tenth of the window")            \
    ROW(TURN_SINCE_WRITTEN, "ranges", "counts a turn from before the write that granted it")   \
    ROW(SESSIONS_OF_ONE_PLACE, "locks", "takes sessions that it cannot look up for gone")      \
    ROW(LEASES_OUTLIVE_SESSIONS, "locks", "ends the leases of a process that is gone")         \
    ROW(MISSED_TURN_IS_DROPPED, "locks", "waits forever for a waiter that does not claim")     \
    ROW(CANCEL_GIVES_BACK, "locks", "cancels a wait but keeps a lease granted meanwhile")      \
    /* Epochs, new tables and damage. */                                                       \
    ROW(BARRIER_AFTER_DAMAGE, "epochs",                                                        \
        "replaces a damaged table with one that grants at once")                               \
    ROW(BARRIER_OF_THE_LONGEST, "epochs",                                                      \
        "makes the barrier after damage shorter than leases can be")                           \
    ROW(LIMIT_BEFORE_THE_GRANT, "epochs",                                                      \
        "records how long a lease can be once it is granted")                                  \
    ROW(LIMIT_AFTER_THE_MARK, "epochs", "reads how long leases can be, then marks the damage") \
    ROW(LIMIT_OUTLIVES_ITS_LEASES, "epochs", "drops a limit while leases can be that long")    \
    ROW(DAMAGE_RAISES_EPOCH, "epochs", "replaces a damaged table without raising the epoch")   \
    ROW(DAMAGE_IS_MARKED, "epochs", "replaces damage that may come again, by its ETag")        \
    ROW(CHECKSUM_IS_COMPARED, "epochs", "uses a table whose checksum is wrong")                \
    ROW(ADOPTION_RAISES_EPOCH, "epochs",                                                       \
        "adopts another program's table without raising the epoch")                            \
    ROW(PURGE_RAISES_EPOCH, "epochs", "purges a table without raising the epoch")              \
    ROW(BORN_IN_TWO_WRITES, "epochs", "creates a table in one write")                          \
    ROW(BORN_SO_EVERYWHERE, "epochs",                                                          \
        "creates a table in one write unless it knows that tables are purged")                 \
    ROW(EPOCH_AFTER_THE_STUB, "epochs", "reads the epoch before the stub has landed")          \
    ROW(EPOCH_COPY_FIRST, "epochs", "raises the epoch's document before its copy")             \
    ROW(LOST_EPOCH_IS_NOT_ZERO, "epochs", "treats a lost epoch document as epoch 0")           \
    ROW(CREATOR_GOES_FIRST, "newcomers", "searches all tables while another client does")      \
    ROW(LIMIT_IS_RECORDED_ONCE, "newcomers", "records a limit that another client recorded")   \
    ROW(ONE_PROBES_FOR_ALL, "newcomers", "probes the store while another client does")         \
    /* Fenced objects. */                                                                      \
    ROW(LOWER_TOKEN_IS_FENCED, "fenced", "writes with a lower token than the last")            \
    ROW(SAME_TOKEN_IN_ORDER, "fenced",                                                         \
        "overwrites a newer write of the same lease with an older one")                        \
    ROW(FENCE_IN_THE_BYTES, "fenced",                                                          \
        "keeps the fence in metadata, where ETags hash the content")                           \
    ROW(FENCE_ASKS_THE_LEASE, "fenced", "writes although its own lease has ended")             \
    ROW(WRITER_COVERS_THE_FENCE, "fenced", "writes an object of another lock in the table")    \
    ROW(WRITER_HOLDS_ALONE, "fenced", "writes with a lock that others share")                  \
    ROW(FENCE_KEEPS_ITS_SCOPES, "fenced", "replaces the fence's scopes with a later writer's") \
    ROW(OVERTAKEN_MAY_HAVE_BEEN_THERE, "fenced",                                               \
        "reports FENCED for a write that a later holder overwrote")                            \
    ROW(BODY_BEFORE_FENCE, "fenced", "swaps the fence before its body is known to exist")      \
    ROW(REFUSED_BODY_IS_LOOKED_FOR, "fenced", "treats a refused body as one that landed")      \
    ROW(UNSURE_KEEPS_BODY, "fenced", "deletes the body of a fence that may still land")        \
    ROW(OLD_BODY_AFTER_THE_SWAP, "fenced", "deletes the old body before the swap is known")    \
    ROW(SEEN_IS_NOT_UNDONE, "fenced", "reports a write as not done although it was there")     \
    ROW(MAYBE_GONE_IS_NOT_DONE, "fenced",                                                      \
        "repeats a write that another one of its lease may have replaced")                     \
    ROW(SEQ_OF_A_SESSION, "fenced", "compares the numbers of two sessions")                    \
    /* Election. */                                                                            \
    ROW(DUE_IN_THE_DOCUMENT, "elect", "counts the steps from its first look")                  \
    ROW(LADDER_WAITS, "elect", "starts at once, regardless of its rank")                       \
    ROW(TIES_BY_FINGERPRINT, "elect", "lets all members with equal scores lead")               \
    ROW(ABSENT_ARE_LEFT_OUT, "elect", "ranks members that have been silent for long")          \
    ROW(CASCADE_CARRIES, "elect", "does not carry a completed level into the next")            \
    ROW(GUARD_BEFORE_WORK, "elect", "does not check again just before work starts")            \
    /* Compaction: what may be in a catalog. */                                                \
    ROW(COMMIT_NEEDS_LIVE_SOURCES, "compact", "commits although a source is no longer live")   \
    ROW(COMMIT_REFUSES_CONDEMNED, "compact", "commits a target that was condemned")            \
    ROW(COMMIT_ONCE, "compact", "repeats a commit after a lost reply")                         \
    ROW(ADD_REFUSES_CONDEMNED, "compact", "adds a chunk that was condemned")                   \
    ROW(ADD_ONCE, "compact", "repeats an add after a lost reply")                              \
    ROW(ADD_KNOWS_THE_FILE, "compact", "adds a file again, under another name")                \
    ROW(DELETING_KNOWS_THE_FILE, "compact", "forgets a file as soon as its chunk is deleted")  \
    ROW(SPLIT_KNOWS_THE_FILE, "compact", "forgets the files of chunks that a split moves")     \
    ROW(PARENTS_KNOW_THE_FILE, "compact", "does not ask the parent for a file")                \
    ROW(NAMES_EXPIRE, "compact", "adds or commits a name generated more than D/2 ago")         \
    ROW(CONDEMN_SPARES_LIVE, "compact", "condemns a live chunk")                               \
    ROW(CONDEMN_SPARES_TOMBSTONES, "compact", "condemns a tombstone in its grace period")      \
    ROW(CONDEMN_KNOWS_MOVED, "compact", "condemns a chunk that a split moved to a child")      \
    ROW(CONDEMN_SPARES_PENDING, "compact", "condemns the output of a finished range")          \
    ROW(COMMIT_NEEDS_ALL_RANGES, "compact", "commits a divided merge without all its ranges")  \
    ROW(GIVEN_UP_IS_CONDEMNED, "compact", "forgets the outputs of a merge that it gives up")   \
    ROW(RANGE_NAMES_ITS_MERGE, "compact", "enters a range of another attempt")                 \
    ROW(PARTS_HAVE_THEIR_KEYS, "compact", "merges ranges that overlap")                        \
    ROW(UNDELETE_TAKES_ALL_TARGETS, "compact", "leaves targets of an undone merge live")       \
    ROW(UNDELETE_UNDOES_ALL, "compact", "undeletes one source and leaves the target live")     \
    ROW(TRY_COUNTS_WHEN_LEASED, "compact", "counts no try for a lease that just died")         \
    ROW(TRY_NEEDS_A_BEGIN, "compact", "counts a try for a lease whose merge had not begun")    \
    ROW(UNCERTAIN_IS_MARKED, "compact",                                                        \
        "does not mark chunks whose worker died, perhaps in their merge")                      \
    ROW(BEGIN_IS_MARKED, "compact",                                                            \
        "merges chunks that may kill it before it has written that it begins")                 \
    ROW(QUARANTINE_ALONE, "compact",                                                           \
        "quarantines a whole group that was tried too many times")                             \
    ROW(ALONE_IS_TESTED, "compact", "commits a copy of a chunk that is tried alone")           \
    ROW(TRY_COUNTS_ONCE, "compact", "counts a try again for a lease that was settled before")  \
    ROW(RETIRE_BY_MAX_TIME, "compact", "retires a chunk once its first record is too old")     \
    ROW(SPLIT_CHECKS_LIVE, "compact",                                                          \
        "splits although entries changed since they were copied")                              \
    ROW(SPLIT_SWAPS_LAST, "compact", "swaps the parent before its children have landed")       \
    /* Compaction: objects that others wrote. */                                               \
    ROW(PREFIX_HAS_ONE_PARTITION, "compact", "registers a prefix to two partitions")           \
    ROW(READ_ADOPTED_BY_ETAG, "compact", "merges an adopted object that was rewritten")        \
    ROW(KEEP_ADOPTED_IDS, "compact", "forgets an adopted object that stays in the bucket")     \
    ROW(DELETE_ONLY_OWNED, "compact", "deletes adopted objects that others own")               \
    ROW(DELETE_ADOPTED_BY_ETAG, "compact", "deletes an adopted object in any version")         \
    ROW(CLEAR_BEFORE_FORGET, "compact", "forgets an object that it could not delete")          \
    ROW(RELEASE_WAITS, "compact", "removes a path that a client has just seen there")          \
    ROW(RELEASE_AFTER_THE_OBJECTS, "compact",                                                  \
        "removes a path whose objects its partition still lists")                              \
    ROW(PATH_SEEN_LATELY, "compact", "adds an object whose path was registered long ago")      \
    /* Compaction: deletion markers. */                                                        \
    ROW(FLOOR_IS_CHECKED, "compact", "adds data that dropped markers would have deleted")      \
    ROW(MARKERS_SEE_ALL_LIVE, "compact", "drops markers although an older chunk is live")      \
    ROW(MARKERS_SEE_QUARANTINE, "compact",                                                     \
        "drops markers although an older chunk is quarantined")                                \
    ROW(MARKERS_SEE_TOMBSTONES, "compact",                                                     \
        "drops markers although an older chunk can be undeleted")                              \
    ROW(SPLIT_KEEPS_MARKERS, "compact", "drops the markers of a partition that was split")     \
    ROW(MARKERS_STAY_FOR_2D, "compact", "drops markers as soon as nothing older is left")      \
    /* Compaction: what may be deleted. */                                                     \
    ROW(CONDEMN_BEFORE_DELETE, "compact",                                                      \
        "deletes the output of a lease that has ended without condemning it")                  \
    ROW(UNSURE_COMMIT_IS_ASKED, "compact", "treats an unsure commit as failed")                \
    ROW(FRESH_OUTPUT_NAMES, "compact", "names an output after its sources")                    \
    ROW(GRACE_IS_PROVEN, "compact", "ends the grace period after a tenth of it")               \
    ROW(STAMPS_OF_ONE_CLOCK, "compact", "compares the stamps of two clocks")                   \
    ROW(PINS_AFTER_THE_MOVE, "compact", "reads the pins before it moves names to deleting")    \
    ROW(PIN_THEN_READ, "compact", "reads the catalog, then pins")                              \
    ROW(SNAPSHOTS_ARE_PINS, "compact", "overlooks the snapshots of readers when it deletes")   \
    ROW(EARLIER_SNAPSHOTS_HOLD, "compact", "compares generations the wrong way")               \
    ROW(MOVE_RAISES_GENERATION, "compact", "moves names to deleting at the same generation")   \
    ROW(SPLIT_RAISES_GENERATION, "compact", "splits a catalog at the same generation")         \
    ROW(PINS_ABOVE_COUNT, "compact", "overlooks snapshots taken before a split")               \
    ROW(SNAPSHOT_READS_LAST, "compact", "reads the snapshot before its pins are written")      \
    ROW(DELETING_STAYS_FOR_D, "compact", "drops a name as soon as its object is deleted")      \
    ROW(DELETE_ONCE_MORE, "compact", "drops a name at D without deleting once more")           \
    ROW(SETTLE_BEFORE_FORGET, "compact", "forgets a lease before its output is condemned")     \
    ROW(CHECKSUM_ON_READ, "compact", "merges what it read without checking it")                \
    /* Compaction: dropping a partition. */                                                    \
    ROW(DROPPING_REFUSES, "compact", "adds chunks to a partition that is being dropped")       \
    ROW(DROP_WAITS_FOR_D, "compact", "removes a marked catalog as soon as it is empty")        \
    ROW(DROP_RESPECTS_PINS, "compact", "deletes pinned chunks of a partition being dropped")   \
    /* Inbox to shards. */                                                                     \
    ROW(ENTRIES_HAVE_A_NONCE, "index", "names an entry after its key and time alone")          \
    ROW(INBOX_BEFORE_SHARD, "index", "reads the shard, then the inbox")                        \
    ROW(VANISHED_IS_IN_THE_SHARD, "index",                                                     \
        "does not reopen the shard for entries that are gone")                                 \
    ROW(REWRITTEN_IS_VANISHED, "index", "treats a rewritten entry as the one that it listed")  \
    ROW(CLEAR_AFTER_THE_SWAP, "index", "clears entries, then puts the shard")                  \
    ROW(UNSURE_CLEARS_NOTHING, "index", "treats an unanswered put of a shard as done")         \
    ROW(CONFLICT_CLEARS_NOTHING, "index",                                                      \
        "clears entries although another compiler wrote the shard")                            \
    ROW(SHARDS_ARE_SWAPPED, "index", "puts a shard without a condition")                       \
    ROW(FIRST_SHARD_IF_ABSENT, "index", "puts the first version of a shard unconditionally")   \
    ROW(STALE_COMPILERS_ARE_FENCED, "index", "overwrites a shard that has a later token")      \
    ROW(FENCED_ASKS_THE_STORE, "index", "gives up forever on a shard ahead of its lock")       \
    ROW(CLEAR_BY_ETAG, "index", "deletes another program's entry by its name")                 \
    ROW(MARK_BY_ETAG, "index", "puts a marker over whatever is there")                         \
    ROW(MARKERS_SAY_NOTHING, "index", "sets markers aside as entries that cannot be read")     \
    ROW(LATEST_WINS, "index", "keeps the record that was read last")                           \
    ROW(TIES_BY_BYTES, "index", "keeps the existing record if the times are equal")            \
    ROW(ASIDE_BEFORE_CLEAR, "index", "clears an unreadable entry without keeping a copy")      \
    ROW(SCHEMA_READ_AFTER_ENTRY, "index",                                                      \
        "sets aside an entry that a later schema would accept")                                \
    ROW(REFUSED_ENTRY_IS_LOOKED_FOR, "index", "treats a refused entry as one that landed")     \
    ROW(ONE_VERSION_OF_A_SHARD, "index", "reads blocks from whatever version is there")        \
    ROW(KEPT_SHARD_IS_CHECKED, "index", "answers from a kept shard that was replaced since")   \
    ROW(DELETIONS_OF_ABSENT_KEYS_STAY, "index", "drops a deletion that has nothing to delete") \
    ROW(DELETIONS_ARE_KEPT_FOR_2D, "index", "drops deletions with the next fold")              \
    ROW(DROPPING_RAISES_THE_FLOOR, "index", "drops deletions, and forgets up to when")         \
    ROW(FOLDS_OBEY_THE_FLOOR, "index", "folds a record whose deletion may have been dropped")  \
    ROW(READERS_OBEY_THE_FLOOR, "index",                                                       \
        "shows a record whose deletion may have been dropped")                                 \
    ROW(SIDECAR_BY_ITS_ETAG, "plain",                                                          \
        "uses the blocks of a sidecar for any version of the shard")                           \
    ROW(DELETIONS_OUTLIVE_VERSIONS, "plain",                                                   \
        "forgets deletions once another program has written the shard")                        \
    ROW(DELETION_BEFORE_RECORD_GOES, "plain", "writes new deletions after the shard only")     \
    ROW(PLAIN_SHARDS_ARE_READ_BACK, "plain", "clears entries before the shard is read back")   \
    ROW(DROPS_CHECK_THE_MARK, "drop", "deletes what it has listed, whoever owns the name now") \
    ROW(STATISTICS_GO_FORWARD, "index", "overwrites statistics with those of an older shard")  \
    /* Keys with state. */                                                                     \
    ROW(PUBLISH_NAMES_THE_LEASE, "bank", "publishes although its lease is gone")               \
    ROW(ONCE_NEEDS_NO_HOLDER, "bank", "changes a key that another client holds")               \
    ROW(ONCE_LETS_WAITERS_FIRST, "bank", "changes a key past clients that wait for it")        \
    ROW(ONCE_SPARES_STAGES, "bank", "changes a key that has a stage without a lease")          \
    ROW(ONCE_TAKES_A_TOKEN, "bank", "changes a key without using up a token")                  \
    ROW(ONCE_IS_NOT_REPEATED, "bank", "repeats a change over a later one")                     \
    ROW(ONCE_REFUSED_IF_NOT_MADE, "bank", "refuses a change that was made and overwritten")    \
    ROW(STATE_BEFORE_THE_SWAP, "bank", "names a state before it is known to exist")            \
    ROW(OLD_STATE_AFTER_THE_SWAP, "bank", "deletes a state before a swap without it is known") \
    ROW(UNSURE_KEEPS_STATE, "bank", "deletes the state of a swap that may still land")         \
    ROW(UNNAMED_AFTER_A_SWAP, "bank",                                                          \
        "deletes states that nothing names and a lease could still publish")                   \
    /* Transactions. */                                                                        \
    ROW(RECORD_BEFORE_STAGE, "bank", "takes keys before its record is known to exist")         \
    ROW(RECORD_WITH_THE_FIRST_KEYS, "bank", "takes keys in a step that leaves its record out") \
    ROW(STAGE_LOCKS_THE_KEY, "bank", "continues with a key whose stage is not settled")        \
    ROW(REFUSED_TAKES_NOTHING, "bank",                                                         \
        "keeps keys that it was granted while another was refused")                            \
    ROW(UNSURE_KEYS_ARE_UNDONE, "bank",                                                        \
        "waits although a key may have been granted by a request without a reply")             \
    ROW(WAITS_IN_ORDER, "bank", "waits for a key while it holds a later one")                  \
    ROW(EVERY_STAGE_IS_AWAITED, "bank", "reports changes as staged that got no reply")         \
    ROW(APPLIED_WHEN_ALL_ARE_SETTLED, "bank",                                                  \
        "notes a commit as applied although the settling of a key was lost")                   \
    ROW(TAKEN_UNTIL_DECIDED, "bank", "releases a key that it only read under its lease")       \
    ROW(OVER_FOR_ITS_OWN_TOO, "bank", "continues with its own stage under a dead lease")       \
    ROW(GIVES_BACK_ITS_OWN, "bank",                                                            \
        "releases a key that another process of its transaction took")                         \
    ROW(SETTLED_BY_THE_RECORD, "bank", "promotes a stage whose record is pending")             \
    ROW(SETTLE_NAMES_THE_TXN, "bank", "promotes whatever is staged there now")                 \
    ROW(ROLLBACK_IS_RECORDED, "bank", "discards a stage without recording the rollback")       \
    ROW(COMMIT_NEEDS_PENDING, "bank", "commits a record that is no longer pending")            \
    ROW(STEP_PUBLISHES_KEPT_CHANGES, "bank", "commits in a step without the changes it kept")  \
    ROW(STEP_SETTLES_EVERY_KEY, "bank", "notes a commit as applied without one of its keys")   \
    ROW(PARTICIPANTS_WITH_THE_DECISION, "bank", "names the participants after the decision")   \
    ROW(STAGES_ARE_CONFIRMED, "bank", "commits although a stage got no reply")                 \
    ROW(SEALED_BEFORE_THE_COMMIT, "bank",                                                      \
        "commits stages that another process can still change")                                \
    ROW(READER_ASKS_THE_RECORD, "bank", "shows the old state although the record commits")     \
    ROW(COMMITTED_STAGE_IS_READ_AGAIN, "bank", "shows what was staged before the last change") \
    ROW(RECORD_PURGED_AFTER_D, "bank", "purges a record as soon as it is applied")             \
    ROW(READ_RECORD_CLEARED_WHEN_APPLIED, "bank",                                              \
        "clears a commit record that it read, applied or not")                                 \
    ROW(RECORD_PURGED_WHEN_APPLIED, "bank",                                                    \
        "purges a commit before all its participants were seen applied")                       \
    /* Paths in pages. */                                                                      \
    ROW(PAGE_BY_FIRST_SEGMENTS, "pages", "finds the page by one segment too many")             \
    ROW(SHORT_TREES_ARE_REFUSED, "pages", "grants a tree of many pages in one of them")        \
    ROW(PLACEMENT_NEVER_CHANGES, "pages", "replaces the placement of a namespace")             \
    ROW(MARK_ONLY_IF_ABSENT, "pages", "places paths in pages over the table that has them")    \
    /* Features, and upgrades. */                                                              \
    ROW(FEATURES_ARE_SWAPPED, "upgrade", "overwrites a format document that it has not read")  \
    ROW(UNKNOWN_FEATURES_BAR_WRITES, "upgrade",                                                \
        "writes to a bucket whose feature it does not know")                                   \
    ROW(ADDITION_IN_DOUBT_IS_UNSURE, "upgrade",                                                \
        "reports a feature as not recorded that may still land")                               \
    ROW(SWITCH_ALWAYS_WRITES, "upgrade",                                                       \
        "switches a feature without a write if an earlier switch has not landed yet")          \
    ROW(SEALED_IF_UNCHANGED, "upgrade",                                                        \
        "adds a checksum to a document that has changed since")                                \
    /* The server. */                                                                          \
    ROW(FIRST_COME_FIRST_SERVED, "serve", "lets the last waiter of a line ask next")           \
    ROW(NO_WAIT_IN_TURN, "serve", "lets a request that does not wait overtake the line")       \
    ROW(RELEASE_WAKES_THE_LINE, "serve", "does not poll when a release went through it")       \
    ROW(UNWANTED_IS_GIVEN_BACK, "serve", "keeps a grant whose client has hung up")             \
    ROW(NEXT_ASKS_SOON, "serve",                                                               \
        "lets the next waiter ask only when its server sees a release")                        \
    ROW(TIMEOUT_HAS_NO_PLACE, "serve", "answers a wait in vain before its place is given up")  \
    ROW(REPEAT_ENDS_THE_WAIT, "serve", "waits on for a repeat that does not want to wait")     \
    ROW(WAITS_END, "serve", "does not end a wait at its time limit")                           \
    ROW(STOP_GRANTS_NOTHING, "serve", "grants while it stops")                                 \
    ROW(RETRY_JOINS, "serve", "acquires again for a retry of a request under way")             \
    ROW(RETRY_GETS_THE_RESULT, "serve", "acquires again for a retry of a granted request")     \
    ROW(ID_HAS_ONE_CONTENT, "serve", "answers another request that has the same id")           \
    ROW(MEMORY_IS_BOUNDED, "serve", "keeps results without a bound")                           \
    ROW(CALLS_ARE_BOUNDED, "serve", "starts calls without a bound")                            \
    ROW(GRANTS_ARE_DETACHED, "serve", "releases a lease when it has answered")                 \
    ROW(LEASE_HAS_ITS_ID, "serve", "takes any lease of the lock for the one with the id")      \
    ROW(ANSWER_FROM_T0, "serve", "counts the time that is left from the reply of the store")   \
    ROW(KEEPALIVE_AFTER_ITS_WRITE, "serve", "acknowledges a keepalive that got no reply")      \
    ROW(EACH_BY_ITS_OWN_STATUS, "serve", "takes the first result of a batch for all")          \
    ROW(UNDECIDED_IS_MADE_ALONE, "serve", "answers a call that its batch did not make")        \
    ROW(DOUBT_IS_NOT_UNDECIDED, "serve", "asks again although its first write may be done")    \
    ROW(TXN_KEYS_ARE_DETACHED, "serve",                                                        \
        "releases a key of a transaction when it has answered")                                \
    ROW(DECISION_IS_THE_RECORD, "serve",                                                       \
        "tells a client that its transaction is decided as it asked")                          \
    ROW(DECISION_AFTER_ITS_WRITE, "serve", "tells a client of a decision that got no reply")   \
    ROW(DECISION_FREES_ITS_KEYS, "serve",                                                      \
        "decides a transaction, and leaves its keys to others")                                \
    ROW(REPLAY_DECIDES_NOTHING, "serve", "rolls back a transaction whose client is at work")   \
    /* Sweeping. */                                                                            \
    ROW(ENTRY_MOVES_BEFORE_IT_GOES, "sweep", "drops the entry of a lease that is not over")    \
    ROW(ENTRY_EACH_HOUR, "sweep", "writes an entry only for the first hour of a lease")        \
    ROW(PURGE_UNCHANGED_ONLY, "sweep",                                                         \
        "purges a table that has been used since it was examined")

#define RULE_ENUM_(name, workload, broken) RULE_##name,
enum rule { RULE_TABLE(RULE_ENUM_) RULE_COUNT };
#undef RULE_ENUM_

#ifdef HOLDFAST_MUTANTS
extern enum rule rule_broken; /* RULE_COUNT: none */
#define RULE(name) (rule_broken != RULE_##name)
#else
#define RULE(name) (RULE_##name < RULE_COUNT) /* true */
#endif

#endif
