/* fsck.c: the order in which a bucket is looked through, and how findings are told. */
#include "compact/fsck.h"

#include "compact/fsck_inside.h"

#include <stdlib.h>

#define AGE_DEFAULT SPAN_S(3600)

/* ---- Kinds --------------------------------------------------------------------------- */

const char *fsck_kind_name(enum fsck_kind kind)
{
#define NAME(name, word, about) word,
    static const char *const names[] = { FSCK_KIND_TABLE(NAME) };
#undef NAME
    return (unsigned)kind < FSCK_KIND_COUNT ? names[kind] : "unknown";
}

const char *fsck_kind_about(enum fsck_kind kind)
{
#define ABOUT(name, word, about) about,
    static const char *const abouts[] = { FSCK_KIND_TABLE(ABOUT) };
#undef ABOUT
    return (unsigned)kind < FSCK_KIND_COUNT ? abouts[kind] : "";
}

/* ---- Telling ------------------------------------------------------------------------- */

void fsck_tell(struct fsck *fsck, enum fsck_kind kind, struct view key, struct view partition,
               const char *why, bool repaired, const char *repair)
{
    struct fsck_finding finding = {
        .kind = kind,
        .key = key,
        .partition = partition,
        .why = why,
        .repaired = repaired,
        .repair = repair,
    };
    fsck->report->findings[kind]++;
    fsck->report->found++;
    if (repaired)
        fsck->report->repaired++;
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

/* ---- Ages ---------------------------------------------------------------------------- */

static struct span since(struct wall_time now, struct wall_time modified)
{
    return wall_before(modified, now) ? wall_since(now, modified) : SPAN_US(0);
}

struct span fsck_proven_age(const struct fsck *fsck, struct wall_time modified)
{
    return since(fsck->dated.us > 0 ? fsck->dated : fsck->newest, modified);
}

/* A local store dates its objects by the calendar of its machine, and nothing there may be newer
 * than what we ask about; so there that calendar is asked too. If it is wrong, an object is
 * condemned that somebody was about to add, who is told and puts it anew. */
struct span fsck_age_of(const struct fsck *fsck, struct wall_time modified)
{
    struct span age = fsck_proven_age(fsck, modified);
    if (fsck->store->traits.clock == STORE_CLOCK_BOOT) {
        struct span local = since(env_wall(fsck->env), modified);
        age = local.us > age.us ? local : age;
    }
    return age;
}

/* ---- All of it ----------------------------------------------------------------------- */

/* Leases are looked at before and after all the rest, so that what somebody is just about to
 * settle is not told; and the outputs that they name have somebody who answers for them. */
static enum hf_status look_through(struct fsck *fsck, struct hf_error *error)
{
    static enum hf_status (*const parts[])(struct fsck *, struct hf_error *) = {
        fsck_catalogs, fsck_leases_first, fsck_names,
        fsck_objects,  fsck_chunks,       fsck_leases_again,
    };
    enum hf_status status = fsck_go_on(fsck, error);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == HF_OK; i++)
        status = parts[i](fsck, error);
    return status;
}

enum hf_status fsck_run(struct store *store, struct hf_client *client, struct view partition,
                        const struct fsck_options *options, struct fsck_report *ret_report,
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
    *ret_report = (struct fsck_report){ 0 };
    error_clear(error);
    if (partition.size > 0 && !layout_partition_valid(partition))
        return error_set(error, HF_INVALID, "'%.*s' is no name of a partition",
                         VIEW_ARGS(view_first(partition, 80)));
    client_active(client);
    enum hf_status status = look_through(&fsck, error);
    map_release(&fsck.by_partition);
    free(fsck.catalogs);
    free(fsck.names);
    arena_release(&fsck.arena);
    return status;
}
