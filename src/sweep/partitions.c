/* SPDX-License-Identifier: Apache-2.0 */
/* partitions.c: lets compaction remove the outputs of ended leases, chunks whose grace has passed,
 * and names for which D has passed, for each partition that has a catalog. The rules for deletion
 * are in src/compact. */
#include "base/layout.h"
#include "compact/care/maintain.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

static bool maintenance_goes_on(void *argument)
{
    return run_goes_on(argument);
}

static void look_for_parent(void *argument, const struct catalog *catalog,
                            const struct evidence *evidence)
{
    bool *is_child = argument;
    (void)evidence;
    *is_child = catalog->parent.size > 0;
}

/* A child of a split partition is handled with its parent. */
static enum hf_status maintain_unless_child(struct sweep_run *run, struct catalog_tree *tree,
                                            struct hf_error *error)
{
    struct catalog_ref *ref;
    bool is_child = false;
    struct maintain_report maintained = { 0 };
    struct maintain_options options = { .short_lived = run->options->mode == SWEEP_MANUAL,
                                        .go_on = maintenance_goes_on,
                                        .argument = run };
    enum hf_status status = catalog_tree_ref(tree, view_of(tree->partition), &ref, error);
    if (status == HF_OK)
        status = catalog_ref_show(ref, look_for_parent, &is_child, error);
    if (status == HF_OK && !is_child && !run->options->dry_run)
        status = maintain_round(tree, &options, &maintained, error);
    run->report->outputs_condemned += maintained.condemned;
    run->report->chunks_deleted += maintained.deleted;
    run->report->names_dropped += maintained.dropped;
    return status == HF_NOT_FOUND ? HF_OK : status; /* there is no catalog */
}

static void maintain_partition(struct sweep_run *run, struct view partition)
{
    struct catalog_tree *tree;
    struct hf_error error;
    enum hf_status status =
        catalog_tree_open(client_store(run->client), run->client, partition, &tree, &error);
    if (status == HF_OK) {
        status = maintain_unless_child(run, tree, &error);
        catalog_tree_close(tree);
    }
    run_note(run, partition, status, &error);
    snprintf(run->cursor->partition, sizeof run->cursor->partition, "%.*s",
             VIEW_ARGS(partition));
}

/* The partition of an entry under metadata/. The default partition is directly in metadata/. */
static bool partition_of(const struct list_entry *entry, struct view *ret_partition)
{
    struct view name = view_from(entry->key, strlen(LAYOUT_CHUNK_FOLDER));
    *ret_partition = VIEW(LAYOUT_PARTITION_DEFAULT);
    if (!entry->is_prefix)
        return view_equal(name, VIEW(LAYOUT_CATALOG));
    *ret_partition = view_first(name, name.size - 1);
    return layout_partition_valid(*ret_partition) &&
           !view_equal(*ret_partition, VIEW(LAYOUT_PARTITION_DEFAULT));
}

/* Where a listing continues after the last partition. */
static struct view after_partition(const struct sweep_run *run, char space[KEY_BYTES_MAX + 1])
{
    const char *last = run->cursor->partition;
    if (last[0] == '\0')
        return VIEW("");
    bool is_default = view_equal(view_of(last), VIEW(LAYOUT_PARTITION_DEFAULT));
    snprintf(space, KEY_BYTES_MAX + 1, LAYOUT_CHUNK_FOLDER "%s%s",
             is_default ? LAYOUT_CATALOG : last, is_default ? "" : "/");
    return view_of(space);
}

enum hf_status sweep_partitions(struct sweep_run *run, struct hf_error *error)
{
    char space[KEY_BYTES_MAX + 1];
    struct pages pages = { .list = { .prefix = VIEW(LAYOUT_CHUNK_FOLDER),
                                     .after = after_partition(run, space),
                                     .delimiter = VIEW("/") } };
    struct view partition;
    while (run_page(run, &pages))
        for (size_t i = 0; i < pages.list.count; i++) {
            if (run->stopped)
                break;
            if (partition_of(&pages.list.entries[i], &partition) && run_next(run))
                maintain_partition(run, partition);
        }
    enum hf_status status = pages_end(&pages, HF_OK, error);
    if (status == HF_OK && !run->stopped)
        run->cursor->partition[0] = '\0';
    return status;
}
