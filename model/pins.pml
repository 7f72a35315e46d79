/* SPDX-License-Identifier: Apache-2.0 */
/* pins.pml: readers that take snapshots of a partition, against workers that retire, split and
 * delete, in every order of events (docs/design.md, "Snapshots"). README.md maps each name to the
 * code, and lists what is not modelled.
 *
 *     spin -a pins.pml && gcc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m1000000
 *
 * The partition is one catalog (ROOT), which a split may replace by another one (CHILD). Each read
 * or write of a document is one step, and anything may happen between two steps. A chunk moves to
 * deleting once, so generations are bounded; everything else may happen any number of times. */

#ifndef READERS
#define READERS 2
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#define ROOT  0
#define CHILD 1

/* ---- Wrong rules ----------------------------------------------------------------------------
 * With each of these, given as -D to spin, the search must find a violation. */

#ifdef SNAPSHOTS_OVERLOOKED
#define holds(pinned, removed_at) false
#elif defined(COMPARED_THE_WRONG_WAY)
#define holds(pinned, removed_at) (removed_at != UNKNOWN && pinned >= removed_at)
#elif defined(UNKNOWN_COUNTS_AS_ZERO)
#define holds(pinned, removed_at) (pinned < removed_at)
#elif defined(EVERY_PIN_HOLDS)
#define holds(pinned, removed_at) true
#else
#define holds(pinned, removed_at) (removed_at == UNKNOWN || pinned < removed_at)
#endif

#ifdef MOVE_AT_THE_SAME_GENERATION
#define MOVE_RAISES 0
#else
#define MOVE_RAISES 1
#endif

#ifdef SPLIT_AT_THE_SAME_GENERATION
#define SPLIT_RAISES 0
#else
#define SPLIT_RAISES 1
#endif

#ifdef PINS_ABOVE_OVERLOOKED
#define reads_above(k) false
#else
#define reads_above(k) (k == CHILD)
#endif

#ifdef CHILD_NOT_PINNED
#define pins_child false
#else
#define pins_child saw_split
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

mtype:chunk = { LIVE, TOMBSTONE, DELETING, DELETED };

#define UNKNOWN 0 /* the generation of what a version without generations did */
#define NO_PIN  7

unsigned generation_root : 3;
unsigned generation_child : 3;
bit split;
unsigned split_generation : 3;

typedef entry {
    mtype:chunk state = LIVE;
    bit catalog;
    unsigned removed : 3 /* the generation of its removal */
}
entry chunk[CHUNKS];

typedef pins {
    unsigned root : 3 = NO_PIN;
    unsigned child : 3 = NO_PIN
}
pins pin[READERS];

#define pin_of(r, k)  ((k) == ROOT -> pin[r].root : pin[r].child)
#define generation(k) ((k) == ROOT -> generation_root : generation_child)

inline raise(k)
{
    if
    :: k == ROOT -> generation_root++
    :: else -> generation_child++
    fi
}

/* ---- Readers -------------------------------------------------------------------------------- */

/* The chunks that a reader's snapshot contains; empty unless it is reading. */
typedef snapshot {
    bit has[CHUNKS]
}
snapshot reader[READERS];

inline copy_live(r, k)
{
    for (i : 0 .. CHUNKS - 1) {
        reader[r].has[i] = (chunk[i].state == LIVE && chunk[i].catalog == k)
    };
    i = 0
}

inline forget(r)
{
    for (i : 0 .. CHUNKS - 1) {
        reader[r].has[i] = 0
    };
    i = 0
}

proctype take_snapshot(byte r)
{
    unsigned at : 3;
    bit saw_split;
    byte i;

start:
    atomic { /* reads the root, for its generation */
        at = generation_root;
        saw_split = split
    };
#ifdef CATALOG_BEFORE_PIN
    if
    :: d_step { !saw_split -> copy_live(r, ROOT) }
    :: d_step { saw_split -> copy_live(r, CHILD) }
    fi;
#endif
    pin[r].root = at;
    if
    :: pins_child ->
        at = generation_child;
        pin[r].child = at
    :: else
    fi;
#ifdef CATALOG_BEFORE_PIN
    goto reading;
#endif
    /* Reads all catalogs again, now that the pins stand. A child that appeared meanwhile has no pin
     * of its own: the pin of the root, from before the split, holds what it contains. */
    atomic {
        if
        :: d_step { !split -> copy_live(r, ROOT); at = 0; saw_split = 0 }; goto reading
        :: split && !saw_split -> story("a split happens while the catalogs are pinned")
        :: else
        fi
    };
    d_step { copy_live(r, CHILD); at = 0; saw_split = 0 };

reading: /* for as long as it likes: a chunk must not be deleted meanwhile (see delete) */
    atomic { forget(r); at = 0; saw_split = 0 };
    pin[r].root = NO_PIN;
    pin[r].child = NO_PIN;
    goto start
}

/* ---- Workers -------------------------------------------------------------------------------- */

/* Moves a name to deleting. A version without generations raises none. */
inline move(x)
{
    chunk[x].state = DELETING;
    if
    :: if
       :: MOVE_RAISES -> raise(chunk[x].catalog)
       :: else
       fi;
       chunk[x].removed = generation(chunk[x].catalog)
#ifndef CALM
    :: chunk[x].removed = UNKNOWN
#endif
    fi
}

/* Changes of the catalogs, each by one swap. */
proctype maintain()
{
    byte x;
end:
    do
    :: atomic {
           select(x : 0 .. CHUNKS - 1);
           if
           :: chunk[x].state == LIVE -> chunk[x].state = TOMBSTONE
#ifndef CALM
           :: chunk[x].state == TOMBSTONE && !(split && chunk[x].catalog == ROOT) ->
               chunk[x].state = LIVE /* undelete */
#endif
           :: chunk[x].state == TOMBSTONE -> move(x)
           :: chunk[x].state == DELETING && chunk[x].removed == UNKNOWN ->
               raise(chunk[x].catalog); /* the next maintenance by a version with generations */
               chunk[x].removed = generation(chunk[x].catalog)
           :: else
           fi;
           x = 0
       }
    :: atomic {
           !split ->
           split = 1;
           if
           :: generation_root = generation_root + SPLIT_RAISES;
              split_generation = generation_root
#ifndef CALM
           :: split_generation = UNKNOWN
#endif
           fi;
           for (x : 0 .. CHUNKS - 1) {
               if
               :: chunk[x].state == LIVE -> chunk[x].catalog = CHILD
               :: else
               fi
           };
           x = 0
       }
    :: atomic {
           split && split_generation == UNKNOWN ->
           raise(ROOT);
           split_generation = generation_root
       }
    od
}

/* Whether a pin in the table of catalog k holds what was removed at this generation. */
inline read_pins(k, removed_at)
{
    d_step {
        for (i : 0 .. READERS - 1) {
            if
            :: pin_of(i, k) != NO_PIN && holds(pin_of(i, k), removed_at) ->
                held = 1;
                if
                :: removed_at == UNKNOWN -> story("a removal of an old version is held")
                :: k == ROOT && at == CHILD -> story("a pin from before the split holds")
                :: else -> story("a pin holds a later removal")
                fi
            :: pin_of(i, k) != NO_PIN && !holds(pin_of(i, k), removed_at) ->
                story("a pin does not hold an earlier removal")
            :: else
            fi
        };
        i = 0
    }
}

/* Deletes the object of a chunk whose name has been seen in deleting. Between the last read of the
 * pins and the deletion, any time may pass. */
proctype delete()
{
    byte x, i;
    bit at, held;
    unsigned removed_at : 3;
    unsigned split_at : 3;
end:
    do
    :: atomic {
           if
           :: chunk[0].state == DELETING -> x = 0
#if CHUNKS > 1
           :: chunk[1].state == DELETING -> x = 1
#endif
#ifdef PINS_BEFORE_THE_MOVE
           :: chunk[0].state == TOMBSTONE -> x = 0
#endif
           fi;
           at = chunk[x].catalog;
           removed_at = chunk[x].removed;
           split_at = split_generation;
           held = 0
       };
       read_pins(at, removed_at);
       if
       :: reads_above(at) -> read_pins(ROOT, split_at)
       :: else
       fi;
       atomic {
           if
#ifdef PINS_BEFORE_THE_MOVE
           :: !held && chunk[x].state == TOMBSTONE -> move(x)
#endif
           :: !held && chunk[x].state == DELETING ->
               for (i : 0 .. READERS - 1) {
                   assert(!reader[i].has[x])
               };
               i = 0;
               chunk[x].state = DELETED
           :: else
           fi;
#ifdef PINS_BEFORE_THE_MOVE
           if
           :: !held && chunk[x].state == DELETING ->
               assert(!reader[0].has[x]);
               chunk[x].state = DELETED
           :: else
           fi;
#endif
           x = 0;
           at = 0;
           removed_at = 0;
           split_at = 0;
           held = 0
       }
    od
}

#ifdef CALM
/* Although there is always a reader, everything that was removed is deleted in the end. */
ltl served { [] ((chunk[0].state == DELETING) -> <> (chunk[0].state == DELETED)) }
#endif

init
{
    atomic {
        run take_snapshot(0);
#if READERS > 1
        run take_snapshot(1);
#endif
        run maintain();
        run delete()
    }
}
