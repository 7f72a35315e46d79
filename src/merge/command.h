/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: runs a command as a merger: its words, its limits, and how it ended. */
#ifndef MERGE_COMMAND_H
#define MERGE_COMMAND_H

#include "base/arena.h"
#include "base/error.h"
#include "merge/merge.h"

/* The words of a command, with {inputs} and {output} replaced; ended by NULL and stored in the
 * arena. INVALID: an unclosed quote, a command without words, one that does not name {output}, or
 * {inputs} within a word. */
enum hf_status command_words(struct view line, const struct merge_paths *paths,
                             struct arena *arena, char ***ret_words, struct hf_error *error);

/* Runs it until it ends, runs too long, or progress stops it; afterwards no process of its group is
 * left. OK only after exit status 0. Its stdin is empty and its stdout is discarded; the end of its
 * stderr becomes part of the reason. *ret_ended: the command ran and ended, by itself or because of
 * its time limit. Otherwise the failure has nothing to do with its input. */
enum hf_status command_run(struct env *env, char **words, const struct merge_command *command,
                           const struct merge_progress *progress, bool *ret_ended,
                           struct hf_error *error);

#endif
