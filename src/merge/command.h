/* command.h: a command line of one's own as a merger: its words, its limits, its end. */
#ifndef MERGE_COMMAND_H
#define MERGE_COMMAND_H

#include "base/arena.h"
#include "base/error.h"
#include "merge/merge.h"

/* The words of a command, with {inputs} and {output} put in; NULL ends them. They live in the
 * arena. INVALID for quotes that never end, a command without words, one that does not name
 * {output}, {inputs} within a word. */
enum hf_status command_words(struct view line, const char *const *inputs, size_t input_count,
                             const char *output, struct arena *arena, char ***ret_words,
                             struct hf_error *error);

/* Runs it until it ends, runs too long, or progress says stop; then nothing of its process group
 * is left. OK only after exit status 0. Its stdin is empty, its stdout goes nowhere, and of what
 * it writes to stderr the last words become part of the reason. */
enum hf_status command_run(struct env *env, char **words, const struct merge_command *command,
                           const struct merge_progress *progress, struct hf_error *error);

/* The same; *ret_ended says whether the command was there and came to an end, its own or that of
 * its time: what failed otherwise had nothing to do with what it read. */
enum hf_status command_try(struct env *env, char **words, const struct merge_command *command,
                           const struct merge_progress *progress, bool *ret_ended,
                           struct hf_error *error);

#endif
