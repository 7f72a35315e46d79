/* SPDX-License-Identifier: Apache-2.0 */
/* show.c: `config check` and `config show`: what the configuration files contain, and what
 * counts. */
#include "cli/config/config.h"

#include "cli/log.h"
#include "cli/output/record.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- check --------------------------------------------------------------------------- */

const struct field config_file_record[] = CONFIG_FILE_RECORD;

static bool report_mistake(void *argument, const struct hf_error *error)
{
    struct cli *cli = argument;
    cli_report(cli, (struct view){ NULL, 0 }, error);
    cli->reported = true;
    return true;
}

enum hf_status run_config_check(struct cli *cli)
{
    struct config *config = NULL;
    enum hf_status status = config_read(cli, report_mistake, cli, &config);
    for (size_t i = 0; config && status == HF_OK && i < config->file_count; i++)
        record_show(cli, config_file_record, &config->files[i], CONFIG_FILE_TEXT);
    return status;
}

/* ---- show ---------------------------------------------------------------------------- */

/* A setting that counts, and where it comes from. */
struct shown_setting {
    const char *setting, *value, *origin;
};

const struct field shown_setting_record[] = SHOWN_SETTING_RECORD;

static void show_setting(struct cli *cli, const char *name, const char *value,
                         const char *origin, const struct config_setting *from)
{
    char place[HF_WHY_MAX];
    if (from)
        snprintf(place, sizeof place, "%.200s:%u", from->file, from->line);
    record_show(cli, shown_setting_record,
                &(struct shown_setting){ name, from ? from->value.data : value,
                                         from ? place : origin },
                SHOWN_SETTING_TEXT);
}

static void show_store(struct cli *cli)
{
    const char *given = option_text(cli, "store"), *variable = getenv("HOLDFAST_STORE");
    const struct config_setting *from = config_default(cli, "store");
    if (given)
        show_setting(cli, "store", given, "--store", NULL);
    else if (variable)
        show_setting(cli, "store", variable, "HOLDFAST_STORE", NULL);
    else
        show_setting(cli, "store", "sqlite:", "default", from);
}

/* The options that have a variable, too. */
static const struct {
    const char *option, *variable;
} with_variable[] = {
    { "verbose", "HOLDFAST_VERBOSE" },
    { "log", "HOLDFAST_LOG" },
    { "color", "HOLDFAST_COLOR" },
};

static void show_option(struct cli *cli, const char *option)
{
    const struct config_setting *from = config_default(cli, option);
    const char *value = NULL, *origin = NULL;
    for (size_t i = 0; i < sizeof with_variable / sizeof *with_variable; i++)
        if (strcmp(with_variable[i].option, option) == 0)
            value = cli_chosen(cli, option, with_variable[i].variable, &origin);
    if (origin && value)
        show_setting(cli, option, value, origin, NULL);
    else if (from)
        show_setting(cli, option, NULL, NULL, from);
}

enum hf_status run_config_show(struct cli *cli)
{
    char name[128];
    enum hf_status status = cli_apply_config(cli);
    if (status != HF_OK)
        return status;
    show_store(cli);
    for (const struct config_option *at = config_options; at->name; at++) {
        if (strcmp(at->name, "store") != 0)
            show_option(cli, at->name);
    }
    for (size_t i = 0; i < cli->config->count; i++) {
        const struct config_setting *at = &cli->config->settings[i];
        if (at->section != CONFIG_STORE ||
            config_find(cli->config, CONFIG_STORE, at->subject, at->name) != at)
            continue;
        snprintf(name, sizeof name, "store %.*s", VIEW_ARGS(at->subject));
        show_setting(cli, name, NULL, NULL, at);
    }
    return HF_OK;
}
