/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: declarations that the commands on objects share: cp.c copies, mv.c moves, rm.c removes,
 * sync.c makes one place equal to another, and filter.c chooses objects by patterns. */
#ifndef CLI_STORE_STORE_H
#define CLI_STORE_STORE_H

#include "cli/cli.h"

/* Both ends of a copy: --from, --to, and the arguments SOURCE and TARGET. Zero-initialised. */
struct store_ends {
    struct hf_store *from;
    struct hf_store *to; /* may be the same as `from` */
    struct view source;
    struct view target;
};

/* Reads the names, and opens the stores. `deletes`: objects are to be deleted from the first one if
 * they have not changed (cli_open_for_deletes). Whatever it returns, store_ends_close closes
 * them. */
enum hf_status store_ends_open(struct cli *cli, struct store_ends *ends, bool deletes);
void store_ends_close(struct store_ends *ends);

/* --include and --exclude: an object is chosen if its key matches one of the patterns to include,
 * or there is none, and no pattern to exclude. */
bool filters_choose(struct cli *cli, struct view key);
bool filters_choose_key(void *cli, const char *key, size_t key_size); /* a copy's `choose` */

/* INVALID if patterns are given without --recursive. */
enum hf_status filters_check(struct cli *cli);

#endif
