/* job_note.h: what the lease of a job that failed says of it, for whoever settles the lease:
 * whose fault it was, and why. JSON, and short: a note of a lease has at most NOTE_BYTES_MAX
 * bytes. */
#ifndef COMPACT_JOB_NOTE_H
#define COMPACT_JOB_NOTE_H

#include "base/arena.h"
#include "compact/catalog.h"

struct job_note {
    enum blame blame;
    struct view culprit; /* of BLAME_CHUNK */
    struct view why;
    bool unsent; /* the output was never put, and never will be: there is nothing to condemn */
};

/* False without memory. The reason is cut where it does not fit; a culprit whose key is too
 * long for a note is blamed as part of its group. */
bool job_note_encode(const struct job_note *note, struct buffer *text);

/* Anything else than such a note blames nobody. False without memory. `arena` keeps the
 * texts. */
bool job_note_decode(struct view text, struct arena *arena, struct job_note *ret_note);

#endif
