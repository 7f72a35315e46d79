/* SPDX-License-Identifier: Apache-2.0 */
/* job_note.h: the note that a failed job leaves in its lease, for the client that settles the
 * lease: which chunks are to blame, and why. JSON of at most NOTE_BYTES_MAX bytes. */
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

#endif
