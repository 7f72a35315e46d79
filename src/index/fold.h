/* fold.h: records into one shard: read it, merge, swap it. */
#ifndef INDEX_FOLD_H
#define INDEX_FOLD_H

#include "index/cursor.h"

struct fold_report {
    uint64_t records_in;    /* given */
    uint64_t records_new;   /* keys that the shard had not */
    uint64_t records_later; /* that took the place of an older one */
    uint64_t
        superseded;   /* that were not later than what was there, or than another one given */
    uint64_t records; /* of the shard now */
    uint64_t bytes;   /* of the shard now */
    uint64_t token, writes; /* and which version of it that is: later ones have greater ones */
    uint64_t
        fence; /* when it was FENCED, and only then: the token that has written the shard */
};

/* Puts these records, in any order, keys more than once or not, into the shard; the array is sorted
 * on the way. Always writes, even when nothing is new: what is told as done is known to be durable.
 *   OK        the shard has them all, or later ones
 *   CONFLICT  somebody else wrote the shard meanwhile: nothing was changed
 *   FENCED    a later token has written the shard: nothing was changed
 *   UNSURE    nobody knows; nothing may be cleared
 *   CORRUPT   the shard is damaged
 *   others    as the store's; nothing was changed
 * A put without an answer is settled by looking whether the shard carries our nonce, and tried
 * again a few times, always if-match of the same version. */
enum hf_status index_fold(struct index *index, struct shard_id shard, uint64_t token,
                          struct record *records, size_t count, struct fold_report *ret_report,
                          struct hf_error *error);

#endif
