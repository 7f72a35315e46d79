/* SPDX-License-Identifier: Apache-2.0 */
/* fsck.c: determines the order in which a bucket is checked, and reports findings. Clients may
 * change the bucket during the check, so nothing is reported or repaired after a single read. */
#include "compact/fsck/fsck.h"

#include "compact/fsck/fsck_inside.h"

#include <stdlib.h>

#define AGE_DEFAULT SPAN_S(3600)

void fsck_report_finding(struct fsck *fsck, enum hf_fsck_kind kind, struct view key,
                         struct view partition, const char *why, struct fsck_repair repair)
{
    struct fsck_finding finding = {
        .kind = kind,
        .key = key,
        .partition = partition,
        .why = why,
        .repaired = repair.done,
        .repair = repair.text,
    };
    fsck->report->found++;
    fsck->report->repaired += repair.done;
    if (fsck->options->tell)
        fsck->options->tell(fsck->options->argument, &finding);
}

enum hf_status fsck_go_on(struct fsck *fsck, struct hf_error *error)
{
    const struct fsck_options *options = fsck->options;
    if (!options->go_on || options->go_on(options->argument, fsck->chunks_done,
                                          fsck->chunks_total, fsck->report->bytes_read))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped");
}

static struct span wall_age(struct wall_time now, struct wall_time modified)
{
    return wall_before(modified, now) ? wall_since(now, modified) : SPAN_US(0);
}

/* Without the store's date, the times are those of wall clocks of machines, which may have been set
 * since then. They prove nothing. */
struct span fsck_proven_age(const struct fsck *fsck, struct wall_time modified)
{
    return fsck->dated.us > 0 ? wall_age(fsck->dated, modified) : SPAN_US(0);
}

/* On a local store this object may be the newest one, and then the times in the store do not give
 * its age. The objects of a local store are dated by the machine's wall clock, so that clock is
 * used too. If it is wrong, fsck may condemn an object that a client is about to add. The add is
 * then refused, and the client puts the object again under a new name. */
struct span fsck_age_of(const struct fsck *fsck, struct wall_time modified)
{
    struct span age = wall_age(fsck->dated.us > 0 ? fsck->dated : fsck->newest, modified);
    if (fsck->store->traits.clock == STORE_CLOCK_BOOT) {
        struct span local = wall_age(env_wall(fsck->env), modified);
        age = local.us > age.us ? local : age;
    }
    return age;
}

enum hf_status fsck_run(struct store *store, struct hf_client *client, struct view partition,
                        const struct fsck_options *options, struct hf_fsck_report *ret_report,
                        struct hf_error *error)
{
    struct fsck fsck = {
        .env = store->env,
        .store = store,
        .client = client,
        .options = options,
        .report = ret_report,
        .age = options->age.us > 0 ? options->age : AGE_DEFAULT,
        .root = partition,
        .arena = ARENA_INIT,
        .by_partition = MAP_INIT,
    };
    *ret_report = HF_FSCK_REPORT;
    error_clear(error);
    if (partition.size > 0 && !layout_partition_valid(partition))
        return error_set(error, HF_INVALID, "invalid partition name '%.*s'",
                         VIEW_ARGS(view_first(partition, 80)));
    client_active(client);
    /* Leases are read once before the objects are listed and again at the end, so that a lease that
     * is settled in the meantime is not reported. */
    static enum hf_status (*const parts[])(struct fsck *, struct hf_error *) = {
        fsck_catalogs, fsck_adopted, fsck_leases_first, fsck_names,
        fsck_objects,  fsck_chunks,  fsck_leases_again,
    };
    enum hf_status status = fsck_go_on(&fsck, error);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (status == HF_OK)
            status = parts[i](&fsck, error);
    map_release(&fsck.by_partition);
    free(fsck.catalogs);
    free(fsck.names);
    arena_release(&fsck.arena);
    return status;
}
