/* SPDX-License-Identifier: Apache-2.0 */
/* config.h: the configuration file: named stores, defaults for options, and profiles.
 *
 *     # ~/.config/holdfast/holdfast.conf
 *     [store prod]
 *     url = s3://bucket/locks?region=eu-west-1
 *
 *     [defaults]
 *     store = prod
 *
 *     [profile ci]
 *     wait = 10m
 *
 * An option on the command line comes before the environment, the environment before the file.
 * Within the file, the profile comes before the defaults. The user's file comes before that of the
 * machine. A file with a mistake is refused as a whole, with the line of the mistake, because the
 * line may have named the store. */
#ifndef CLI_CONFIG_CONFIG_H
#define CLI_CONFIG_CONFIG_H

#include "cli/cli.h"

#define CONFIG_FILE_BYTES_MAX (64 * KIB)
#define CONFIG_SETTINGS_MAX   256 /* in a file */
#define CONFIG_FILES_MAX      2

enum config_section { CONFIG_NO_SECTION, CONFIG_STORE, CONFIG_DEFAULTS, CONFIG_PROFILE };

/* One line "name = value". All texts are NUL-terminated, and live as long as the command. */
struct config_setting {
    enum config_section section;
    struct view subject; /* the name of the store or profile; empty for defaults */
    struct view name;
    struct view value;
    const char *file;
    unsigned line;
};

struct config_file {
    const char *path;
    bool exists;
    size_t stores, profiles, settings;
};

struct config {
    struct config_file files[CONFIG_FILES_MAX];
    size_t file_count;
    size_t count;
    struct config_setting
        settings[CONFIG_FILES_MAX * CONFIG_SETTINGS_MAX]; /* the user's first */
};

/* Called for each mistake, and for a file that is refused as a whole. False ends the reading of the
 * file. */
typedef bool config_mistake_fn(void *argument, const struct hf_error *error);

/* Reads the files, and checks every line. Files that do not exist are skipped, except the one that
 * $HOLDFAST_CONFIG names. INVALID after a mistake, which is in cli->error, if `mistake` is NULL. */
enum hf_status config_read(struct cli *cli, config_mistake_fn *mistake, void *argument,
                           struct config **ret_config);

/* The first setting of this name, or NULL. */
const struct config_setting *config_find(const struct config *config,
                                         enum config_section section, struct view subject,
                                         struct view name);

/* Whether a file has [store NAME]. False before the files are read. */
bool config_has_store(const struct cli *cli, struct view name);

/* The setting that counts for this option: that of the profile, else that of the defaults; or
 * NULL. */
const struct config_setting *config_default(struct cli *cli, const char *option);

/* The name of the profile: --profile, $HOLDFAST_PROFILE, or NULL. */
const char *config_profile(struct cli *cli);

/* The options that a file may set. */
struct config_option {
    const char *name;         /* NULL ends the list */
    const char *commands[10]; /* the commands or groups that it applies to; none: all */
};
extern const struct config_option config_options[];

#endif
