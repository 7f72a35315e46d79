/* SPDX-License-Identifier: Apache-2.0 */
/* txn.pml: how one transaction is decided and its keys are settled, in every order of events
 * (docs/design.md, "Transactions"). README.md maps each name to the code, and lists what is not
 * modelled.
 *
 *     spin -a txn.pml && gcc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m1000000
 *
 * A process has taken all keys for its transaction. It stages a change to each of them at the
 * same time, commits, and settles the keys in the background. Other clients want the keys, a
 * reader reads them, and a sweeper purges the record. A request may take effect at any time or
 * never, a reply may be lost, a lease may end at any time, and a process that takes no more
 * steps has died. */

#ifndef KEYS
#define KEYS 2
#endif
#ifndef WANTED
#define WANTED 2 /* how many of the keys are wanted by another client */
#endif

/* ---- Wrong rules ----------------------------------------------------------------------------
 * With each of these, given as -D to spin, the search must find a violation. */

#ifdef COMMIT_BEFORE_STAGED
#define may_commit() true
#else
#define may_commit() all_known()
#endif

#ifdef COMMIT_WITHOUT_CONDITION
#define commit_lands() (sent != NO_REQUEST)
#else
#define commit_lands() (sent == CURRENT)
#endif

#ifdef UNSURE_IS_COMMIT
#define after_no_reply COMMIT
#elif defined(UNSURE_IS_ROLLBACK)
#define after_no_reply ROLLBACK
#else
#define after_no_reply PENDING /* look at the record */
#endif

#ifdef DISCARD_WITHOUT_RECORD
#define records_rollback false
#else
#define records_rollback true
#endif

#ifdef PROMOTE_PENDING
#define promotes(r) (r == COMMIT || r == PENDING)
#else
#define promotes(r) (r == COMMIT)
#endif

#ifdef APPLIED_ALTHOUGH_LOST
#define may_note_applied() all_sent()
#else
#define may_note_applied() all_settled()
#endif

#ifdef PURGED_UNSETTLED
#define purge_looks false
#else
#define purge_looks (!applied)
#endif

#ifdef ABSENT_IS_ROLLBACK
#define reads_again false
#else
#define reads_again true
#endif

/* ---- Stories --------------------------------------------------------------------------------
 * Events that must occur somewhere in a search; otherwise it proves less than it seems to. */

c_decl {
static void tell(const char *words)
{
    static const char *told[16];
    int i;
    for (i = 0; i < 16 && told[i]; i++)
        if (strcmp(told[i], words) == 0)
            return;
    if (i < 16)
        told[i] = words;
    printf("story: %s\n", words);
}
}

#define story(words) c_code { tell(words); }

/* ---- The store ------------------------------------------------------------------------------ */

mtype:record = { ABSENT, PENDING, COMMIT, ROLLBACK };
mtype:stage = { NONE, TAKEN, CHANGED };

/* A request that is in flight. It is made for one version of its document, and takes effect only
 * while the document has that version. */
mtype:request = { NO_REQUEST, CURRENT, OUTDATED };

mtype:record record = PENDING;
bit applied;                    /* the record says that all keys are settled */
mtype:request sent = NO_REQUEST; /* the commit */

typedef document {
    mtype:stage stage = TAKEN;
    bit leased = 1; /* the process that began the transaction has its lease */
    bit value;      /* 1: the new one is published */
    mtype:request put = NO_REQUEST; /* the change that is being staged */
    bit seen;       /* it has not changed since the client that wants the key read it */
    bit settling;   /* a request to settle it was sent */
}
document key[KEYS];

bit committed; /* whether the commit has ever been in the record: what must be true of all keys */

/* The state that a reader must see. */
#define worth(k) (key[k].value || (key[k].stage == CHANGED && record == COMMIT))

/* All or nothing, at every instant. */
inline judge()
{
    for (j : 0 .. KEYS - 1) {
        assert(worth(j) == committed)
    };
    j = 0
}

inline changed(k)
{
    key[k].seen = 0;
    if
    :: key[k].put == CURRENT -> key[k].put = OUTDATED
    :: else
    fi
}

inline record_changed()
{
    if
    :: sent == CURRENT -> sent = OUTDATED
    :: else
    fi
}

/* Promotes or discards the stage, and ends the lease, in one write. */
inline settle(k, promote)
{
    if
    :: promote && key[k].stage == CHANGED -> key[k].value = 1
    :: else
    fi;
    key[k].stage = NONE;
    key[k].leased = 0;
    changed(k)
}

/* ---- The process that decides --------------------------------------------------------------- */

bit known[KEYS];   /* the change is known to be staged */
bit settled[KEYS]; /* the key was observed to have no stage left */
mtype:record decision = PENDING; /* as far as the process knows */

#if KEYS == 2
#define all_known()   (known[0] && known[1])
#define all_settled() (settled[0] && settled[1])
#define all_sent()    (key[0].settling && key[1].settling)
#define none_put()    (key[0].put == NO_REQUEST && key[1].put == NO_REQUEST)
#else
#define all_known()   (known[0] && known[1] && known[2])
#define all_settled() (settled[0] && settled[1] && settled[2])
#define all_sent()    (key[0].settling && key[1].settling && key[2].settling)
#define none_put()    (key[0].put == NO_REQUEST && key[1].put == NO_REQUEST && \
                       key[2].put == NO_REQUEST)
#endif

/* Stages the change to one key; one process for each key, so all of them are under way together. */
proctype stage_change(byte k)
{
    byte j;
end_stage:
    do
    :: atomic { key[k].put == NO_REQUEST && sent == NO_REQUEST && !known[k] &&
                decision == PENDING ->
           if
           :: key[k].stage == CHANGED -> known[k] = 1 /* an earlier put has taken effect */
           :: key[k].stage == TAKEN && key[k].leased -> key[k].put = CURRENT
           :: else -> break
           fi }
    :: atomic { key[k].put == CURRENT -> /* it takes effect, and the reply arrives or is lost */
           key[k].stage = CHANGED;
           changed(k);
           key[k].put = NO_REQUEST;
           judge();
           if
           :: known[k] = 1
           :: true
           fi }
    :: atomic { key[k].put == OUTDATED -> key[k].put = NO_REQUEST } /* refused */
    :: atomic { known[k] || decision != PENDING -> break }
    od
}

proctype decide()
{
    byte j;
end_decide:
    do
    :: atomic { decision == PENDING && sent == NO_REQUEST && may_commit() ->
           if
           :: record == PENDING -> sent = CURRENT
           :: record == ABSENT -> decision = ROLLBACK /* purged, which is D later: UNSURE */
           :: else -> decision = record
           fi }
    :: atomic { sent != NO_REQUEST && commit_lands() ->
           record = COMMIT;
           committed = 1;
           sent = NO_REQUEST;
           judge();
           if
           :: decision = COMMIT
           :: story("a commit took effect, and its reply was lost");
              decision = after_no_reply
           fi }
    :: atomic { sent != NO_REQUEST -> /* the request is lost, or refused */
           if
           :: sent == OUTDATED && record == ROLLBACK ->
              story("a rollback overtook the commit")
           :: else
           fi;
           sent = NO_REQUEST;
           decision = after_no_reply }
    :: atomic { decision != PENDING -> break }
    od
}

/* Settles one key in the background. The request may be lost, and so may the reply. */
proctype settle_key(byte k)
{
    byte j;
end_settle:
    atomic { decision != PENDING -> key[k].settling = 1 };
    if
    :: atomic { key[k].stage == NONE -> settled[k] = 1 }
    :: atomic { true -> settle(k, (decision == COMMIT));
           judge();
           if
           :: settled[k] = 1
           :: true
           fi }
    :: true /* never */
    fi
}

proctype note_applied()
{
    byte j;
end_applied:
    atomic { decision == COMMIT && may_note_applied() && record == COMMIT ->
        applied = 1;
        record_changed();
        judge() }
}

/* ---- Others --------------------------------------------------------------------------------- */

/* Wants one key, whose stage it settles first. Each read and each write is one step. The lease may
 * turn out to have ended at any time: it has expired, or its process has died. */
proctype want(byte k)
{
    mtype:record r;
    bit abandoned;
    byte j;
end_start:
    atomic { key[k].stage != NONE ->
        key[k].seen = 1;
        if
        :: abandoned = 1
        :: key[k].leased -> abandoned = 0
        fi };
    atomic { r = record };
    if
    :: r == COMMIT || r == ROLLBACK || promotes(r)
    :: else ->
        if
        :: r == ABSENT -> /* purged, and then the stage must be gone: look again */
            atomic {
                if
                :: key[k].seen && record == ABSENT ->
                   record = ROLLBACK; record_changed(); judge()
                :: else -> goto end_start
                fi }
        :: r == PENDING && abandoned && records_rollback ->
            atomic {
                if
                :: record == PENDING -> record = ROLLBACK; record_changed(); judge()
                :: else
                fi }
            goto end_start /* reads the decision, whoever made it */
        :: r == PENDING && abandoned && !records_rollback
        :: r == PENDING && !abandoned -> goto end_start
        fi
    fi;
    atomic {
        if
        :: key[k].seen ->
            if
            :: key[k].leased && !abandoned && r != PENDING ->
               story("a client ended a live lease of the process that decided")
            :: else
            fi;
            if
            :: promotes(r) && key[k].settling && !settled[k] ->
               story("a client promoted a stage whose settling was lost")
            :: else
            fi;
            settle(k, promotes(r));
            judge()
        :: else
        fi };
    abandoned = 0;
    r = ABSENT;
    goto end_start
}

/* Reads one key without a lease. */
proctype read_key(byte k)
{
    mtype:record r;
    bit shown, staged, began;
start:
    atomic {
        began = committed;
        shown = key[k].value;
        staged = (key[k].stage == CHANGED) };
    if
    :: staged ->
        atomic { r = record };
        if
        :: r == COMMIT -> shown = 1
        :: r == ABSENT && reads_again -> atomic { shown = key[k].value }
        :: else
        fi
    :: else
    fi;
    atomic {
        assert(!began || shown);    /* not older than the beginning of the read, ... */
        assert(!shown || committed) /* ... and never what was not committed */
    };
    atomic { shown = 0; staged = 0; began = 0; r = ABSENT };
    goto start
}

/* Deletes the record, D after the decision: by then no request is in flight. */
proctype purge()
{
    byte i, j;
end_purge:
    do
    :: atomic { record == ROLLBACK && none_put() && sent == NO_REQUEST ->
           record = ABSENT;
           judge() }
    :: atomic { record == COMMIT && none_put() && sent == NO_REQUEST -> i = 0 };
       do
       :: purge_looks && i < KEYS ->
           atomic {
               if
               :: key[i].stage == NONE -> i++
               :: else -> goto again
               fi }
       :: else -> break
       od;
       atomic {
           if
           :: record == COMMIT ->
              if
              :: !applied -> story("a commit was purged after its keys were seen settled")
              :: else -> story("a commit that was noted as applied was purged")
              fi;
              record = ABSENT;
              applied = 0;
              judge()
           :: else
           fi };
again:
       i = 0
    od
}

init {
    byte k;
    atomic {
        for (k : 0 .. KEYS - 1) {
            run stage_change(k);
            run settle_key(k)
        };
        for (k : 0 .. WANTED - 1) {
            run want(k)
        };
        k = 0;
        run decide();
        run note_applied();
#ifdef READER
        run read_key(0);
#endif
        run purge()
    }
}
