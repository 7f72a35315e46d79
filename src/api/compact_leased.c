/* compact_leased.c: which catalogs a partition has, and which of its chunks somebody merges: looked
 * up before anything is planned, since nothing may be asked while a catalog is shown. */
#include "api/compact_inside.h"
#include "lock/chunks.h"

/* ---- Catalogs ------------------------------------------------------------------------ */

static enum hf_status note_name(void *argument, struct slot *slot,
                                const struct catalog *catalog, const struct evidence *evidence,
                                const struct hf_error *why)
{
    struct catalog_list *names = argument;
    (void)catalog;
    (void)evidence;
    (void)why;
    struct view copy = arena_copy(&names->arena, view_of(slot->partition));
    if (!copy.data || names->count == SHELF_CATALOGS_MAX)
        return HF_UNAVAILABLE;
    names->names[names->count++] = copy;
    return HF_OK;
}

enum hf_status catalog_list_read(struct hf_compact *compact, struct catalog_list *ret_names,
                                 struct hf_error *error)
{
    *ret_names = (struct catalog_list){ .arena = ARENA_INIT };
    ret_names->names =
        arena_take(&ret_names->arena, SHELF_CATALOGS_MAX * sizeof *ret_names->names);
    if (!ret_names->names)
        return error_no_memory(error);
    return shelf_walk(compact->shelf, note_name, ret_names, error);
}

void catalog_list_release(struct catalog_list *names)
{
    arena_release(&names->arena);
}

/* ---- Leases -------------------------------------------------------------------------- */

static void note_scope(struct chunk_leases *leased, const struct scope *scope)
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

static void note_barred(struct chunk_leases *leased)
{
    void *old;
    if (!map_put(&leased->barred, leased->home, leased, &old))
        leased->failed = true;
}

static void note_leases(void *argument, const struct lease_table *table,
                        const struct evidence *evidence)
{
    struct chunk_leases *leased = argument;
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

enum hf_status chunk_leases_read(struct hf_compact *compact, const struct catalog_list *names,
                                 struct chunk_leases *ret_leased, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    *ret_leased = CHUNK_LEASES_INIT;
    for (size_t i = 0; i < names->count && status == HF_OK; i++) {
        ret_leased->home = arena_copy(&ret_leased->arena, names->names[i]);
        if (!ret_leased->home.data)
            return error_no_memory(error);
        status = chunks_look(compact->client, ret_leased->home, note_leases, ret_leased, error);
        if (status != HF_CORRUPT)
            continue;
        note_barred(ret_leased);
        if (ret_leased->damage.status == HF_OK)
            ret_leased->damage = *error;
        compact_tell_trouble(compact, "", error); /* which names the table */
        status = error_clear(error);
    }
    if (status == HF_OK && ret_leased->failed)
        status = error_no_memory(error);
    return status;
}

void chunk_leases_release(struct chunk_leases *leased)
{
    map_release(&leased->keys);
    map_release(&leased->barred);
    arena_release(&leased->arena);
}

bool chunk_leases_have(void *leased, struct view key)
{
    const struct chunk_leases *chunks = leased;
    return map_get(&chunks->keys, key) || map_get(&chunks->barred, layout_home(key));
}
