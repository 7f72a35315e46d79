/* compact_desk.c: the partition that a command works on, and how its parts are told. */
#include "cli/compact.h"

#include "base/parse.h"
#include "cli/connect.h"
#include "cli/lock.h"
#include "lock/chunks.h"

#include <stdlib.h>

/* ---- Opening ------------------------------------------------------------------------- */

struct view partition_option(struct cli *cli)
{
    const struct option_value *value = cli_option(cli, "partition");
    return value ? value->text : VIEW(LAYOUT_PARTITION_DEFAULT);
}

static enum hf_status open_metered_store(struct desk *desk)
{
    struct cli *cli = desk->cli;
    struct store *inner = NULL;
    enum hf_status status = cli_open(cli, (struct view){ NULL, 0 }, BUCKET_LOCKS, &inner);
    if (status != HF_OK)
        return status;
    meter_init(&desk->meter, cli->env);
    desk->metered = true;
    status = store_observe(inner, meter_observer(&desk->meter), &cli->store, &cli->error);
    if (status != HF_OK)
        store_close(inner);
    return status;
}

static enum hf_status open_desk(struct desk *desk, struct cli *cli, bool metered)
{
    *desk = (struct desk){ .cli = cli };
    struct view partition = partition_option(cli);
    if (!layout_partition_valid(partition))
        return error_set(
            &cli->error, HF_INVALID,
            "a partition is named with a-z 0-9 . _ - in up to %d bytes, not '%.*s'",
            PARTITION_BYTES_MAX, VIEW_ARGS(view_first(partition, 80)));
    enum hf_status status = metered ? open_metered_store(desk) : HF_OK;
    if (status == HF_OK)
        status = cli_connect(cli, HF_CLIENT_OPTIONS, &desk->client);
    if (status == HF_OK)
        status = shelf_open(cli->store, desk->client, partition, &desk->shelf, &cli->error);
    return status;
}

enum hf_status desk_open(struct desk *desk, struct cli *cli)
{
    return open_desk(desk, cli, /* metered */ false);
}

enum hf_status desk_open_metered(struct desk *desk, struct cli *cli)
{
    return open_desk(desk, cli, /* metered */ true);
}

/* A metered store is closed here, since it must not outlive its meter. */
void desk_close(struct desk *desk)
{
    shelf_close(desk->shelf);
    hf_client_close(desk->client);
    if (!desk->metered)
        return;
    store_close(desk->cli->store);
    desk->cli->store = NULL;
    meter_release(&desk->meter);
}

uint64_t desk_requests(struct desk *desk)
{
    struct meter_counts kinds[CALL_KIND_COUNT];
    uint64_t sum = 0;
    meter_read(&desk->meter, kinds);
    for (size_t i = 0; i < CALL_KIND_COUNT; i++)
        sum += kinds[i].calls;
    return sum;
}

const char *scratch_folder(struct cli *cli)
{
    const char *scratch = option_text(cli, "scratch");
    const char *folder = scratch ? scratch : getenv("TMPDIR");
    return folder && folder[0] ? folder : "/tmp";
}

/* ---- Commands of the bucket ----------------------------------------------------------- */

#define ALLOW_EXEC_VARIABLE "HOLDFAST_ALLOW_EXEC"
#define ALLOW_EXEC_MAX      64

struct program_list {
    struct cli *cli;
    const char **programs;
    size_t count;
};

/* A program must be the same wherever the worker was started. */
static enum hf_status add_program(struct program_list *list, const char *where,
                                  struct view path)
{
    struct cli *cli = list->cli;
    if (path.size == 0 || path.data[0] != '/')
        return error_set(&cli->error, HF_INVALID,
                         "%s takes the absolute path of a program, not '%.*s'", where,
                         VIEW_ARGS(view_first(path, 80)));
    if (list->count == ALLOW_EXEC_MAX)
        return error_set(&cli->error, HF_INVALID, "%d programs may be allowed, no more",
                         ALLOW_EXEC_MAX);
    struct view copy = arena_copy(&cli->arena, path);
    if (!copy.data)
        return error_no_memory(&cli->error);
    list->programs[list->count++] = copy.data;
    return HF_OK;
}

enum hf_status take_allow_exec(struct cli *cli, struct allow_exec *ret_allowed)
{
    struct program_list list = { .cli = cli };
    const char *variable = getenv(ALLOW_EXEC_VARIABLE);
    struct view rest = view_of(variable ? variable : "");
    enum hf_status status = HF_OK;
    list.programs = arena_take(&cli->arena, ALLOW_EXEC_MAX * sizeof *list.programs);
    if (!list.programs)
        return error_no_memory(&cli->error);
    for (const struct option_value *value = cli_option(cli, "allow-exec");
         value && status == HF_OK; value = value->next)
        status = add_program(&list, "--allow-exec", value->text);
    while (rest.size > 0 && status == HF_OK)
        status = add_program(&list, ALLOW_EXEC_VARIABLE, view_cut(&rest, ':'));
    *ret_allowed = (struct allow_exec){ .programs = list.programs, .count = list.count };
    return status;
}

/* ---- Walking ------------------------------------------------------------------------- */

struct walk {
    struct desk *desk;
    desk_visit *visit;
    void *argument;
    enum hf_status broken;
};

static enum hf_status visit_one(void *argument, struct slot *slot,
                                const struct catalog *catalog, const struct evidence *evidence,
                                const struct hf_error *why)
{
    struct walk *walk = argument;
    struct cli *cli = walk->desk->cli;
    if (catalog)
        return walk->visit(walk->argument, slot, catalog, evidence);
    cli_report(cli, view_of(slot->partition), why);
    cli->reported = true;
    if (walk->broken == HF_OK) {
        walk->broken = why->status;
        cli->error = *why;
    }
    return HF_OK;
}

enum hf_status desk_walk(struct desk *desk, desk_visit *visit, void *argument)
{
    struct walk walk = { desk, visit, argument, HF_OK };
    struct hf_error error = { HF_OK, "" };
    enum hf_status status = shelf_walk(desk->shelf, visit_one, &walk, &error);
    if (status == HF_OK)
        return walk.broken;
    desk->cli->error = error;
    desk->cli->reported = false;
    return status;
}

static enum hf_status note_name(void *argument, struct slot *slot,
                                const struct catalog *catalog, const struct evidence *evidence,
                                const struct hf_error *why)
{
    struct catalog_names *names = argument;
    (void)catalog;
    (void)evidence;
    (void)why;
    struct view copy = arena_copy(&names->arena, view_of(slot->partition));
    if (!copy.data || names->count == SHELF_CATALOGS_MAX)
        return HF_UNAVAILABLE;
    names->names[names->count++] = copy;
    return HF_OK;
}

enum hf_status catalog_names_read(struct desk *desk, struct catalog_names *ret_names)
{
    *ret_names = (struct catalog_names){ .arena = ARENA_INIT };
    ret_names->names =
        arena_take(&ret_names->arena, SHELF_CATALOGS_MAX * sizeof *ret_names->names);
    if (!ret_names->names)
        return error_no_memory(&desk->cli->error);
    enum hf_status status = shelf_walk(desk->shelf, note_name, ret_names, &desk->cli->error);
    if (status != HF_OK && desk->cli->error.status != status)
        error_no_memory(&desk->cli->error);
    return status;
}

void catalog_names_release(struct catalog_names *names)
{
    arena_release(&names->arena);
}

/* ---- Leased chunks ------------------------------------------------------------------- */

static void note_scope(struct leased_chunks *leased, const struct scope *scope)
{
    void *old;
    if (scope->kind != SCOPE_CHUNK)
        return;
    struct view *key = arena_take(&leased->arena, sizeof *key);
    if (key)
        *key = arena_copy(&leased->arena, scope->name);
    if (!key || !key->data || !map_put(&leased->keys, *key, key, &old))
        leased->failed = true;
}

static void note_barred(struct leased_chunks *leased)
{
    void *old;
    if (!map_put(&leased->barred, leased->home, leased, &old))
        leased->failed = true;
}

static void note_leases(void *argument, const struct lease_table *table,
                        const struct evidence *evidence)
{
    struct leased_chunks *leased = argument;
    if (chunks_are_barred(table, evidence))
        note_barred(leased);
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (chunks_lease_over(table, lease, evidence))
            continue;
        for (size_t j = 0; j < lease->scope_count; j++)
            note_scope(leased, &lease->scopes[j]);
    }
}

enum hf_status leased_chunks_read(struct desk *desk, const struct catalog_names *names,
                                  struct leased_chunks *ret_leased)
{
    struct cli *cli = desk->cli;
    enum hf_status status = HF_OK;
    *ret_leased = LEASED_CHUNKS_INIT;
    for (size_t i = 0; i < names->count && status == HF_OK; i++) {
        ret_leased->home = arena_copy(&ret_leased->arena, names->names[i]);
        if (!ret_leased->home.data)
            return error_no_memory(&cli->error);
        status =
            chunks_look(desk->client, ret_leased->home, note_leases, ret_leased, &cli->error);
        if (status != HF_CORRUPT)
            continue;
        note_barred(ret_leased);
        if (ret_leased->damage.status == HF_OK)
            ret_leased->damage = cli->error;
        cli_report(cli, (struct view){ NULL, 0 }, &cli->error); /* which names the table */
        status = error_clear(&cli->error);
    }
    if (status == HF_OK && ret_leased->failed)
        status = error_no_memory(&cli->error);
    return status;
}

enum hf_status leased_chunks_judge(struct cli *cli, const struct leased_chunks *leased,
                                   enum hf_status status)
{
    if (status != HF_OK || leased->damage.status == HF_OK)
        return status;
    cli->error = leased->damage;
    cli->reported = true;
    return cli->error.status;
}

void leased_chunks_release(struct leased_chunks *leased)
{
    map_release(&leased->keys);
    map_release(&leased->barred);
    arena_release(&leased->arena);
}

bool chunk_is_leased(void *leased, struct view key)
{
    const struct leased_chunks *chunks = leased;
    return map_get(&chunks->keys, key) || map_get(&chunks->barred, layout_home(key));
}

/* ---- JSON ---------------------------------------------------------------------------- */

json_t *settings_as_json(const struct compact_settings *settings)
{
    struct buffer text = BUFFER_INIT(64 * KIB);
    json_t *object = NULL;
    if (compact_settings_encode(settings, &text))
        object = json_loadb(text.data, text.size, 0, NULL);
    buffer_release(&text);
    return object;
}

json_t *chunk_as_json(const struct chunk *chunk)
{
    json_t *object = json_object();
    json_add_key(&object, "key", chunk->key);
    json_add_count(&object, "level", chunk->level);
    json_add_count(&object, "size_bytes", chunk->size);
    json_add(&object, "rows",
             chunk->rows_known ? json_integer((json_int_t)chunk->rows) : json_null());
    json_add_time_ms(&object, "min_at", chunk->min_ms);
    json_add_time_ms(&object, "max_at", chunk->max_ms);
    json_add_words(&object, "writer", chunk->writer);
    json_add_count(&object, "sequence", chunk->sequence);
    json_add_crc32c(&object, "crc32c", chunk->crc32c);
    json_add_count(&object, "rejects", chunk->rejects);
    json_add_count(&object, "tries", chunk->tries);
    json_add_words(&object, "quarantine", chunk->quarantine);
    return object;
}
