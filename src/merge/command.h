/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: runs a command as a merger. */
#ifndef MERGE_COMMAND_H
#define MERGE_COMMAND_H

#include "base/arena.h"
#include "base/error.h"
#include "merge/merge.h"

/* The words of a command, with {inputs} and {output} replaced. They are stored in the arena and
 * ended by NULL. INVALID: an unclosed quote, a command without words or without {output}, or
 * {inputs} within a word. */
enum hf_status command_words(struct view line, const struct merge_paths *paths,
                             struct arena *arena, char ***ret_words, struct hf_error *error);

/* Runs the command until it ends, exceeds its time limit, or is stopped by progress. Afterwards no
 * process of its group is left. OK only if its exit status is 0. Its stdin is empty, and its stdout
 * is discarded. The last bytes of its stderr become part of the error. *ret_ended: the command ran
 * and ended, by itself or because of its time limit. Otherwise its input cannot have caused the
 * failure. */
enum hf_status command_run(struct env *env, char **words, const struct merge_command *command,
                           const struct merge_progress *progress, bool *ret_ended,
                           struct hf_error *error);

#endif
