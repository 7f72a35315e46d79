/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.h: adds a checksum to every document of a store that has none, and records in the format
 * document that all of them have one. README.md has the rules. */
#ifndef SCRUB_UPGRADE_H
#define SCRUB_UPGRADE_H

#include "store/store.h"

struct upgrade_options {
    bool dry_run, undo;
    /* Both may be NULL; false ends the upgrade with CANCELLED. */
    bool (*each)(void *argument, struct view key);
    bool (*go_on)(void *argument, const struct hf_store_scrub_report *so_far);
    void *argument;
};

/* The report is set regardless of the status. */
enum hf_status upgrade_run(struct store *store, const struct upgrade_options *options,
                           struct hf_store_upgrade_report *ret_report, struct hf_error *error);

#endif
