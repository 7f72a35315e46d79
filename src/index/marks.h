/* marks.h: which shards of an index have something, by one or two listings instead of one a shard.
 * For walk and compile only. */
#ifndef INDEX_MARKS_H
#define INDEX_MARKS_H

#include "index/inbox.h"

#define MARK_WAITING 1 /* it has a folder in the inbox, or an entry that stands in none */
#define MARK_THERE   2 /* there is a shard */
#define MARK_HELD    4 /* somebody else compiles it */

struct marks {
    unsigned char *of; /* by the shard's number */
    size_t count;
};

enum hf_status marks_init(struct marks *marks, const struct index *index,
                          struct hf_error *error);
void marks_release(struct marks *marks);

/* Marks those with a folder in the inbox. There may be nothing but markers in it. */
enum hf_status marks_waiting(struct marks *marks, struct index *index, struct hf_error *error);

/* Marks the shards that are there. To be asked after what they might get from the inbox. */
enum hf_status marks_there(struct marks *marks, struct index *index, struct hf_error *error);

/* Sorts entries by their shards and marks these. */
void marks_flat(struct marks *marks, const struct index *index, struct entry_list *list);

/* Those of one shard in a list that was sorted so. */
struct entry *marks_find_flat(const struct entry_list *list, struct shard_id shard,
                              size_t *ret_count);

#endif
