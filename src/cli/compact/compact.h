/* SPDX-License-Identifier: Apache-2.0 */
/* compact.h: declarations that the `compact` commands share. partition.c opens a partition, and
 * implements create, set and the manual operations; show.c implements plan, ls and status,
 * and picture.c status --svg. The other files are named after their commands. */
#ifndef CLI_COMPACT_COMPACT_H
#define CLI_COMPACT_COMPACT_H

#include "cli/lock/lock.h"
#include "cli/output/progress.h"

/* Returns `status`, the result of work on the partition. If cli->error is an error that was already
 * printed for a part of the partition, main does not print it again. */
enum hf_status partition_end(struct cli *cli, enum hf_status status);

/* Opens this partition (NULL: the default one), instead of the one given by --partition. */
enum hf_status cli_open_named(struct cli *cli, const char *partition,
                              struct hf_compact_options *options);

/* The name given by --partition (default: "default"). */
struct view partition_option(struct cli *cli);

/* The folder given by --scratch (default: $TMPDIR, or /tmp). */
const char *scratch_folder(struct cli *cli);

/* Reads from --allow-exec and $HOLDFAST_ALLOW_EXEC the programs that merge commands stored in the
 * bucket may run on this machine. The limits on those programs are left unset. The list is valid as
 * long as the cli. */
enum hf_status take_allow_exec(struct cli *cli, struct hf_compact_options *options);

/* Writes the levels of the partition as a picture: `compact status --svg`. */
enum hf_status picture_levels(struct cli *cli, struct view partition);

extern const struct field settings_record[]; /* struct hf_compact_settings */
extern const struct field chunk_record[];    /* struct hf_chunk_info */
extern const struct field group_record[];    /* struct hf_compact_group */

#endif
