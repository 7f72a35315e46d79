/* SPDX-License-Identifier: Apache-2.0 */
/* job_note.h: the notes that a job writes into its lease for the client that settles the lease.
 * JSON of at most NOTE_BYTES_MAX bytes.
 *
 * While it holds the lease: whether its merge has begun, and how much of it is done. From the claim
 * on, the lease says that it has not. The first renewal after the begin says that it has; if a
 * source must be merged with care (chunk.mark_begin), that renewal precedes the begin.
 *
 * When it fails: which chunks are to blame, and why. */
#ifndef COMPACT_WORK_JOB_NOTE_H
#define COMPACT_WORK_JOB_NOTE_H

#include "base/arena.h"
#include "compact/catalog/catalog.h"

struct job_note {
    enum hf_compact_blame blame;
    struct view culprit; /* with HF_COMPACT_BLAME_CHUNK */
    struct view why;
    bool unsent; /* the output was never put and never will be: nothing to condemn */
};

/* False if out of memory. A reason that is too long is truncated. If the key of the culprit does
 * not fit, the whole group is blamed. */
bool job_note_encode(const struct job_note *note, struct buffer *text);

/* If the text is not such a note, nobody is blamed. False if out of memory. The strings are stored
 * in `arena`. */
bool job_note_decode(struct view text, struct arena *arena, struct job_note *ret_note);

#define JOB_NOTE_CLAIMED "{\"begun\":false}"
#define JOB_NOTE_BEGUN   "{\"begun\":true}"

/* Whether the note of a lease says that the merge has not begun, as far as its worker has written.
 * A lease of an earlier version says nothing. */
bool job_note_says_claimed(struct view text);

/* The note of a merge that has begun, and of which so much is done, in steps of 5 percent. It is a
 * constant: a renewal may still be sending it when the job has ended. */
struct view job_note_of_progress(uint64_t done, uint64_t total);

/* What such a note says; 0 if it does not say. */
unsigned job_note_percent(struct view text);

#endif
