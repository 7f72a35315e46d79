/* partitions.c: what compaction has to clear away: outputs of leases that are over, chunks past
 * their grace, names past D; of each partition that has a catalog. */
#include "base/layout.h"
#include "compact/tend.h"
#include "sweep/sweep_inside.h"

#include <stdio.h>

static bool goes_on(void *argument)
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

/* A child of a split partition is tended with its parent. */
static enum hf_status tend_unless_child(struct sweep_run *run, struct shelf *shelf,
                                        struct hf_error *error)
{
    struct slot *slot;
    bool is_child = false;
    struct tend_report tended = { 0 };
    struct tend_options options = { .short_lived = run->options->mode == SWEEP_MANUAL,
                                    .go_on = goes_on,
                                    .argument = run };
    enum hf_status status = shelf_slot(shelf, view_of(shelf->partition), &slot, error);
    if (status == HF_OK)
        status = slot_show(slot, look_for_parent, &is_child, error);
    if (status == HF_OK && !is_child && !run->options->dry_run)
        status = tend_round(shelf, &options, &tended, error);
    run->report->outputs_condemned += tended.condemned;
    run->report->chunks_deleted += tended.deleted;
    run->report->names_dropped += tended.dropped;
    return status == HF_NOT_FOUND ? HF_OK : status; /* there is no catalog there */
}

static void tend_partition(struct sweep_run *run, struct view partition)
{
    struct shelf *shelf;
    struct hf_error error;
    enum hf_status status =
        shelf_open(run->client->store, run->client, partition, &shelf, &error);
    if (status == HF_OK) {
        status = tend_unless_child(run, shelf, &error);
        shelf_close(shelf);
    }
    run_note(run, partition, status, &error);
    snprintf(run->cursor->partition, sizeof run->cursor->partition, "%.*s",
             VIEW_ARGS(partition));
}

/* The partition that an entry of metadata/ shows; the default one stands there itself. */
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

/* Where a listing goes on behind the partition that was tended last. */
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
        for (size_t i = 0; i < pages.list.count && !run->stopped; i++)
            if (partition_of(&pages.list.entries[i], &partition) && run_next(run))
                tend_partition(run, partition);
    enum hf_status status = pages_end(&pages, HF_OK, error);
    if (status == HF_OK && !run->stopped)
        run->cursor->partition[0] = '\0';
    return status;
}
