/* SPDX-License-Identifier: Apache-2.0 */
/* fsck_objects.c: compares the listing of data/ with the catalogs, and finds objects that no
 * catalog names (orphans) and objects that should be gone. An orphan is condemned in its home
 * before it is deleted, because a slow client may be about to add it. */
#include "compact/fsck/fsck_inside.h"

#include "base/parse.h"

#include <stdio.h>
#include <stdlib.h>

/* How many orphans of one partition are checked again and condemned together. */
#define BATCH 64

struct fsck_orphans {
    struct view home; /* of the first key */
    size_t count;
    struct view keys[BATCH];
    char texts[BATCH][KEY_BYTES_MAX + 1];
    enum chunk_state states[BATCH];
    bool claimed[BATCH];
    bool homeless;
    bool unrepaired[BATCH]; /* reported only: no transition can condemn it */
    bool young[BATCH];      /* reported only if the partition has no catalog */
};

/* ---- Names --------------------------------------------------------------------------- */

/* Whether the key has the form of a chunk name:
 * data/<partition>/L<level>/<yyyy>/<mm>/<32 digits>.<ending>. */
static bool is_chunk_name(struct view key)
{
    struct view rest = view_from(key, strlen(LAYOUT_DATA_FOLDER));
    struct view partition = view_cut(&rest, '/');
    struct view level = view_cut(&rest, '/');
    struct view year = view_cut(&rest, '/');
    struct view month = view_cut(&rest, '/');
    struct view id = view_cut(&rest, '.');
    return view_starts_with(key, VIEW(LAYOUT_DATA_FOLDER)) &&
           layout_partition_valid(partition) && level.size > 1 && level.data[0] == 'L' &&
           text_is_decimal(view_from(level, 1), level.size - 1) && text_is_decimal(year, 4) &&
           text_is_decimal(month, 2) && text_is_hex(id, 32) && rest.size > 0 &&
           view_find(rest, '/') == rest.size;
}

/* ---- Orphans ------------------------------------------------------------------------- */

static void note_states(void *argument, const struct catalog *catalog,
                        const struct evidence *evidence)
{
    (void)evidence;
    struct fsck_orphans *orphans = argument;
    for (size_t i = 0; i < orphans->count; i++)
        orphans->states[i] = catalog_state(catalog, orphans->keys[i]);
}

/* Reads the home again. A key whose state cannot be determined counts as CHUNK_LIVE, so that it is
 * never deleted. */
static enum hf_status ask_home(struct fsck *fsck, struct fsck_orphans *orphans,
                               struct hf_error *error)
{
    const struct fsck_catalog *home = fsck_find(fsck, orphans->home);
    enum hf_status status = fsck_show(fsck, orphans->home, note_states, orphans, error);
    bool missed = home && home->state == FSCK_ABSENT;
    orphans->homeless = status == HF_NOT_FOUND && !missed;
    bool hidden = status == HF_NOT_FOUND ? missed : fsck_is_damage(status);
    if (hidden || orphans->homeless) {
        for (size_t i = 0; i < orphans->count; i++)
            orphans->states[i] = hidden ? CHUNK_LIVE : CHUNK_UNKNOWN;
        return error_clear(error);
    }
    if (status != HF_OK)
        return status;
    /* A moved key has its state in the catalog that holds it now. Its home records forever that the
     * key moved, so the key cannot be condemned there. */
    for (size_t i = 0; i < orphans->count; i++) {
        struct fsck_place place;
        if (orphans->states[i] != CHUNK_MOVED)
            continue;
        status = fsck_follow(fsck, orphans->home, orphans->keys[i], &place, error);
        if (status != HF_OK)
            return status;
        orphans->states[i] = place.hidden ? CHUNK_LIVE : place.state;
        orphans->unrepaired[i] = true;
    }
    return HF_OK;
}

/* Keeps the keys that are unknown and whose objects exist. Leases are read before the catalog: a
 * worker commits before it completes its lease, so its output is found in at least one of them. */
static enum hf_status recheck_orphans(struct fsck *fsck, struct fsck_orphans *orphans,
                                      struct hf_error *error)
{
    size_t kept = 0;
    enum hf_status status = fsck_claimed(fsck, orphans->home, orphans->keys, orphans->count,
                                         orphans->claimed, error);
    if (status == HF_OK)
        status = ask_home(fsck, orphans, error);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < orphans->count; i++) {
        bool there = false;
        /* A chunk that is being added has a catalog, which will list it. */
        if (orphans->young[i] && !orphans->homeless) {
            fsck->report->young++;
            continue;
        }
        if (orphans->states[i] == CHUNK_UNKNOWN && !orphans->claimed[i])
            status = fsck_object(fsck, orphans->keys[i], &there, NULL, error);
        if (status != HF_OK)
            return status;
        if (!there)
            continue;
        orphans->keys[kept] = orphans->keys[i];
        orphans->unrepaired[kept++] = orphans->unrepaired[i];
    }
    orphans->count = kept;
    return HF_OK;
}

/* Condemns them in their home in one swap. False, with the reason in `error`, if that fails. */
static bool condemn_orphans(struct fsck *fsck, struct fsck_orphans *orphans,
                            enum condemned condemned[BATCH], struct hf_error *error)
{
    struct view keys[BATCH];
    enum condemned answers[BATCH];
    size_t count = 0, asked = 0;
    for (size_t i = 0; i < orphans->count; i++)
        if (!orphans->unrepaired[i])
            keys[count++] = orphans->keys[i];
    struct catalog_op op = {
        .kind = CATALOG_CONDEMN,
        .keys = keys,
        .key_count = count,
        .blame = HF_COMPACT_BLAME_NOBODY,
        .ret_condemned = answers,
    };
    if (count == 0 || fsck_apply(fsck, orphans->home, &op, error) != HF_OK)
        return false;
    for (size_t i = 0; i < orphans->count; i++)
        condemned[i] = orphans->unrepaired[i] ? CONDEMN_HAPPENED : answers[asked++];
    return true;
}

static void report_orphan(struct fsck *fsck, const struct fsck_orphans *orphans, size_t i,
                          bool condemned)
{
    struct hf_error error;
    const char *repair = fsck_all_can_be_read(fsck)
                             ? "can be condemned and then deleted with " FSCK_BY_REPAIR
                             : "can be condemned once all catalogs can be read again";
    bool deleted = false;
    if (condemned)
        deleted = fsck_delete(fsck, orphans->keys[i], NULL, &error) == HF_OK;
    if (orphans->homeless)
        repair = "it may be data: restore the catalog, or add its chunks to a new partition "
                 "with 'holdfast compact ingest' (docs/recovery.md)";
    else if (orphans->unrepaired[i])
        repair = "it is a chunk that was deleted before: delete it with 'holdfast store rm "
                 "--force'";
    else if (condemned)
        repair = deleted ? "condemned and deleted" : "condemned; the next worker deletes it";
    else if (fsck->options->repair && fsck_all_can_be_read(fsck))
        repair = "could not be condemned: check again later";
    fsck_report_finding(fsck, HF_FSCK_UNREFERENCED, orphans->keys[i], orphans->home,
                        orphans->homeless ? "its partition has no catalog"
                                          : "no catalog names it",
                        (struct fsck_repair){ repair, condemned });
}

static enum hf_status check_orphans(struct fsck *fsck, struct hf_error *error)
{
    struct fsck_orphans *orphans = fsck->orphans;
    enum condemned condemned[BATCH];
    struct hf_error why;
    if (orphans->count == 0)
        return HF_OK;
    enum hf_status status = recheck_orphans(fsck, orphans, error);
    bool done = status == HF_OK && orphans->count > 0 && fsck->options->repair &&
                fsck_all_can_be_read(fsck) && !orphans->homeless &&
                condemn_orphans(fsck, orphans, condemned, &why);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < orphans->count; i++)
        if (!done)
            report_orphan(fsck, orphans, i, false);
        else if (orphans->unrepaired[i] || condemned[i] == CONDEMN_DONE)
            report_orphan(fsck, orphans, i, !orphans->unrepaired[i]);
    orphans->count = 0;
    return HF_OK;
}

static enum hf_status add_orphan(struct fsck *fsck, const struct list_entry *entry, bool young,
                                 struct hf_error *error)
{
    struct fsck_orphans *orphans = fsck->orphans;
    enum hf_status status = HF_OK;
    bool other = orphans->count > 0 && !view_equal(layout_home(entry->key), orphans->home);
    if (other || orphans->count == BATCH)
        status = check_orphans(fsck, error);
    if (status != HF_OK)
        return status;
    size_t i = orphans->count++;
    snprintf(orphans->texts[i], sizeof orphans->texts[i], "%.*s", VIEW_ARGS(entry->key));
    orphans->keys[i] = view_of(orphans->texts[i]);
    orphans->unrepaired[i] = false;
    orphans->young[i] = young;
    if (i == 0)
        orphans->home = layout_home(orphans->keys[0]);
    return HF_OK;
}

/* ---- Objects that should be gone ----------------------------------------------------- */

static enum hf_status check_foreign(struct fsck *fsck, struct view key, struct hf_error *error)
{
    bool there;
    enum hf_status status = fsck_object(fsck, key, &there, NULL, error);
    if (status == HF_OK && there)
        fsck_report_finding(fsck, HF_FSCK_FOREIGN, key, layout_home(key),
                            "its name is not a chunk name",
                            fsck_advice("move it out of " LAYOUT_DATA_FOLDER
                                        " with 'holdfast store cp' and 'holdfast store rm "
                                        "--force', and add it with 'holdfast compact adopt'"));
    return status;
}

/* The object exists although it was deleted: an abandoned put took effect late. */
static enum hf_status check_lingering(struct fsck *fsck, const struct fsck_name *name,
                                      struct hf_error *error)
{
    struct fsck_place place;
    bool there;
    struct fsck_repair repair = fsck_advice("can be deleted again with " FSCK_BY_REPAIR);
    enum hf_status status =
        fsck_follow(fsck, name->catalog->partition, name->key, &place, error);
    bool deleting = place.state == CHUNK_RETIRED || place.state == CHUNK_CONDEMNED;
    if (status != HF_OK || place.hidden || !deleting || !place.done)
        return status;
    status = fsck_object(fsck, name->key, &there, NULL, error);
    if (status != HF_OK || !there)
        return status;
    if (fsck->options->repair) {
        struct hf_error why;
        repair.done = fsck_delete(fsck, name->key, NULL, &why) == HF_OK;
        repair.text = repair.done ? "deleted again" : "could not be deleted: check again later";
    }
    fsck_report_finding(fsck, HF_FSCK_LINGERING, name->key, view_of(place.partition),
                        place.state == CHUNK_RETIRED
                            ? "it was merged or it expired, and was then deleted"
                            : "it was condemned and deleted",
                        repair);
    return HF_OK;
}

/* ---- The listing --------------------------------------------------------------------- */

static enum hf_status note_object(struct fsck *fsck, const struct list_entry *entry,
                                  struct hf_error *error)
{
    struct fsck_name *name = fsck_name(fsck, entry->key);
    const struct fsck_name *end = name ? fsck->names + fsck->name_count : NULL;
    const struct fsck_catalog *home = fsck_find(fsck, layout_home(entry->key));
    if (fsck->root.size > 0 && !(home && home->in_scope))
        return HF_OK; /* one partition is checked, and this object has its home elsewhere */
    fsck->report->objects++;
    for (struct fsck_name *each = name; each != end; each++) {
        if (!view_equal(each->key, entry->key))
            break;
        each->seen = true;
        each->found_size = entry->info.size;
    }
    if (!name && !is_chunk_name(entry->key))
        return check_foreign(fsck, entry->key, error);
    if (!name || name->state == CHUNK_MOVED) {
        bool young = fsck_age_of(fsck, entry->info.modified).us < fsck->age.us;
        bool has_catalog = home && home->state != FSCK_UNREAD;
        if (!young || !has_catalog)
            return add_orphan(fsck, entry, young, error);
        fsck->report->young++;
        return HF_OK;
    }
    bool deleting = name->state == CHUNK_RETIRED || name->state == CHUNK_CONDEMNED;
    return deleting && name->done ? check_lingering(fsck, name, error) : HF_OK;
}

static enum hf_status list_all(struct fsck *fsck, struct hf_error *error)
{
    const struct fsck_catalog *standard = fsck_find(fsck, VIEW(LAYOUT_PARTITION_DEFAULT));
    if (fsck->root.size == 0 || (standard && standard->in_scope))
        return fsck_list(fsck, VIEW(LAYOUT_DATA_FOLDER), note_object, error);
    for (size_t i = 0; i < fsck->catalog_count; i++) {
        char prefix[sizeof LAYOUT_DATA_FOLDER + PARTITION_BYTES_MAX + 1];
        if (!fsck->catalogs[i]->in_scope)
            continue;
        snprintf(prefix, sizeof prefix, LAYOUT_DATA_FOLDER "%.*s/",
                 VIEW_ARGS(fsck->catalogs[i]->partition));
        enum hf_status status = fsck_list(fsck, view_of(prefix), note_object, error);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

enum hf_status fsck_objects(struct fsck *fsck, struct hf_error *error)
{
    fsck->orphans = calloc(1, sizeof *fsck->orphans);
    if (!fsck->orphans)
        return error_no_memory(error);
    enum hf_status status = list_all(fsck, error);
    if (status == HF_OK)
        status = check_orphans(fsck, error);
    free(fsck->orphans);
    fsck->orphans = NULL;
    return status;
}
