/* draft.h: an object that is being written: bytes appended once, in order, and then put: in memory
 * while they are few, in a file without a name else. */
#ifndef INDEX_DRAFT_H
#define INDEX_DRAFT_H

#include "store/store.h"

/* Above this they go to a file in $TMPDIR or /tmp. */
#define DRAFT_MEMORY (4 * MIB)

struct draft {
    struct buffer memory;  /* what is not in the file yet */
    int fd;                /* -1: none yet */
    uint64_t size;         /* of all, in memory and in the file */
    struct hf_error error; /* of the first write that failed */
};

void draft_init(struct draft *draft);
void draft_release(struct draft *draft);

/* Fails once for all: the reason stays in draft->error. */
bool draft_append(struct draft *draft, struct view bytes);

/* Puts `head` and then all bytes as one object, by call->key and call->condition; the call's body
 * is not used. The draft can be put again. */
enum hf_status draft_put(struct draft *draft, struct store *store, struct view head,
                         struct put_call *call);

#endif
