/* SPDX-License-Identifier: Apache-2.0 */
/* own_words.c: rewords messages from the library for users of the program: the name of a C member
 * or function becomes an option or a command. */
#include "cli/output/output.h"

static const struct {
    const char *library, *program;
} words[] = {
    { "set force to", "use --force to" },
    { "needs allow_exec", "needs --allow-exec" },
    { "a longer ttl_max_ms allows", "--max-ttl SPAN allows" },
    { "hf_namespace_create creates",
      "'holdfast namespace create NAME --placement pages:N' creates" },
    { "hf_txn_give_up replaces", "'holdfast txn rollback --damaged' replaces" },
    { "patterns are not expanded",
      "the shell found no file that matches the pattern, or the pattern is quoted" },
    { "check the path in the URL", "check the path in HOLDFAST_STORE or --store" },
    { "name the file in the URL", "pass --store URL or set HOLDFAST_STORE" },
};

struct view own_words(struct view sentence, struct buffer *space)
{
    if (sentence.size == 0)
        return sentence;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found =
            memmem(sentence.data, sentence.size, words[i].library, strlen(words[i].library));
        if (!found)
            continue;
        size_t before = (size_t)(found - sentence.data);
        buffer_append(space, view_first(sentence, before));
        buffer_append(space, view_of(words[i].program));
        buffer_append(space, view_from(sentence, before + strlen(words[i].library)));
        return space->failed ? sentence : buffer_view(space);
    }
    return sentence;
}
