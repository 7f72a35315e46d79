/* compact.c: partitions: opening them, their settings, pause and resume; and how the other files of
 * this header walk over catalogs. */
#include "api/compact_inside.h"

#include "base/check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Of each process of a bucket's command. */
#define EXEC_MEMORY_USUAL (8 * GIB)
#define EXEC_FILE_USUAL   (64 * GIB)
#define EXEC_CPU_USUAL    SPAN_S(3600)
#define ALLOW_EXEC_MAX    64

/* ---- Opening ------------------------------------------------------------------------- */

const char *text_in(struct arena *arena, struct view text)
{
    return arena_copy(arena, text).data;
}

static enum hf_status take_programs(struct hf_compact *compact,
                                    const struct hf_compact_options *options,
                                    struct hf_error *error)
{
    size_t count = options->allow_exec_count;
    if (count > ALLOW_EXEC_MAX)
        return error_set(error, HF_INVALID, "%d programs may be allowed, no more",
                         ALLOW_EXEC_MAX);
    if (count > 0 && !options->allow_exec)
        return error_set(error, HF_INVALID, "allow_exec is NULL, and not empty");
    const char **programs = arena_take(&compact->arena, (count + 1) * sizeof *programs);
    if (!programs)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
        const char *path = options->allow_exec[i];
        if (!path || path[0] != '/')
            return error_set(error, HF_INVALID,
                             "allow_exec takes the absolute path of a program, not '%.80s'",
                             path ? path : "NULL");
        programs[i] = text_in(&compact->arena, view_of(path));
        if (!programs[i])
            return error_no_memory(error);
    }
    compact->allowed.programs = programs;
    compact->allowed.count = count;
    return HF_OK;
}

static enum hf_status take_options(struct hf_compact *compact,
                                   const struct hf_compact_options *options,
                                   struct hf_error *error)
{
    const char *temporary = getenv("TMPDIR");
    const char *scratch = options->scratch_folder;
    struct allow_exec *allowed = &compact->allowed;
    if (options->exec_cpu_ms < 0)
        return error_set(error, HF_INVALID, "exec_cpu_ms must not be negative");
    if (!scratch)
        scratch = temporary && temporary[0] ? temporary : "/tmp";
    allowed->memory_bytes_max =
        options->exec_memory_max ? options->exec_memory_max : EXEC_MEMORY_USUAL;
    allowed->file_bytes_max = options->exec_file_max ? options->exec_file_max : EXEC_FILE_USUAL;
    allowed->cpu_limit = options->exec_cpu_ms ? SPAN_MS(options->exec_cpu_ms) : EXEC_CPU_USUAL;
    compact->trouble = options->trouble;
    compact->argument = options->argument;
    compact->scratch = text_in(&compact->arena, view_of(scratch));
    return compact->scratch ? take_programs(compact, options, error) : error_no_memory(error);
}

static enum hf_status open_partition(struct hf_compact *compact, struct hf_client *client,
                                     struct view partition,
                                     const struct hf_compact_options *options,
                                     struct hf_error *error)
{
    if (!layout_partition_valid(partition))
        return error_set(
            error, HF_INVALID,
            "a partition is named with a-z 0-9 . _ - in up to %d bytes, not '%.*s'",
            PARTITION_BYTES_MAX, VIEW_ARGS(view_first(partition, 80)));
    enum hf_status status = take_options(compact, options, error);
    if (status == HF_OK)
        status = shelf_open(client->store, client, partition, &compact->shelf, error);
    return status;
}

enum hf_status hf_compact_open(struct hf_client *client, const char *partition,
                               const struct hf_compact_options *options,
                               struct hf_compact **ret_compact, struct hf_error *error)
{
    struct hf_compact_options used = HF_COMPACT_OPTIONS;
    struct hf_error why;
    if (ret_compact)
        *ret_compact = NULL;
    if (ERROR_IF_NULL(error, client, ret_compact) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_COMPACT_OPTIONS", options, &used, sizeof used, error);
    if (status != HF_OK)
        return status;
    struct hf_compact *compact = calloc(1, sizeof *compact);
    if (!compact)
        return error_no_memory(error);
    compact->arena = compact->kept = ARENA_INIT;
    compact->texts = MAP_INIT;
    status =
        open_partition(compact, client,
                       view_of(partition ? partition : LAYOUT_PARTITION_DEFAULT), &used, &why);
    if (status == HF_OK) {
        compact->client = client;
        client_keep(client);
        env_mutex_init(client->env, &compact->mutex);
        *ret_compact = compact;
    } else {
        arena_release(&compact->arena);
        free(compact);
    }
    return error_tell(error, status, &why);
}

void hf_compact_close(struct hf_compact *compact)
{
    if (!compact)
        return;
    struct hf_client *client = compact->client;
    shelf_close(compact->shelf);
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
    struct hf_error ended;  /* why `look` ended it */
    bool stopped;
};

static enum hf_status walk_look(void *argument, struct slot *slot,
                                const struct catalog *catalog, const struct evidence *evidence,
                                const struct hf_error *why)
{
    struct walking *walking = argument;
    if (catalog)
        return walking->walk->look(walking->walk->argument, slot, catalog, evidence);
    compact_tell_trouble(walking->compact, slot->partition, why);
    if (walking->broken.status == HF_OK)
        walking->broken = *why;
    return HF_OK;
}

static enum hf_status walk_between(void *argument, struct slot *slot)
{
    struct walking *walking = argument;
    if (!walking->walk->told || walking->walk->told(walking->walk->argument, slot))
        return HF_OK;
    walking->stopped = true;
    return HF_CANCELLED;
}

enum hf_status compact_walk(struct hf_compact *compact, const struct compact_walk *walk,
                            struct hf_error *error)
{
    struct walking walking = { .compact = compact, .walk = walk };
    enum hf_status status =
        shelf_walk_slowly(compact->shelf, walk_look, walk_between, &walking, error);
    if (walking.stopped)
        return error_clear(error);
    if (status == HF_UNAVAILABLE && strcmp(error->why, hf_status_text(status)) == 0)
        return error_no_memory(error); /* all that a look can fail for */
    if (status != HF_OK || walking.broken.status == HF_OK)
        return status;
    *error = walking.broken;
    return error->status;
}

/* ---- Settings ------------------------------------------------------------------------ */

static const char *const policy_names[] = {
#define POLICY_NAME(name, word, text) [HF_COMPACT_##name] = word,
    HF_COMPACT_POLICY_TABLE(POLICY_NAME)
#undef POLICY_NAME
};
static_assert((int)HF_COMPACT_LEVELS == (int)POLICY_LEVELS &&
                  (int)HF_COMPACT_CASCADE == (int)POLICY_CASCADE &&
                  (int)HF_COMPACT_POLICY_COUNT == (int)POLICY_COUNT,
              "the tables are in one order");

const char *hf_compact_policy_name(enum hf_compact_policy policy)
{
    return (unsigned)policy < HF_COMPACT_POLICY_COUNT ? policy_names[policy] : "";
}

enum hf_status hf_compact_policy_parse(const char *text, enum hf_compact_policy *ret_policy,
                                       struct hf_error *error)
{
    enum compact_policy policy;
    if (ERROR_IF_NULL(error, text, ret_policy) != HF_OK)
        return HF_INVALID;
    enum hf_status status = compact_policy_parse(view_of(text), &policy, error);
    if (status != HF_OK)
        return status;
    *ret_policy = (enum hf_compact_policy)policy;
    return error_clear(error);
}

/* Numbers that are called the same on both sides. */
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
    ROW(headless)

static struct view text_or_nothing(const char *text)
{
    return text && text[0] ? view_of(text) : (struct view){ NULL, 0 };
}

enum hf_status settings_from_caller(const struct hf_compact_settings *given,
                                    struct compact_settings *ret_settings,
                                    struct hf_error *error)
{
    struct compact_settings settings = compact_settings_default();
    if ((unsigned)given->format >= HF_MERGE_FORMAT_COUNT ||
        (unsigned)given->coding >= HF_MERGE_CODING_COUNT ||
        (unsigned)given->policy >= HF_COMPACT_POLICY_COUNT)
        return error_set(error, HF_INVALID, "unknown format, compression or policy");
    settings.format = (enum merge_format)given->format;
    settings.coding =
        given->coding == HF_MERGE_AUTO ? MERGE_PLAIN : (enum merge_coding)(given->coding - 1);
    settings.policy = (enum compact_policy)given->policy;
    settings.key = text_or_nothing(given->key);
    settings.time = text_or_nothing(given->time);
    settings.command = text_or_nothing(given->command);
#define COPY(name) settings.name = given->name;
    SAME_NUMBERS(COPY)
#undef COPY
    *ret_settings = settings;
    return compact_settings_check(&settings, error);
}

/* Each text once, for as long as the handle lives; NULL for an empty one. */
static bool keep_text(struct hf_compact *compact, struct view text, const char **ret_text)
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
    shown.format = (enum hf_merge_format)settings->format;
    shown.coding = (enum hf_merge_coding)(settings->coding + 1);
    shown.policy = (enum hf_compact_policy)settings->policy;
#define COPY(name) shown.name = settings->name;
    SAME_NUMBERS(COPY)
#undef COPY
    if (!keep_text(compact, settings->key, &shown.key) ||
        !keep_text(compact, settings->time, &shown.time) ||
        !keep_text(compact, settings->command, &shown.command))
        return error_no_memory(error);
    write_caller_report(ret_settings, &shown, sizeof shown);
    return HF_OK;
}

enum hf_status hf_compact_create(struct hf_compact *compact,
                                 const struct hf_compact_settings *settings,
                                 struct hf_error *error)
{
    struct hf_compact_settings given = HF_COMPACT_SETTINGS;
    struct compact_settings used;
    struct hf_error why;
    if (ERROR_IF_NULL(error, compact, settings) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_COMPACT_SETTINGS", settings, &given, sizeof given, error);
    if (status != HF_OK)
        return status;
    client_active(compact->client);
    status = settings_from_caller(&given, &used, &why);
    if (status == HF_OK)
        status = shelf_create(compact->shelf, &used, &why);
    return error_tell(error, status, &why);
}

/* What the catalogs say together. */
struct known_settings {
    struct arena arena;
    struct compact_settings settings; /* of the partition's own catalog */
    bool read;
    bool has_chunks;
};

static enum hf_status look_at_settings(void *argument, struct slot *slot,
                                       const struct catalog *catalog,
                                       const struct evidence *evidence)
{
    struct known_settings *known = argument;
    (void)slot;
    (void)evidence;
    known->has_chunks |= catalog->live_count > 0 || catalog->grave_count > 0;
    if (known->read)
        return HF_OK;
    known->read = true;
    known->settings = catalog->settings;
    return compact_settings_keep(&known->settings, &known->arena) ? HF_OK : HF_UNAVAILABLE;
}

struct own_settings {
    struct arena arena;
    struct compact_settings settings;
    bool failed;
};

static void look_at_own(void *argument, const struct catalog *catalog,
                        const struct evidence *evidence)
{
    struct own_settings *own = argument;
    (void)evidence;
    own->settings = catalog->settings;
    own->failed = !compact_settings_keep(&own->settings, &own->arena);
}

enum hf_status hf_compact_get_settings(struct hf_compact *compact,
                                       struct hf_compact_settings *ret_settings,
                                       struct hf_error *error)
{
    struct own_settings own = { .arena = ARENA_INIT };
    struct hf_error why;
    struct slot *slot;
    if (ERROR_IF_NULL(error, compact, ret_settings) != HF_OK ||
        check_caller_report("HF_COMPACT_SETTINGS", ret_settings, error) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        shelf_slot(compact->shelf, view_of(compact->shelf->partition), &slot, &why);
    if (status == HF_OK)
        status = slot_show(slot, look_at_own, &own, &why);
    if (status == HF_OK)
        status = own.failed ? error_no_memory(&why)
                            : settings_to_caller(compact, &own.settings, ret_settings, &why);
    arena_release(&own.arena);
    return error_tell(error, status, &why);
}

/* The first of what chunks are made of that is another, or NULL. */
static const char *changed_of_chunks(const struct compact_settings *a,
                                     const struct compact_settings *b)
{
    if (a->format != b->format)
        return "format";
    if (!view_equal(a->key, b->key))
        return "key";
    if (!view_equal(a->time, b->time))
        return "time";
    return a->headless != b->headless ? "header" : NULL;
}

/* Children of a split have settings of their own. */
static enum hf_status set_all(struct hf_compact *compact,
                              const struct compact_settings *settings, struct hf_error *error)
{
    struct catalog_list names;
    enum hf_status status = catalog_list_read(compact, &names, error);
    for (size_t i = 0; i < names.count && status == HF_OK; i++) {
        struct slot *slot;
        struct catalog_op op = { .kind = CATALOG_SET, .settings = settings };
        status = shelf_slot(compact->shelf, names.names[i], &slot, error);
        if (status == HF_OK) {
            status = slot_apply(slot, &op, /* deadline */ (struct mono_time){ 0 });
            *error = op.error;
        }
    }
    catalog_list_release(&names);
    return status;
}

enum hf_status hf_compact_set(struct hf_compact *compact,
                              const struct hf_compact_settings *settings,
                              struct hf_error *error)
{
    struct hf_compact_settings given = HF_COMPACT_SETTINGS;
    struct known_settings known = { .arena = ARENA_INIT };
    struct compact_walk walk = { look_at_settings, NULL, &known };
    struct compact_settings used;
    struct hf_error why;
    if (ERROR_IF_NULL(error, compact, settings) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_COMPACT_SETTINGS", settings, &given, sizeof given, error);
    if (status != HF_OK)
        return status;
    client_active(compact->client);
    status = settings_from_caller(&given, &used, &why);
    if (status == HF_OK)
        status = compact_walk(compact, &walk, &why);
    const char *changed = status == HF_OK ? changed_of_chunks(&known.settings, &used) : NULL;
    if (changed && known.has_chunks)
        status = error_set(&why, HF_CONFLICT,
                           "the %s cannot change any more: there are chunks that are made so",
                           changed);
    if (status == HF_OK)
        status = set_all(compact, &used, &why);
    arena_release(&known.arena);
    return error_tell(error, status, &why);
}

/* ---- Pause and resume ---------------------------------------------------------------- */

static void see(void *argument, const struct catalog *catalog, const struct evidence *evidence)
{
    (void)argument;
    (void)catalog;
    (void)evidence;
}

/* A name that somebody mistyped has no catalog. One that is damaged may be paused all the more. */
static enum hf_status find_catalog(struct hf_compact *compact, struct hf_error *error)
{
    struct slot *slot;
    enum hf_status status =
        shelf_slot(compact->shelf, view_of(compact->shelf->partition), &slot, error);
    if (status == HF_OK)
        status = slot_show(slot, see, NULL, error);
    bool is_there = status == HF_CORRUPT || status == HF_UNSUPPORTED;
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
        status = shelf_pause(compact->shelf, view_of(why ? why : ""), view_of(by ? by : ""),
                             &reason);
    return error_tell(error, status, &reason);
}

enum hf_status hf_compact_resume(struct hf_compact *compact, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, compact) != HF_OK)
        return HF_INVALID;
    enum hf_status status = find_catalog(compact, &why);
    if (status == HF_OK)
        status = shelf_resume(compact->shelf, &why);
    return error_tell(error, status, &why);
}
