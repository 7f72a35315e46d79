/* SPDX-License-Identifier: Apache-2.0 */
/* compact_leased.c: finds the catalogs of a partition, and the chunks that are being merged. Both
 * are read before anything is planned, because no request may be made while a catalog is being
 * visited. */
#include "api/compact_inside.h"
#include "lock/chunks.h"

static enum hf_status add_catalog_name(void *argument, struct catalog_ref *ref,
                                       const struct catalog *catalog,
                                       const struct evidence *evidence,
                                       const struct hf_error *why)
{
    struct catalog_list *names = argument;
    (void)catalog;
    (void)evidence;
    (void)why;
    struct view copy = arena_copy(&names->arena, view_of(ref->partition));
    if (!copy.data || names->count == CATALOG_TREE_CATALOGS_MAX)
        return HF_UNAVAILABLE;
    names->names[names->count++] = copy;
    return HF_OK;
}

enum hf_status catalog_list_read(struct hf_compact *compact, struct catalog_list *ret_names,
                                 struct hf_error *error)
{
    *ret_names = (struct catalog_list){ .arena = ARENA_INIT };
    ret_names->names =
        arena_take(&ret_names->arena, CATALOG_TREE_CATALOGS_MAX * sizeof *ret_names->names);
    if (!ret_names->names)
        return error_no_memory(error);
    return catalog_tree_walk(compact->tree, add_catalog_name, ret_names, error);
}

void catalog_list_release(struct catalog_list *names)
{
    arena_release(&names->arena);
}

static void add_leased_chunk(struct chunk_leases *leased, const struct scope *scope)
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

static void add_barred(struct chunk_leases *leased)
{
    void *old;
    if (!map_put(&leased->barred, leased->home, leased, &old))
        leased->failed = true;
}

static void add_leases(void *argument, const struct lease_table *table,
                       const struct evidence *evidence)
{
    struct chunk_leases *leased = argument;
    if (leased->also)
        leased->also(leased->argument, table, evidence);
    if (chunks_are_barred(table, evidence))
        add_barred(leased);
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        if (chunks_lease_over(table, lease, evidence))
            continue;
        for (size_t j = 0; j < lease->wish.scope_count; j++)
            add_leased_chunk(leased, &lease->wish.scopes[j]);
    }
}

static enum hf_status read_chunk_table(struct hf_compact *compact, struct view partition,
                                       struct chunk_leases *leased, struct hf_error *error)
{
    leased->home = arena_copy(&leased->arena, partition);
    if (!leased->home.data)
        return error_no_memory(error);
    enum hf_status status =
        chunks_look(compact->client, leased->home, add_leases, leased, error);
    if (status != HF_CORRUPT)
        return status;
    add_barred(leased);
    if (leased->damage.status == HF_OK)
        leased->damage = *error;
    compact_tell_trouble(compact, "", error); /* the error names the table */
    return error_clear(error);
}

enum hf_status chunk_leases_read(struct hf_compact *compact, struct chunk_leases *leased,
                                 struct hf_error *error)
{
    struct catalog_list names;
    enum hf_status status = catalog_list_read(compact, &names, error);
    for (size_t i = 0; i < names.count; i++) {
        if (status != HF_OK)
            break;
        status = read_chunk_table(compact, names.names[i], leased, error);
    }
    catalog_list_release(&names);
    return status == HF_OK && leased->failed ? error_no_memory(error) : status;
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

bool command_may_run(const struct hf_compact *compact, const struct compact_settings *settings,
                     struct hf_error *why)
{
    const char *program;
    return settings->command.size == 0 ||
           allow_exec_find(&compact->allowed, settings->command, &program, why) == HF_OK;
}
