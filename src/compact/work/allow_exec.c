/* SPDX-License-Identifier: Apache-2.0 */
/* allow_exec.c: checks the first word of a command against the programs that this machine allows.
 * The command comes from the bucket, so $PATH and relative paths must not determine which program
 * is run. */
#include "compact/work/allow_exec.h"

#include "base/arena.h"
#include "merge/command.h"

#include <string.h>

/* A name without a slash is not looked up in $PATH; it selects the allowed program with that file
 * name. */
static const char *find_allowed(const struct allow_exec *allowed, const char *word)
{
    bool is_path = strchr(word, '/') != NULL;
    for (size_t i = 0; i < allowed->count; i++) {
        const char *program = allowed->programs[i], *slash = strrchr(program, '/');
        const char *name = is_path || !slash ? program : slash + 1;
        if (strcmp(word, name) == 0)
            return program;
    }
    return NULL;
}

enum hf_status allow_exec_find(const struct allow_exec *allowed, struct view command,
                               const char **ret_program, struct hf_error *error)
{
    static const char *const no_inputs[] = { "inputs" };
    struct arena arena = ARENA_INIT;
    char **words;
    enum hf_status status =
        command_words(command, &(struct merge_paths){ no_inputs, 1, "output" }, &arena, &words,
                      error);
    const char *program = status == HF_OK ? find_allowed(allowed, words[0]) : NULL;
    if (program)
        *ret_program = program;
    else if (status == HF_OK)
        status = error_set(error, HF_DENIED,
                           "needs allow_exec: the bucket's command runs '%.100s', which is "
                           "not allowed here",
                           words[0]);
    arena_release(&arena);
    return status;
}
