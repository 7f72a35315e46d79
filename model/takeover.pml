/* SPDX-License-Identifier: Apache-2.0 */
/* takeover.pml: how one lease passes between two clients, in every order of events: lost replies,
 * puts that land long after their sender gave up, and holders that are paused at any point.
 * README.md maps each name to the code, and lists what is not modelled.
 *
 *     spin -a takeover.pml && gcc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m1000000
 *
 * Three simplifications keep the model small without losing any behaviour:
 *
 * 1. Time is ages. No client compares the clocks of two machines, so there is no time of day. A
 *    client only counts ticks of its own clock since an instant. An age stops counting beyond the
 *    last value that matters, so a run may be as long as it likes.
 * 2. ETags and nonces are new for each write and never recur. The only property of a remembered
 *    ETag is whether it is still the document's. The only properties of a nonce are whether it
 *    belongs to an operation under way, and how old the t0 is that its client finds by it.
 * 3. If a client has given up on two puts that are based on the same ETag, at most one can land.
 *    Which one is decided when the second is given up, so one place is enough. */

#define CLIENTS 2
#define NOBODY  CLIENTS
#ifndef GRANTS
#define GRANTS 3 /* then the clients stop: tokens are the only value that grows without end */
#endif
#if GRANTS > 6
#error tokens have three bits
#endif
#define TTL   3
#define SLACK 1 /* drift and margin: the holder subtracts it, the contender adds it */

/* ---- Wrong rules ----------------------------------------------------------------------------
 * With each of these, given as -D to spin, the search must find a violation. */

#ifdef TAKEOVER_EARLY
#define WATCH (TTL + SLACK - 1)
#else
#define WATCH (TTL + SLACK)
#endif

#ifdef HOLDER_WITHOUT_MARGIN
#define VALID TTL
#else
#define VALID (TTL - SLACK)
#endif

#ifdef VALIDITY_FROM_REPLY
#define counts_from(age) 0
#else
#define counts_from(age) age
#endif

#ifdef NO_NONCE_RECOGNITION
#define found(t0) 0 /* as if the last attempt, which found the lease, had made it */
#else
#define found(t0) t0
#endif

#ifdef CANCEL_WITHOUT_WRITE
#define SETTLE 0
#else
#define SETTLE 1
#endif

#ifdef RELEASE_WITHOUT_TOKEN
#define is_own(c) (table.owner != NOBODY)
#else
#define is_own(c) (table.owner == c && table.token == client[c].token)
#endif

#ifdef WATCH_IGNORES_NONCE
#define is_news(p) (p.owner != table.owner || p.token != table.token)
#else
#define is_news(p) (p.changed)
#endif

#ifdef PUT_WITHOUT_CONDITION
#define CONDITIONAL 0
#else
#define CONDITIONAL 1
#endif

#ifdef FENCE_WITHOUT_CONDITION
#define FENCE_CONDITIONAL 0
#else
#define FENCE_CONDITIONAL 1
#endif

#ifdef WATCH_STARTS_ANEW
#define keeps_watching(c) 0
#else
#define keeps_watching(c) (client[c].seen)
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

/* ---- The world ------------------------------------------------------------------------------ */

mtype:operation = { ACQUIRE, CANCEL, RENEW, RELEASE };
mtype:result = { WRITING, OK, HELD, LOST, UNSURE, ABANDONED, USED_UP };
mtype:journey = { NONE, FLYING, LANDED, REFUSED };

/* The document: a lease, if it has an owner, and the next token. `nonce`: the attempt that last
 * granted or renewed the lease belongs to an operation that its owner has under way; `t0` is
 * then its age. */
typedef document {
    unsigned owner : 2 = NOBODY;
    unsigned token : 3;
    bit nonce;
    unsigned t0 : 2;
    unsigned next_token : 3 = 1;
};
document table;

/* A write under way. A flying write is based on the current ETag: see land(). */
typedef put {
    mtype:journey flight = NONE;
    bit changed; /* otherwise it rewrites the same lease, to make other writes fail */
    unsigned owner : 2 = NOBODY;
    unsigned token : 3;
    bit nonce;
    unsigned t0 : 2;
    unsigned next_token : 3;
    bit over; /* its sender was told that it can no longer land */
};
put awaited[CLIENTS]; /* its sender waits for the reply */
put late[CLIENTS];    /* its sender no longer waits */

/* A fenced object, and the writes under way to it: the token, or 0. */
byte fence;
byte fenced_put[CLIENTS];

typedef state {
    /* The lock handle. */
    bit held;
    unsigned token : 3;
    unsigned age : 2; /* since the t0 from which its validity counts */
    /* The sighting. */
    bit seen; /* the lease in the document was first seen this long ago: */
    unsigned watched : 3;
};
state client[CLIENTS];

/* Known only to the judge. */
byte highest; /* the highest token ever granted */

/* The order of ticks: each clock ticks once per round, in any order. Over any period two clocks
 * therefore differ by at most two ticks, which the SLACK of both sides allows for. */
bit ticked[CLIENTS];

/* In the fault-free phase at the end (`calm`), no reply is lost, no client dies, and a holder
 * finishes its work. The phase matters only for properties that must hold in the end. */
#ifdef CALM
bool calm;

active proctype weather()
{
    calm = true
}

/* Whatever happened, and even if one client is dead, every token finds a holder. */
ltl served { <> (table.next_token > GRANTS) }
#else
#define calm false
#endif

hidden byte i;
hidden put body; /* the write that is being built, within a step */

/* ---- Time ----------------------------------------------------------------------------------- */

inline grow(number, most)
{
    if
    :: number < most -> number++
    :: else
    fi
}

inline tick(c)
{
    if
    :: client[c].held -> grow(client[c].age, VALID)
    :: else
    fi;
    if
    :: awaited[c].nonce -> grow(awaited[c].t0, VALID)
    :: else
    fi;
    if
    :: late[c].nonce -> grow(late[c].t0, VALID)
    :: else
    fi;
    if
    :: table.owner == c && table.nonce -> grow(table.t0, VALID)
    :: else
    fi;
    if
    :: client[c].seen -> grow(client[c].watched, WATCH)
    :: else
    fi;
    ticked[c] = 1;
    if
    :: ticked[0] && ticked[1] -> ticked[0] = 0; ticked[1] = 0
    :: else
    fi
}

active proctype clocks()
{
end:
    do
    :: d_step { !ticked[0] -> tick(0) }
    :: d_step { !ticked[1] -> tick(1) }
    od
}

/* ---- What a holder believes ----------------------------------------------------------------- */

#define hf_lock_check(c) (client[c].held && client[c].age < VALID)

/* While no property is violated, only the guard is executed, so judging adds no states. */
active proctype judge()
{
end:
    atomic {
        hf_lock_check(0) && hf_lock_check(1) -> assert(false) /* two believe that they hold it */
    }
}

/* ---- The store ------------------------------------------------------------------------------ */

inline clear(p)
{
    p.flight = NONE;
    p.changed = 0;
    p.owner = NOBODY;
    p.token = 0;
    p.nonce = 0;
    p.t0 = 0;
    p.next_token = 0;
    p.over = 0
}

/* Every write has its own ETag. A write that is based on the previous one is refused whenever
 * it arrives. If its sender no longer waits, it is as if the write had never existed. */
inline shut_out_others()
{
    for (i : 0 .. CLIENTS - 1) {
        if
        :: CONDITIONAL && awaited[i].flight == FLYING ->
            clear(awaited[i]);
            awaited[i].flight = REFUSED
        :: else
        fi;
        if
        :: CONDITIONAL && late[i].flight == FLYING ->
            story("a late put is shut out");
            clear(late[i])
        :: else
        fi
    }
}

inline judge_write(p)
{
    assert(!p.over);
    if
    :: p.owner == table.owner && p.token == table.token ->
        if
        :: client[1 - p.owner].seen -> story("a lease is renewed while another watches it")
        :: else
        fi
    :: else ->
        /* No lease ends while its holder believes in it. */
        assert(table.owner == NOBODY || !hf_lock_check(table.owner));
        if
        :: p.owner != NOBODY ->
            assert(p.token > highest);
            highest = p.token;
            if
            :: table.owner != NOBODY -> story("a lease is taken over")
            :: !p.nonce -> story("a put grants what its client no longer asks for")
            :: else
            fi
        :: else
        fi
    fi
}

/* The compare-and-swap: a flying write is based on the current ETag. */
inline land(p, answer)
{
    d_step {
        p.flight == FLYING ->
        if
        :: p.changed ->
            judge_write(p);
            if
            :: is_news(p) ->
                for (i : 0 .. CLIENTS - 1) {
                    client[i].seen = 0;
                    client[i].watched = 0
                }
            :: else
            fi;
            table.owner = p.owner;
            table.token = p.token;
            table.nonce = p.nonce;
            table.t0 = p.t0;
            table.next_token = p.next_token
        :: else
        fi;
        p.flight = answer;
        if
        :: answer == NONE -> clear(p)
        :: else -> p.changed = 0; p.next_token = 0
        fi;
        shut_out_others();
        i = 0
    }
}

inline land_fenced(c)
{
    d_step {
        fenced_put[c] != 0 ->
        assert(fenced_put[c] >= fence); /* the fence never goes back */
        fence = fenced_put[c];
        fenced_put[c] = 0;
        if
        :: FENCE_CONDITIONAL && fenced_put[1 - c] != 0 ->
            story("a fenced write is shut out");
            fenced_put[1 - c] = 0
        :: else
        fi
    }
}

active proctype store()
{
end:
    do
    :: land(awaited[0], LANDED)
    :: land(awaited[1], LANDED)
    :: land(late[0], NONE)
    :: land(late[1], NONE)
    :: land_fenced(0)
    :: land_fenced(1)
    od
}

/* ---- Pure: the moves of a lease table ------------------------------------------------------- */

/* Sightings: an unchanged lease counts as seen since the first reply that showed it. */
inline load(c)
{
    if
    :: table.owner == NOBODY || keeps_watching(c)
    :: else -> client[c].seen = 1; client[c].watched = 0
    fi
}

#define lease_judge(c) (client[c].seen && client[c].watched >= WATCH)

/* An operation recognises its own effect: acquire and cancel by their id, renew by the nonce. */
#define by_own_attempt(c, x) (x.owner == c && x.nonce)

inline apply_acquire(c)
{
    if
    :: by_own_attempt(c, table) ->
        story("a client finds its grant, whose reply was lost");
        status = OK;
        granted = table.token;
        t0 = found(table.t0)
    :: else ->
        if
        :: table.owner != NOBODY && !lease_judge(c) -> status = HELD
        :: else ->
            if
            :: table.next_token > GRANTS -> status = USED_UP
            :: else ->
                status = OK;
                body.changed = 1;
                body.owner = c;
                body.token = table.next_token;
                granted = body.token;
                body.nonce = 1;
                body.next_token = table.next_token + 1
            fi
        fi
    fi
}

inline apply_renew(c)
{
    if
    :: table.owner != c || table.token != client[c].token -> status = LOST
    :: else ->
        status = OK;
        if
        :: by_own_attempt(c, table) ->
            story("a client finds its renewal, whose reply was lost");
            t0 = found(table.t0)
        :: else ->
            body.changed = 1;
            body.owner = c;
            body.token = table.token;
            body.nonce = 1;
            body.next_token = table.next_token
        fi
    fi
}

/* Also for cancel, which names the id of a request instead of a token. If there is no such
 * lease, it is already done. */
inline apply_release(c, is_there)
{
    status = OK;
    if
    :: is_there -> body.changed = 1; body.next_token = table.next_token
    :: else
    fi
}

inline table_apply(c)
{
    if
    :: kind == ACQUIRE -> apply_acquire(c)
    :: kind == RENEW -> apply_renew(c)
    :: kind == RELEASE -> apply_release(c, is_own(c))
    :: kind == CANCEL -> apply_release(c, by_own_attempt(c, table))
    fi
}

/* ---- One document, changed by compare-and-swap ---------------------------------------------- */

inline send(p, q)
{
    p.flight = FLYING;
    p.changed = q.changed;
    p.owner = q.owner;
    p.token = q.token;
    p.nonce = q.nonce;
    p.t0 = q.t0;
    p.next_token = q.next_token
}

/* An operation that was reported as not done, or a lease reported as over, must not take effect
 * any more. */
inline tell_over(c)
{
    if
    :: late[c].flight == FLYING && late[c].owner == c &&
       (late[c].nonce || late[c].token == client[c].token) ->
        late[c].over = 1
    :: else
    fi
}

/* The operation has ended: its remaining writes belong to no operation under way. */
inline forget_op(c)
{
    if
    :: table.owner == c -> table.nonce = 0; table.t0 = 0
    :: else
    fi;
    late[c].nonce = 0;
    late[c].t0 = 0
}

/* Loads, applies and sends the put, at one instant t0. (If the document changed in between, the
 * put would be refused.) WRITING: a reply is awaited; `told` is its meaning if it is OK. */
inline make_attempt(c)
{
    d_step {
        clear(body);
        load(c);
        table_apply(c);
        if
        :: body.changed || settle || may_still_land ->
            send(awaited[c], body);
            told = status;
            status = WRITING;
            granted = 0;
            t0 = 0
        :: else
        fi;
        may_still_land = 0
    }
}

inline hear(c)
{
    d_step {
        granted = awaited[c].token;
        t0 = awaited[c].t0;
        status = told;
        clear(awaited[c])
    }
}

/* A put without a reply may still be in flight, may never arrive, or may have taken effect. A
 * conflict may be with our own put, if a proxy sent it twice. A late put that changes nothing is
 * not followed: it could only make other clients' writes fail, and they would retry. */
inline after_failed_write(c)
{
    may_still_land = (awaited[c].flight == FLYING);
    if
    :: d_step {
           awaited[c].flight == FLYING && awaited[c].changed ->
           clear(late[c]);
           send(late[c], awaited[c]);
           clear(awaited[c])
       }
    :: d_step { clear(awaited[c]) } /* it never arrives, or has arrived */
    fi
}

/* ---- Locks ---------------------------------------------------------------------------------- */

/* Validity is counted from the t0 of the attempt whose nonce is in the lease. */
inline lease_valid_until(c)
{
    client[c].age = counts_from(t0)
}

inline become_held(c)
{
    client[c].held = 1;
    client[c].token = granted;
    lease_valid_until(c)
}

inline become_idle(c)
{
    client[c].held = 0;
    client[c].age = 0
}

/* The fence was just read, and the put is based on that version. */
inline lock_fence(c)
{
    if
    :: fence < client[c].token -> fenced_put[c] = client[c].token
    :: else /* FENCED, or the token is already there, and writing again would change nothing */
    fi
}

/* The contents of the table are unknown: a write of our own decides them. */
inline tie_up(c, what)
{
    settle = SETTLE;
    kind = what
}

inline take_answer(c)
{
    if
    :: status == OK ->
        become_held(c);
        if
        :: hf_lock_check(c) -> forget_op(c); kind = RENEW
        :: else ->
            story("a grant that was heard of too late is given back");
            become_idle(c);
            client[c].token = 0;
            tie_up(c, CANCEL)
        fi
    :: status == UNSURE -> tie_up(c, CANCEL)
    :: else -> tell_over(c); forget_op(c)
    fi
}

inline note_renewal(c)
{
    if
    :: status == OK -> lease_valid_until(c)
    :: status == LOST ->
        story("a holder learns that its lease is lost");
        client[c].age = VALID;
        tell_over(c)
    :: else
    fi;
    forget_op(c)
}

inline note_end(c)
{
    if
    :: status == UNSURE -> tie_up(c, kind)
    :: else ->
        if
        :: status == OK -> tell_over(c)
        :: else /* it expires by itself */
        fi;
        forget_op(c);
        client[c].token = 0;
        settle = 0;
        kind = ACQUIRE
    fi
}

/* Before the fault-free phase, any operation that got no reply may reach its deadline. */
#define time_is_up (told != WRITING && !calm)

/* Until the fault-free phase, a dead client is the same as a paused one. One dead client is enough:
 * the other client must make progress without it. */
#ifdef CALM
#define may_die(c) (c == 0 && !calm)
#else
#define may_die(c) false
#endif

#ifdef WITHOUT_FENCE
#define may_write_fenced(c) false
#else
#define may_write_fenced(c) (!calm && hf_lock_check(c) && fenced_put[c] == 0)
#endif

/* The points at which a client may be paused: while it waits for a reply, while it holds, and
 * between two reads of the lease of another. Everything else happens within a step. */
proctype hf_lock(byte me)
{
    mtype:operation kind = ACQUIRE;
    mtype:result status = WRITING, told = WRITING;
    unsigned granted : 3;
    unsigned t0 : 2;
    bit settle, may_still_land;

idle:
    atomic {
        true -> goto attempt
    };

wait:
    atomic {
        if
        :: awaited[me].flight == LANDED -> hear(me); goto answered
        :: awaited[me].flight == REFUSED || !calm -> after_failed_write(me)
        :: may_die(me) -> goto end
        fi;
attempt:
        if
        :: true -> make_attempt(me)
        :: time_is_up -> status = UNSURE
        :: time_is_up && settle -> status = ABANDONED
        fi;
        if
        :: status == WRITING -> goto wait
        :: else
        fi;
answered:
        told = WRITING;
        d_step {
            may_still_land = 0;
            if
            :: kind == ACQUIRE -> take_answer(me)
            :: kind == RENEW -> note_renewal(me)
            :: else -> note_end(me)
            fi;
            granted = 0;
            t0 = 0
        };
        if
        :: status == USED_UP -> goto end
        :: else -> status = WRITING
        fi;
        if
        :: kind == ACQUIRE -> goto idle
        :: kind == RENEW -> goto held
        :: else -> goto attempt
        fi
    };

held:
    atomic {
        if
        :: !calm -> goto attempt /* even if the lease has ended: it was valid before a pause */
        :: may_write_fenced(me) -> lock_fence(me); goto held
        :: may_die(me) -> goto end
        :: true -> become_idle(me); kind = RELEASE; goto attempt /* stops renewing first */
        fi
    };

end:
    skip
}

init
{
    atomic {
        run hf_lock(0);
        run hf_lock(1)
    }
}
