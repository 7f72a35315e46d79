/* SPDX-License-Identifier: Apache-2.0 */
/* config.c: reads configuration files, and applies them to a command: named stores, and values for
 * options that the command line does not give. */
#include "cli/config/config.h"

#include "cli/log.h"
#include "file/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_NAME_MAX 64

/* A value applies only where it means the same for every command: `compact set --ttl`, for example,
 * changes a partition. */
const struct config_option config_options[] = {
    { "store", { NULL } },
    { "ns", { "run", "acquire", "hold", "locks", "top", "write", "read", "key", "elect" } },
    { "holder", { "run", "acquire", "hold", "key acquire", "elect run", "txn begin" } },
    { "ttl", { "run", "acquire", "hold", "key acquire", "elect run" } },
    { "max-ttl", { "run", "acquire", "hold", "key acquire", "elect run" } },
    { "wait", { "run", "acquire", "hold", "key acquire" } },
    { "conflict-exit-code", { "run", "acquire", "hold", "key acquire" } },
    { "partition", { "compact" } },
    { "scratch", { "compact", "merge" } },
    { "verbose", { NULL } }, /* these three are read by log.c */
    { "log", { NULL } },
    { "color", { NULL } },
    { NULL, { NULL } },
};

static const struct config_option *find_config_option(struct view name)
{
    for (const struct config_option *at = config_options; at->name; at++)
        if (view_equal(view_of(at->name), name))
            return at;
    return NULL;
}

/* Any option of this name; all of them have the same type. */
static const struct option_spec *spec_of_option(const char *name)
{
    for (const struct option_spec *o = program_row.options; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    for (const struct command *c = command_table; c->path; c++)
        for (const struct option_spec *o = c->options; o->name; o++)
            if (strcmp(o->name, name) == 0)
                return o;
    return NULL;
}

/* ---- Lines --------------------------------------------------------------------------- */

struct reading {
    struct cli *cli;
    struct config *config;
    struct config_file *file;
    unsigned line;
    enum config_section section;
    struct view subject;
    bool secret; /* a URL of the file contains a secret */
};

__attribute__((format(printf, 2, 3))) static enum hf_status mistaken(struct reading *reading,
                                                                     const char *format, ...)
{
    char why[HF_WHY_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return cli_invalid(reading->cli, "%.110s:%u: %s", reading->file->path, reading->line, why);
}

static struct view trimmed(struct view text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = view_from(text, 1);
    while (text.size > 0 && strchr(" \t\r", text.data[text.size - 1]))
        text.size--;
    return text;
}

static bool is_config_name(struct view name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                      c == '_' || c == '.';
        if (!letter)
            return false;
    }
    return name.size > 0 && name.size <= CONFIG_NAME_MAX;
}

/* "[store NAME]", "[profile NAME]" or "[defaults]". */
static enum hf_status take_section(struct reading *reading, struct view line)
{
    struct view rest = trimmed(view_first(view_from(line, 1), line.size - 2));
    struct view kind = trimmed(view_cut(&rest, ' '));
    reading->subject = trimmed(rest);
    reading->section = view_equal(kind, VIEW("store"))      ? CONFIG_STORE
                       : view_equal(kind, VIEW("profile"))  ? CONFIG_PROFILE
                       : view_equal(kind, VIEW("defaults")) ? CONFIG_DEFAULTS
                                                            : CONFIG_NO_SECTION;
    if (reading->section == CONFIG_NO_SECTION)
        return mistaken(reading,
                        "unknown section [%.*s]; use [store NAME], [defaults] or "
                        "[profile NAME]",
                        VIEW_ARGS(view_first(kind, 40)));
    if (reading->section == CONFIG_DEFAULTS && reading->subject.size > 0)
        return mistaken(reading, "[defaults] has no name");
    if (reading->section != CONFIG_DEFAULTS && !is_config_name(reading->subject))
        return mistaken(reading, "a name consists of a-z, 0-9, '.', '_' and '-': [%.*s NAME]",
                        VIEW_ARGS(kind));
    reading->file->stores += reading->section == CONFIG_STORE;
    reading->file->profiles += reading->section == CONFIG_PROFILE;
    return HF_OK;
}

/* A relative path would be another store in each folder. */
static enum hf_status check_config_url(struct reading *reading, struct view url)
{
    char absolute[HF_STORE_URL_MAX];
    struct hf_error why;
    size_t colon = view_find(url, ':');
    struct view path = view_from(url, colon + 1);
    bool local = view_starts_with(url, VIEW("dir:")) || view_starts_with(url, VIEW("sqlite:"));
    if (local && path.size > 0 && !view_starts_with(path, VIEW("/")) &&
        !view_starts_with(path, VIEW("~/")))
        return mistaken(reading, "the path of a store must start with / or ~/: '%.*s'",
                        VIEW_ARGS(view_first(url, 60)));
    if (hf_store_url_absolute(url.data, absolute, &why) != HF_OK)
        return mistaken(reading, "%.100s", why.why);
    static const char *const signs[] = { "sig=", "secret", "password" };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        reading->secret = reading->secret || strstr(url.data, signs[i]) != NULL;
    return HF_OK;
}

static enum hf_status check_config_value(struct reading *reading, struct view name,
                                         struct view value)
{
    struct option_value ignored = { .text = value };
    if (reading->section == CONFIG_STORE)
        return view_equal(name, VIEW("url"))
                   ? check_config_url(reading, value)
                   : mistaken(reading, "unknown setting '%.*s'; a store has only 'url'",
                              VIEW_ARGS(view_first(name, 40)));
    const struct config_option *option = find_config_option(name);
    if (!option) {
        struct nearest nearest = { .wanted = name };
        for (const struct config_option *at = config_options; at->name; at++)
            nearest_offer(&nearest, view_of(at->name));
        bool found = nearest.best.data != NULL;
        return mistaken(reading, "unknown setting '%.*s'%s%.*s%s",
                        VIEW_ARGS(view_first(name, 40)), found ? "; did you mean '" : "",
                        found ? (int)nearest.best.size : 0, found ? nearest.best.data : "",
                        found ? "'?" : "; 'holdfast config --help' lists the settings");
    }
    if (view_equal(name, VIEW("store")))
        return view_find(value, ':') < value.size || !is_config_name(value)
                   ? check_config_url(reading, value)
                   : HF_OK;
    if (cli_parse_value(reading->cli, spec_of_option(option->name), &ignored) == HF_OK &&
        log_check_value(reading->cli, option->name, value) == HF_OK)
        return HF_OK;
    struct hf_error why = reading->cli->error;
    return mistaken(reading, "%.100s", why.why + strspn(why.why, "-"));
}

/* "name = value" */
static enum hf_status take_setting(struct reading *reading, struct view line)
{
    struct config *config = reading->config;
    size_t equals = view_find(line, '=');
    struct view name = trimmed(view_first(line, equals));
    struct view value = trimmed(view_from(line, equals + 1));
    if (equals == line.size)
        return mistaken(reading, "this is neither [SECTION] nor NAME = VALUE");
    if (reading->section == CONFIG_NO_SECTION)
        return mistaken(reading, "a setting must follow [store NAME], [defaults] or "
                                 "[profile NAME]");
    if (value.size == 0)
        return mistaken(reading, "'%.*s' has no value", VIEW_ARGS(view_first(name, 40)));
    for (size_t i = 0; i < config->count; i++) {
        const struct config_setting *other = &config->settings[i];
        if (other->file == reading->file->path && other->section == reading->section &&
            view_equal(other->subject, reading->subject) && view_equal(other->name, name))
            return mistaken(reading, "'%.*s' is already set in line %u", VIEW_ARGS(name),
                            other->line);
    }
    if (reading->file->settings == CONFIG_SETTINGS_MAX)
        return mistaken(reading, "there are more than %d settings", CONFIG_SETTINGS_MAX);
    struct arena *arena = &reading->cli->arena;
    struct config_setting setting = {
        reading->section,        arena_copy(arena, reading->subject),
        arena_copy(arena, name), arena_copy(arena, value),
        reading->file->path,     reading->line
    };
    if (!setting.subject.data || !setting.name.data || !setting.value.data)
        return error_no_memory(&reading->cli->error);
    enum hf_status status = check_config_value(reading, setting.name, setting.value);
    if (status == HF_OK) {
        config->settings[config->count++] = setting;
        reading->file->settings++;
    }
    return status;
}

static enum hf_status take_config_line(struct reading *reading, struct view line)
{
    line = trimmed(line);
    if (line.size == 0 || line.data[0] == '#')
        return HF_OK;
    if (memchr(line.data, '\0', line.size))
        return mistaken(reading, "there is a NUL byte in this line");
    if (line.data[0] == '[')
        return line.data[line.size - 1] == ']' && line.size > 2
                   ? take_section(reading, line)
                   : mistaken(reading, "']' is missing at the end");
    return take_setting(reading, line);
}

/* ---- Files --------------------------------------------------------------------------- */

/* Reads the whole file into *ret_text. A file that any user may write to could name any store. */
static enum hf_status load_config_file(struct reading *reading, struct view *ret_text,
                                       bool *ret_readable)
{
    struct cli *cli = reading->cli;
    const char *path = reading->file->path;
    struct stat info;
    size_t size = 0;
    *ret_text = VIEW("");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    reading->file->exists = fd >= 0;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return HF_NOT_FOUND;
    if (fd < 0)
        return error_cannot_open(&cli->error, errno, path);
    char *bytes = arena_take(&cli->arena, CONFIG_FILE_BYTES_MAX + 1);
    enum hf_status status = bytes ? HF_OK : error_no_memory(&cli->error);
    if (status == HF_OK && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)))
        status = cli_invalid(cli, "%.150s is not a file", path);
    else if (status == HF_OK && (info.st_mode & S_IWOTH))
        status = cli_invalid(cli, "%.100s: every user may write to it: run 'chmod o-w %.100s'",
                             path, path);
    if (status == HF_OK)
        status = file_read_at(fd, bytes, CONFIG_FILE_BYTES_MAX + 1, 0, &size, &cli->error);
    close(fd);
    if (status == HF_OK && size > CONFIG_FILE_BYTES_MAX)
        return cli_invalid(cli, "%.150s is larger than 64 KiB", path);
    if (status == HF_OK) {
        *ret_text = (struct view){ bytes, size };
        *ret_readable = (info.st_mode & (S_IRGRP | S_IROTH)) != 0;
    }
    return status;
}

static enum hf_status read_config_file(struct reading *reading, config_mistake_fn *mistake,
                                       void *argument)
{
    struct cli *cli = reading->cli;
    struct view rest;
    char sentence[2 * HF_WHY_MAX];
    bool readable = false, going_on = true;
    enum hf_status status = load_config_file(reading, &rest, &readable), worst = status;
    if (status != HF_OK && status != HF_NOT_FOUND && mistake)
        mistake(argument, &cli->error);
    while (going_on && status == HF_OK && rest.size > 0) {
        reading->line++;
        enum hf_status line = take_config_line(reading, view_cut(&rest, '\n'));
        if (line != HF_OK)
            worst = line;
        going_on = line == HF_OK || (mistake && mistake(argument, &cli->error));
    }
    if (reading->secret && readable) {
        snprintf(sentence, sizeof sentence,
                 "%.100s contains a secret, and other users can read it: run 'chmod go-r "
                 "%.100s'",
                 reading->file->path, reading->file->path);
        cli_warn(cli, sentence);
    }
    return worst;
}

/* Fills in the paths. False: memory is exhausted. */
static bool find_config_files(struct cli *cli, struct config *config, bool *ret_required)
{
    const char *given = getenv("HOLDFAST_CONFIG"), *home = getenv("HOME");
    const char *xdg = getenv("XDG_CONFIG_HOME");
    char path[PATH_MAX];
    *ret_required = given && given[0];
    if (given) {
        config->files[0].path = arena_copy(&cli->arena, view_of(given)).data;
        config->file_count = given[0] ? 1 : 0; /* empty: no file */
        return config->files[0].path != NULL;
    }
    if ((xdg && xdg[0] == '/') || (home && home[0])) {
        bool uses_xdg = xdg && xdg[0] == '/';
        snprintf(path, sizeof path, "%s%s/holdfast/holdfast.conf", uses_xdg ? xdg : home,
                 uses_xdg ? "" : "/.config");
        config->files[config->file_count].path = arena_copy(&cli->arena, view_of(path)).data;
        if (!config->files[config->file_count++].path)
            return false;
    }
    config->files[config->file_count++].path = "/etc/holdfast/holdfast.conf";
    return true;
}

enum hf_status config_read(struct cli *cli, config_mistake_fn *mistake, void *argument,
                           struct config **ret_config)
{
    struct config *config = arena_take(&cli->arena, sizeof *config);
    enum hf_status worst = HF_OK;
    bool required;
    if (!config)
        return error_no_memory(&cli->error);
    *config = (struct config){ .count = 0 };
    if (!find_config_files(cli, config, &required))
        return error_no_memory(&cli->error);
    for (size_t i = 0; i < config->file_count && (worst == HF_OK || mistake); i++) {
        struct reading reading = { .cli = cli, .config = config, .file = &config->files[i] };
        enum hf_status status = read_config_file(&reading, mistake, argument);
        if (status == HF_NOT_FOUND && required)
            worst = error_set(&cli->error, HF_NOT_FOUND,
                              "there is no file '%.150s', which HOLDFAST_CONFIG names",
                              config->files[i].path);
        else if (status != HF_OK && status != HF_NOT_FOUND)
            worst = status;
    }
    *ret_config = config;
    return worst;
}

/* ---- What counts --------------------------------------------------------------------- */

const struct config_setting *config_find(const struct config *config,
                                         enum config_section section, struct view subject,
                                         struct view name)
{
    for (size_t i = 0; i < config->count; i++) {
        const struct config_setting *at = &config->settings[i];
        if (at->section == section && view_equal(at->subject, subject) &&
            view_equal(at->name, name))
            return at;
    }
    return NULL;
}

bool config_has_store(const struct cli *cli, struct view name)
{
    return cli->config && config_find(cli->config, CONFIG_STORE, name, VIEW("url")) != NULL;
}

const char *config_profile(struct cli *cli)
{
    const char *given = option_text(cli, "profile"), *variable = getenv("HOLDFAST_PROFILE");
    return given ? given : variable && variable[0] ? variable : NULL;
}

const struct config_setting *config_default(struct cli *cli, const char *option)
{
    const char *profile = config_profile(cli);
    const struct config_setting *found =
        profile && cli->config
            ? config_find(cli->config, CONFIG_PROFILE, view_of(profile), view_of(option))
            : NULL;
    if (found || !cli->config)
        return found;
    return config_find(cli->config, CONFIG_DEFAULTS, VIEW(""), view_of(option));
}

static enum hf_status check_profile(struct cli *cli)
{
    const char *profile = config_profile(cli);
    for (size_t i = 0; profile && i < cli->config->count; i++)
        if (cli->config->settings[i].section == CONFIG_PROFILE &&
            view_equal(cli->config->settings[i].subject, view_of(profile)))
            return HF_OK;
    return profile ? cli_invalid(cli,
                                 "there is no profile '%.60s' in a configuration file; "
                                 "'holdfast config check' shows which files are read",
                                 profile)
                   : HF_OK;
}

static bool applies_to_command(const struct config_option *option, const char *path)
{
    for (size_t i = 0; option->commands[i]; i++) {
        size_t size = strlen(option->commands[i]);
        if (strncmp(path, option->commands[i], size) == 0 &&
            (path[size] == '\0' || path[size] == ' '))
            return true;
    }
    return false;
}

enum hf_status cli_apply_config(struct cli *cli)
{
    enum hf_status status = config_read(cli, /* mistake */ NULL, NULL, &cli->config);
    if (status == HF_OK)
        status = check_profile(cli);
    for (const struct config_option *at = config_options; at->name && status == HF_OK; at++) {
        const struct config_setting *found = config_default(cli, at->name);
        if (found && applies_to_command(at, cli->command->path))
            status = cli_set_default(cli, at->name, found->value);
    }
    return status;
}

enum hf_status cli_named_store(struct cli *cli, struct view *url)
{
    if (!cli->config || !is_config_name(*url))
        return HF_OK;
    const struct config_setting *found =
        config_find(cli->config, CONFIG_STORE, *url, VIEW("url"));
    if (found)
        *url = found->value;
    else if (cli->config->count > 0)
        return cli_invalid(cli,
                           "there is no [store %.*s] in a configuration file; 'holdfast "
                           "config show' lists the stores",
                           VIEW_ARGS(*url));
    return HF_OK;
}
