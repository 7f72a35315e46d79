/* SPDX-License-Identifier: Apache-2.0 */
/* filter.c: chooses objects by the patterns of --include and --exclude. */
#include "cli/store/store.h"

#include <fnmatch.h>
#include <stdio.h>

/* A pattern is that of a shell, for the whole key; * also matches slashes. */
static bool matches_any(struct cli *cli, const char *option, const char *key)
{
    for (const struct option_value *at = cli_option(cli, option); at; at = at->next)
        if (fnmatch(at->text.data, key, /* flags */ 0) == 0)
            return true;
    return false;
}

bool filters_choose(struct cli *cli, struct view key)
{
    char text[KEY_BYTES_MAX + 1];
    snprintf(text, sizeof text, "%.*s", VIEW_ARGS(view_first(key, KEY_BYTES_MAX)));
    return (!cli_given(cli, "include") || matches_any(cli, "include", text)) &&
           !matches_any(cli, "exclude", text);
}

bool filters_choose_key(void *cli, const char *key, size_t key_size)
{
    return filters_choose(cli, (struct view){ key, key_size });
}

enum hf_status filters_check(struct cli *cli)
{
    bool given = cli_given(cli, "include") || cli_given(cli, "exclude");
    return given && !cli_given(cli, "recursive")
               ? cli_invalid(cli, "--include and --exclude require --recursive")
               : HF_OK;
}
