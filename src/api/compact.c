/* SPDX-License-Identifier: Apache-2.0 */
/* compact.c: opens partitions, reads and changes their settings, pauses and resumes them, and walks
 * the catalogs for the other compact files. One damaged catalog does not stop a walk. */
#include "api/compact_inside.h"

#include "file/new_file.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Default limits for each process of the command in a partition's settings. */
#define EXEC_MEMORY_USUAL (8 * GIB)
#define EXEC_FILE_USUAL   (64 * GIB)
#define EXEC_CPU_USUAL    SPAN_S(3600)
#define ALLOW_EXEC_MAX    64

/* How often settings are copied to the catalogs of a partition that is being split meanwhile. */
#define SET_PASSES_MAX 8

/* ---- Opening ------------------------------------------------------------------------- */

const char *text_in(struct arena *arena, struct view text)
{
    return arena_copy(arena, text).data;
}

static enum hf_status copy_programs(struct hf_compact *compact,
                                    const struct hf_compact_options *options,
                                    struct hf_error *error)
{
    size_t count = options->allow_exec_count;
    if (count > ALLOW_EXEC_MAX)
        return error_set(error, HF_INVALID, "at most %d programs can be allowed",
                         ALLOW_EXEC_MAX);
    if (count > 0 && !options->allow_exec)
        return error_set(error, HF_INVALID,
                         "allow_exec must not be NULL if allow_exec_count is not 0");
    const char **programs = arena_take(&compact->arena, (count + 1) * sizeof *programs);
    if (!programs)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        const char *path = options->allow_exec[i];
        if (!path || path[0] != '/')
            return error_set(error, HF_INVALID,
                             "allow_exec must contain absolute paths of programs, not '%.80s'",
                             path ? path : "NULL");
        programs[i] = text_in(&compact->arena, view_of(path));
        if (!programs[i])
            return error_no_memory(error);
    }
    compact->allowed.programs = programs;
    compact->allowed.count = count;
    return HF_OK;
}

static enum hf_status copy_options(struct hf_compact *compact,
                                   const struct hf_compact_options *options,
                                   struct hf_error *error)
{
    struct allow_exec *allowed = &compact->allowed;
    if (options->exec_cpu_ms < 0)
        return error_set(error, HF_INVALID, "exec_cpu_ms must not be negative");
    allowed->memory_bytes_max =
        options->exec_memory_max ? options->exec_memory_max : EXEC_MEMORY_USUAL;
    allowed->file_bytes_max = options->exec_file_max ? options->exec_file_max : EXEC_FILE_USUAL;
    allowed->cpu_limit =
        options->exec_cpu_ms ? span_of_ms(options->exec_cpu_ms) : EXEC_CPU_USUAL;
    compact->trouble = options->trouble;
    compact->argument = options->argument;
    compact->scratch =
        text_in(&compact->arena, view_of(scratch_or_usual(options->scratch_folder)));
    return compact->scratch ? copy_programs(compact, options, error) : error_no_memory(error);
}

enum hf_status hf_compact_open(struct hf_client *client, const char *partition,
                               const struct hf_compact_options *options,
                               struct hf_compact **ret_compact, struct hf_error *error)
{
    struct hf_compact_options used = HF_COMPACT_OPTIONS;
    struct hf_error why;
    if (ret_compact)
        *ret_compact = NULL;
    if (ERROR_IF_NULL(&why, client, ret_compact) != HF_OK ||
        READ_OPTIONS(HF_COMPACT_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct view name = view_of(partition ? partition : LAYOUT_PARTITION_DEFAULT);
    if (!layout_partition_valid(name))
        return error_set(
            error, HF_INVALID,
            "a partition name must be 1 to %d characters of a-z 0-9 . _ -, not '%.*s'",
            PARTITION_BYTES_MAX, VIEW_ARGS(view_first(name, 80)));
    struct hf_compact *compact = calloc(1, sizeof *compact);
    if (!compact)
        return error_no_memory(error);
    compact->arena = compact->kept = ARENA_INIT;
    compact->texts = MAP_INIT;
    enum hf_status status = copy_options(compact, &used, &why);
    if (status == HF_OK)
        status = catalog_tree_open(client_store(client), client, name, &compact->tree, &why);
    if (status == HF_OK) {
        compact->client = client;
        atomic_init(&compact->users, 1);
        client_keep(client);
        env_mutex_init(client_env(client), &compact->mutex);
        *ret_compact = compact;
    } else {
        arena_release(&compact->arena);
        free(compact);
    }
    return error_tell(error, status, &why);
}

struct hf_compact *compact_keep(struct hf_compact *compact)
{
    atomic_fetch_add(&compact->users, 1);
    return compact;
}

void hf_compact_close(struct hf_compact *compact)
{
    if (!compact || atomic_fetch_sub(&compact->users, 1) > 1)
        return;
    struct hf_client *client = compact->client;
    catalog_tree_close(compact->tree);
    env_mutex_release(&compact->mutex);
    map_release(&compact->texts);
    arena_release(&compact->kept);
    arena_release(&compact->arena);
    free(compact);
    client_drop(client);
}

/* ---- Walking ------------------------------------------------------------------------- */

void compact_tell_trouble(struct hf_compact *compact, const char *part,
                          const struct hf_error *why)
{
    struct hf_compact_trouble trouble = {
        .struct_size = sizeof trouble, .part = part, .status = why->status, .why = why->why
    };
    if (compact->trouble)
        compact->trouble(compact->argument, &trouble);
}

struct walking {
    struct hf_compact *compact;
    const struct compact_walk *walk;
    struct hf_error broken; /* the first catalog that cannot be read */
    bool stopped;
    bool no_memory; /* the only way that `look` can fail */
};

static enum hf_status visit_live_catalog(void *argument, struct catalog_ref *ref,
                                         const struct catalog *catalog,
                                         const struct evidence *evidence,
                                         const struct hf_error *why)
{
    struct walking *walking = argument;
    if (catalog) {
        enum hf_status status =
            walking->walk->look(walking->walk->argument, ref, catalog, evidence);
        walking->no_memory = status != HF_OK;
        return status;
    }
    if (!walking->walk->quiet)
        compact_tell_trouble(walking->compact, ref->partition, why);
    if (walking->broken.status == HF_OK)
        walking->broken = *why;
    return HF_OK;
}

static enum hf_status report_between(void *argument, struct catalog_ref *ref)
{
    struct walking *walking = argument;
    (void)ref;
    if (!walking->walk->told || walking->walk->told(walking->walk->argument))
        return HF_OK;
    walking->stopped = true;
    return HF_CANCELLED;
}

enum hf_status compact_walk(struct hf_compact *compact, const struct compact_walk *walk,
                            struct hf_error *error)
{
    struct walking walking = { .compact = compact, .walk = walk };
    enum hf_status status = catalog_tree_walk_slowly(compact->tree, visit_live_catalog,
                                                     report_between, &walking, error);
    if (walking.stopped)
        return error_clear(error);
    if (walking.no_memory)
        return error_no_memory(error);
    if (walking.broken.status == HF_OK || (status != HF_OK && status != walking.broken.status))
        return status;
    *error = walking.broken;
    return error->status;
}

/* ---- Settings ------------------------------------------------------------------------ */

enum hf_status hf_compact_policy_parse(const char *text, enum hf_compact_policy *ret_policy,
                                       struct hf_error *error)
{
    if (ERROR_IF_NULL(error, text, ret_policy) != HF_OK)
        return HF_INVALID;
    enum hf_status status = compact_policy_parse(view_of(text), ret_policy, error);
    return status == HF_OK ? error_clear(error) : status;
}

/* Numeric members that have the same name in the public and the internal struct. */
#define SAME_NUMBERS(ROW)  \
    ROW(command_limit_ms)  \
    ROW(rejects_max)       \
    ROW(level0_count)      \
    ROW(level1_bytes)      \
    ROW(level_factor)      \
    ROW(cascade_base)      \
    ROW(group_max)         \
    ROW(ttl_ms)            \
    ROW(grace_ms)          \
    ROW(late_bound_ms)     \
    ROW(skew_tolerance_ms) \
    ROW(retention_ms)      \
    ROW(backlog_max)       \
    ROW(tries_max)         \
    ROW(step_ms)           \
    ROW(output_max)        \
    ROW(headless)

static struct view text_or_nothing(const char *text)
{
    return text && text[0] ? view_of(text) : (struct view){ NULL, 0 };
}

static enum hf_status settings_from_caller(const struct hf_compact_settings *given,
                                           struct compact_settings *ret_settings,
                                           struct hf_error *error)
{
    struct compact_settings settings = compact_settings_default();
    if ((unsigned)given->format >= HF_MERGE_FORMAT_COUNT ||
        (unsigned)given->coding >= HF_MERGE_CODING_COUNT ||
        (unsigned)given->policy >= HF_COMPACT_POLICY_COUNT)
        return error_set(error, HF_INVALID, "unknown format, compression or policy");
    settings.format = given->format;
    settings.coding = given->coding == HF_MERGE_AUTO ? HF_MERGE_PLAIN : given->coding;
    settings.policy = given->policy;
    settings.key = text_or_nothing(given->key);
    settings.time = text_or_nothing(given->time);
    settings.deleted = text_or_nothing(given->deleted);
    settings.command = text_or_nothing(given->command);
#define COPY(name) settings.name = given->name;
    SAME_NUMBERS(COPY)
#undef COPY
    *ret_settings = settings;
    return HF_OK;
}

/* Keeps one copy of each string for the lifetime of the handle; NULL for an empty string. */
static bool intern_text(struct hf_compact *compact, struct view text, const char **ret_text)
{
    void *old;
    *ret_text = NULL;
    if (text.size == 0)
        return true;
    env_mutex_lock(&compact->mutex);
    struct view *kept = map_get(&compact->texts, text);
    if (!kept && (kept = arena_take(&compact->kept, sizeof *kept))) {
        *kept = arena_copy(&compact->kept, text);
        if (!kept->data || !map_put(&compact->texts, *kept, kept, &old))
            kept = NULL;
    }
    env_mutex_unlock(&compact->mutex);
    if (kept)
        *ret_text = kept->data;
    return kept != NULL;
}

static enum hf_status settings_to_caller(struct hf_compact *compact,
                                         const struct compact_settings *settings,
                                         struct hf_compact_settings *ret_settings,
                                         struct hf_error *error)
{
    struct hf_compact_settings shown = HF_COMPACT_SETTINGS;
    shown.format = settings->format;
    shown.coding = settings->coding;
    shown.policy = settings->policy;
#define COPY(name) shown.name = settings->name;
    SAME_NUMBERS(COPY)
#undef COPY
    if (!intern_text(compact, settings->key, &shown.key) ||
        !intern_text(compact, settings->time, &shown.time) ||
        !intern_text(compact, settings->deleted, &shown.deleted) ||
        !intern_text(compact, settings->command, &shown.command))
        return error_no_memory(error);
    write_caller_report(ret_settings, &shown, sizeof shown);
    return HF_OK;
}

/* The settings of all catalogs together. */
struct known_settings {
    struct arena arena;
    struct compact_settings settings; /* of the partition's own catalog */
    bool read;
    bool has_chunks;
};

static enum hf_status read_catalog_settings(void *argument, struct catalog_ref *ref,
                                            const struct catalog *catalog,
                                            const struct evidence *evidence)
{
    struct known_settings *known = argument;
    (void)evidence;
    (void)ref;
    known->has_chunks |= catalog->live_count > 0 || catalog->grave_count > 0;
    if (known->read)
        return HF_OK;
    known->read = true;
    known->settings = catalog->settings;
    return compact_settings_keep(&known->settings, &known->arena) ? HF_OK : HF_UNAVAILABLE;
}

static bool stop_walk(void *argument)
{
    (void)argument;
    return false;
}

/* Reads the settings of all catalogs, or of the partition's own catalog only. */
static enum hf_status read_settings(struct hf_compact *compact, bool all,
                                    struct known_settings *known, struct hf_error *error)
{
    const struct compact_walk walk = { .look = read_catalog_settings,
                                       .told = all ? NULL : stop_walk,
                                       .argument = known,
                                       .quiet = !all };
    *known = (struct known_settings){ .arena = ARENA_INIT };
    return compact_walk(compact, &walk, error);
}

enum hf_status hf_compact_get_settings(struct hf_compact *compact,
                                       struct hf_compact_settings *ret_settings,
                                       struct hf_error *error)
{
    struct known_settings known;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, compact, ret_settings) != HF_OK ||
        CHECK_REPORT(HF_COMPACT_SETTINGS, ret_settings, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = read_settings(compact, /* all */ false, &known, &why);
    if (status == HF_OK)
        status = settings_to_caller(compact, &known.settings, ret_settings, &why);
    arena_release(&known.arena);
    return error_tell(error, status, &why);
}

/* The name of the first setting that differs although existing chunks depend on it, or NULL. */
static const char *find_fixed_setting(const struct compact_settings *a,
                                      const struct compact_settings *b)
{
    if (a->format != b->format)
        return "format";
    if (!view_equal(a->key, b->key))
        return "key";
    if (!view_equal(a->time, b->time))
        return "time";
    if (!view_equal(a->deleted, b->deleted))
        return "deleted field";
    return a->headless != b->headless ? "header" : NULL;
}

/* Changes the settings of one catalog. *ret_changed: they were different, or may have been. */
static enum hf_status set_in_catalog(struct hf_compact *compact, struct view name,
                                     const struct compact_settings *before,
                                     const struct compact_settings *after, bool *ret_changed,
                                     struct hf_error *error)
{
    struct catalog_op op = { .kind = CATALOG_SET, .settings = after, .before = before };
    struct catalog_ref *ref;
    enum hf_status status = catalog_tree_ref(compact->tree, name, &ref, error);
    if (status != HF_OK)
        return status;
    status = catalog_ref_apply(ref, &op, /* deadline */ (struct mono_time){ 0 });
    *ret_changed = op.changed || op.doubted;
    *error = op.error;
    return status;
}

/* Copies the settings of the partition's own catalog to those of its children after a split.
 * *ret_changed: some were different. */
static enum hf_status set_in_children(struct hf_compact *compact, bool *ret_changed,
                                      struct hf_error *error)
{
    struct known_settings known;
    struct catalog_list names = { .arena = ARENA_INIT };
    *ret_changed = false;
    enum hf_status status = read_settings(compact, /* all */ false, &known, error);
    if (status == HF_OK)
        status = catalog_list_read(compact, &names, error);
    for (size_t i = 1; i < names.count && status == HF_OK; i++) {
        bool changed;
        status = set_in_catalog(compact, names.names[i], /* before */ NULL, &known.settings,
                                &changed, error);
        *ret_changed = *ret_changed || (status == HF_OK && changed);
    }
    catalog_list_release(&names);
    arena_release(&known.arena);
    return status;
}

/* The change has been made, but its copies failed with this status, or are not done: TIMEOUT and
 * UNAVAILABLE would say that nothing was changed. */
static enum hf_status fail_copies(enum hf_status status, struct hf_error *error)
{
    const struct hf_error why = *error;
    if (status == HF_TIMEOUT || status == HF_UNAVAILABLE)
        status = HF_UNSURE;
    return error_set(error, status,
                     "the settings are changed, but perhaps not in all parts of the partition; "
                     "set them again: %s",
                     why.why);
}

/* Changes the settings of the partition's own catalog first. Its children may be split meanwhile,
 * and others may change the settings, so it copies them until all are equal. If that fails, the
 * next change completes it, whatever it changes. */
static enum hf_status change_all_settings(struct hf_compact *compact,
                                          const struct compact_settings *before,
                                          const struct compact_settings *after,
                                          struct hf_error *error)
{
    bool changed;
    enum hf_status status = set_in_catalog(compact, view_of(compact->tree->partition), before,
                                           after, &changed, error);
    if (status != HF_OK)
        return status;
    changed = true;
    for (int i = 0; i < SET_PASSES_MAX && status == HF_OK && changed; i++)
        status = set_in_children(compact, &changed, error);
    if (status == HF_OK && changed)
        status =
            error_set(error, HF_UNAVAILABLE, "other clients keep changing or splitting it");
    return status == HF_OK ? HF_OK : fail_copies(status, error);
}

/* Reads the caller's settings. Those that are to be stored are checked as a whole, too. */
static enum hf_status read_caller_settings(struct hf_compact *compact,
                                           const struct hf_compact_settings *settings,
                                           struct compact_settings *ret_settings,
                                           struct hf_error *error)
{
    struct hf_compact_settings given = HF_COMPACT_SETTINGS;
    if (ERROR_IF_NULL(error, compact, settings) != HF_OK ||
        READ_OPTIONS(HF_COMPACT_SETTINGS, settings, &given, error) != HF_OK ||
        settings_from_caller(&given, ret_settings, error) != HF_OK)
        return error->status;
    client_active(compact->client);
    return HF_OK;
}

enum hf_status hf_compact_create(struct hf_compact *compact,
                                 const struct hf_compact_settings *settings,
                                 struct hf_error *error)
{
    struct compact_settings used;
    struct hf_error why;
    enum hf_status status = read_caller_settings(compact, settings, &used, &why);
    if (status == HF_OK)
        status = compact_settings_check(&used, &why);
    if (status == HF_OK)
        status = catalog_tree_create(compact->tree, &used, &why);
    return error_tell(error, status, &why);
}

enum hf_status hf_compact_set(struct hf_compact *compact,
                              const struct hf_compact_settings *before,
                              const struct hf_compact_settings *after, struct hf_error *error)
{
    struct compact_settings wanted, read, changed;
    struct known_settings known;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, compact, after) != HF_OK ||
        read_caller_settings(compact, after, &wanted, &why) != HF_OK ||
        compact_settings_check(&wanted, &why) != HF_OK ||
        (before && read_caller_settings(compact, before, &read, &why) != HF_OK))
        return error_tell(error, why.status, &why);
    enum hf_status status = read_settings(compact, /* all */ true, &known, &why);
    if (status == HF_OK) {
        changed = before ? compact_settings_change(&known.settings, &read, &wanted) : wanted;
        const char *fixed = find_fixed_setting(&known.settings, &changed);
        if (fixed && known.has_chunks)
            status = error_set(&why, HF_CONFLICT,
                               "cannot change the %s: the partition already has chunks", fixed);
    }
    if (status == HF_OK)
        status = change_all_settings(compact, before ? &read : NULL, &wanted, &why);
    arena_release(&known.arena);
    return error_tell(error, status, &why);
}

/* ---- Pause and resume ---------------------------------------------------------------- */

/* Fails for a mistyped name, which has no catalog; creating that partition would not help. A
 * damaged catalog counts as found, because such a partition may need a pause most of all. */
static enum hf_status find_catalog(struct hf_compact *compact, struct hf_error *error)
{
    struct known_settings known;
    enum hf_status status = read_settings(compact, /* all */ false, &known, error);
    bool is_there = status == HF_CORRUPT || status == HF_UNSUPPORTED;
    arena_release(&known.arena);
    if (status == HF_NOT_FOUND)
        error_set(error, HF_NOT_FOUND, "there is no partition '%s'", compact->tree->partition);
    return is_there ? error_clear(error) : status;
}

enum hf_status hf_compact_pause(struct hf_compact *compact, const char *why, const char *by,
                                struct hf_error *error)
{
    struct hf_error reason;
    if (ERROR_IF_NULL(error, compact) != HF_OK)
        return HF_INVALID;
    enum hf_status status = find_catalog(compact, &reason);
    if (status == HF_OK)
        status = catalog_tree_pause(compact->tree, view_of(why ? why : ""),
                                    view_of(by ? by : ""), &reason);
    return error_tell(error, status, &reason);
}

enum hf_status hf_compact_resume(struct hf_compact *compact, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, compact) != HF_OK)
        return HF_INVALID;
    enum hf_status status = find_catalog(compact, &why);
    if (status == HF_OK)
        status = catalog_tree_resume(compact->tree, &why);
    return error_tell(error, status, &why);
}
