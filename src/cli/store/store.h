/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: declarations that the commands on objects share: cp.c copies, mv.c moves, rm.c removes,
 * sync.c makes one place equal to another, overlap.c finds out whether two places are apart, and
 * filter.c chooses objects by patterns. */
#ifndef CLI_STORE_STORE_H
#define CLI_STORE_STORE_H

#include "cli/cli.h"

/* The objects of a store whose keys start with a prefix. */
struct store_place {
    struct view url; /* of the store, absolute */
    struct view prefix;
};

/* Whether every object of one place is also an object of the other. Both: the same place. */
struct overlap {
    bool to_in_from;
    bool from_in_to;
    struct view from_there; /* if from_in_to: how the keys of its objects start in the other */
};

/* Compares two places by their URLs, without opening them. */
enum hf_status places_overlap(struct cli *cli, const struct store_place *from,
                              const struct store_place *to, struct overlap *ret_overlap);

/* Both ends of a copy: --from, --to, and the arguments SOURCE and TARGET. Zero-initialised. */
struct store_ends {
    struct hf_store *from;
    struct hf_store *to; /* may be the same as `from` */
    struct view source;
    struct view target;
    struct view source_there; /* how the source's keys start in `to`; data NULL: not there */
};

/* Reads the names, refuses ends that are the same, and opens the stores. `deletes`: objects are to
 * be deleted from the first one. Whatever it returns, store_ends_close closes them. */
enum hf_status store_ends_open(struct cli *cli, struct store_ends *ends, bool deletes);
void store_ends_close(struct store_ends *ends);

/* Opens one end. `deletes`: objects are to be deleted from it if they have not changed
 * (cli_open_for_deletes). */
enum hf_status store_end_open(struct cli *cli, struct view url, bool deletes, bool must_exist,
                              struct hf_store **ret_store);

/* --include and --exclude: an object is chosen if its key matches one of the patterns to include,
 * or there is none, and no pattern to exclude. */
bool filters_choose(struct cli *cli, struct view key);
bool filters_choose_key(void *cli, const char *key, size_t key_size); /* a copy's `choose` */

/* INVALID if patterns are given without --recursive. */
enum hf_status filters_check(struct cli *cli);

#endif
