/* fsck_objects.c: the listing of data/ beside what the catalogs know: objects that nobody knows,
 * and objects that should be gone. */
#include "compact/fsck_inside.h"

#include "base/parse.h"

#include <stdio.h>
#include <stdlib.h>

/* Objects of one home that nobody knows are looked at again, and condemned, so many at a time. */
#define BATCH 64

struct fsck_orphans {
    struct view home; /* of the first key */
    size_t count;
    struct view keys[BATCH];
    char texts[BATCH][KEY_BYTES_MAX + 1];
    enum chunk_state states[BATCH];
    bool claimed[BATCH];
    bool homeless;
    bool unrepaired[BATCH]; /* told as it is: no transition can condemn it */
};

/* ---- Names --------------------------------------------------------------------------- */

/* Whether it is a name that we give: data/<partition>/L<level>/<yyyy>/<mm>/<32 digits>.<ending>. */
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

/* ---- What nobody knows --------------------------------------------------------------- */

static void note_states(void *argument, const struct catalog *catalog,
                        const struct evidence *evidence)
{
    (void)evidence;
    struct fsck_orphans *orphans = argument;
    for (size_t i = 0; i < orphans->count; i++)
        orphans->states[i] = catalog_state(catalog, orphans->keys[i]);
}

/* One that was split off: whoever has it now says. Its home answers that it moved, for ever: so
 * it cannot be condemned there. */
static enum hf_status follow_moved(struct fsck *fsck, struct fsck_orphans *orphans, size_t i,
                                   struct hf_error *error)
{
    struct fsck_place place;
    enum hf_status status = fsck_follow(fsck, orphans->home, orphans->keys[i], &place, error);
    if (status != HF_OK)
        return status;
    orphans->states[i] = place.hidden ? CHUNK_LIVE : place.state;
    orphans->unrepaired[i] = true;
    return HF_OK;
}

/* Asks the home again for each: states, or CHUNK_LIVE for what may be known for all we know. */
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
    for (size_t i = 0; i < orphans->count && status == HF_OK; i++)
        if (orphans->states[i] == CHUNK_MOVED)
            status = follow_moved(fsck, orphans, i, error);
    return status;
}

/* Leaves those that really are unknown, and there. First the leases: who has one puts and
 * commits under it, and completes it after the commit. */
static enum hf_status look_again(struct fsck *fsck, struct fsck_orphans *orphans,
                                 struct hf_error *error)
{
    size_t kept = 0;
    enum hf_status status = fsck_claimed(fsck, orphans->home, orphans->keys, orphans->count,
                                         orphans->claimed, error);
    if (status == HF_OK)
        status = ask_home(fsck, orphans, error);
    for (size_t i = 0; i < orphans->count && status == HF_OK; i++) {
        bool there = false;
        if (orphans->states[i] == CHUNK_UNKNOWN && !orphans->claimed[i])
            status = fsck_object(fsck, orphans->keys[i], &there, NULL, error);
        if (!there)
            continue;
        orphans->keys[kept] = orphans->keys[i];
        orphans->unrepaired[kept++] = orphans->unrepaired[i];
    }
    orphans->count = kept;
    return status;
}

/* Condemns them at home, in one swap. False, with the reason, when that could not be done. */
static bool condemn(struct fsck *fsck, struct fsck_orphans *orphans,
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
        .blame = BLAME_NOBODY,
        .ret_condemned = answers,
    };
    if (count == 0 || fsck_apply(fsck, orphans->home, &op, error) != HF_OK)
        return false;
    for (size_t i = 0; i < orphans->count; i++)
        condemned[i] = orphans->unrepaired[i] ? CONDEMN_HAPPENED : answers[asked++];
    return true;
}

static void tell_orphan(struct fsck *fsck, const struct fsck_orphans *orphans, size_t i,
                        bool condemned)
{
    struct hf_error error;
    const char *repair = fsck_all_can_be_read(fsck)
                             ? "can be condemned, and deleted then"
                             : "can be condemned, once all catalogs can be read again";
    bool deleted = false;
    if (condemned)
        deleted = fsck_delete(fsck, orphans->keys[i], NULL, &error) == HF_OK;
    if (orphans->homeless)
        repair = "nobody can say that it is no data: look at it, and delete it by hand";
    else if (orphans->unrepaired[i])
        repair = "it was data once, and was deleted: delete it by hand";
    else if (condemned)
        repair = deleted ? "condemned and deleted" : "condemned; whoever compacts deletes it";
    else if (fsck->options->repair && fsck_all_can_be_read(fsck))
        repair = "could not be condemned: look again later";
    fsck_tell(fsck, FSCK_UNREFERENCED, orphans->keys[i], orphans->home,
              orphans->homeless ? "its partition has no catalog" : "no catalog knows it",
              condemned, repair);
}

static enum hf_status flush(struct fsck *fsck, struct hf_error *error)
{
    struct fsck_orphans *orphans = fsck->orphans;
    enum condemned condemned[BATCH];
    struct hf_error why;
    if (orphans->count == 0)
        return HF_OK;
    enum hf_status status = look_again(fsck, orphans, error);
    bool done = status == HF_OK && orphans->count > 0 && fsck->options->repair &&
                fsck_all_can_be_read(fsck) && !orphans->homeless &&
                condemn(fsck, orphans, condemned, &why);
    for (size_t i = 0; i < orphans->count && status == HF_OK; i++)
        if (!done)
            tell_orphan(fsck, orphans, i, false);
        else if (orphans->unrepaired[i] || condemned[i] == CONDEMN_DONE)
            tell_orphan(fsck, orphans, i, !orphans->unrepaired[i]);
    orphans->count = 0;
    return status;
}

static enum hf_status add_orphan(struct fsck *fsck, const struct list_entry *entry,
                                 struct hf_error *error)
{
    struct fsck_orphans *orphans = fsck->orphans;
    enum hf_status status = HF_OK;
    bool other = orphans->count > 0 && !view_equal(layout_home(entry->key), orphans->home);
    if (other || orphans->count == BATCH)
        status = flush(fsck, error);
    if (status != HF_OK)
        return status;
    size_t i = orphans->count++;
    snprintf(orphans->texts[i], sizeof orphans->texts[i], "%.*s", VIEW_ARGS(entry->key));
    orphans->keys[i] = view_of(orphans->texts[i]);
    orphans->unrepaired[i] = false;
    if (i == 0)
        orphans->home = layout_home(orphans->keys[0]);
    return HF_OK;
}

/* ---- What should not be there -------------------------------------------------------- */

static enum hf_status check_foreign(struct fsck *fsck, struct view key, struct hf_error *error)
{
    bool there;
    enum hf_status status = fsck_object(fsck, key, &there, NULL, error);
    if (status == HF_OK && there)
        fsck_tell(fsck, FSCK_FOREIGN, key, layout_home(key), "it has no name of a chunk", false,
                  "ingest it, or move it out of " LAYOUT_DATA_FOLDER);
    return status;
}

/* Deleted for good, and there: a put that was given up on has landed late. */
static enum hf_status check_lingering(struct fsck *fsck, const struct fsck_name *name,
                                      struct hf_error *error)
{
    struct fsck_place place;
    bool there, repaired = false;
    const char *repair = "can be deleted again";
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
        repaired = fsck_delete(fsck, name->key, NULL, &why) == HF_OK;
        repair = repaired ? "deleted again" : "could not be deleted: look again later";
    }
    fsck_tell(fsck, FSCK_LINGERING, name->key, view_of(place.partition),
              place.state == CHUNK_RETIRED ? "it was merged or expired, and deleted"
                                           : "it was condemned and deleted",
              repaired, repair);
    return HF_OK;
}

/* ---- The listing --------------------------------------------------------------------- */

/* Of a whole bucket everything is ours to look at, of one partition what has its home there. */
static bool is_ours(const struct fsck *fsck, struct view key)
{
    const struct fsck_catalog *home = fsck_find(fsck, layout_home(key));
    return fsck->root.size == 0 || (home && home->in_scope);
}

static enum hf_status note_object(struct fsck *fsck, const struct list_entry *entry,
                                  struct hf_error *error)
{
    struct fsck_name *name = fsck_name(fsck, entry->key);
    const struct fsck_name *end = name ? fsck->names + fsck->name_count : NULL;
    if (!is_ours(fsck, entry->key))
        return HF_OK;
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
        if (fsck_age_of(fsck, entry->info.modified).us >= fsck->age.us)
            return add_orphan(fsck, entry, error);
        fsck->report->young++;
        return HF_OK;
    }
    bool deleting = name->state == CHUNK_RETIRED || name->state == CHUNK_CONDEMNED;
    return deleting && name->done ? check_lingering(fsck, name, error) : HF_OK;
}

static bool lists_everything(const struct fsck *fsck)
{
    const struct fsck_catalog *standard = fsck_find(fsck, VIEW(LAYOUT_PARTITION_DEFAULT));
    return fsck->root.size == 0 || (standard && standard->in_scope);
}

static enum hf_status list_all(struct fsck *fsck, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (lists_everything(fsck))
        return fsck_list(fsck, VIEW(LAYOUT_DATA_FOLDER), note_object, error);
    for (size_t i = 0; i < fsck->catalog_count && status == HF_OK; i++) {
        char prefix[sizeof LAYOUT_DATA_FOLDER + PARTITION_BYTES_MAX + 1];
        if (!fsck->catalogs[i]->in_scope)
            continue;
        snprintf(prefix, sizeof prefix, LAYOUT_DATA_FOLDER "%.*s/",
                 VIEW_ARGS(fsck->catalogs[i]->partition));
        status = fsck_list(fsck, view_of(prefix), note_object, error);
    }
    return status;
}

enum hf_status fsck_objects(struct fsck *fsck, struct hf_error *error)
{
    fsck->orphans = calloc(1, sizeof *fsck->orphans);
    if (!fsck->orphans)
        return error_no_memory(error);
    enum hf_status status = list_all(fsck, error);
    if (status == HF_OK)
        status = flush(fsck, error);
    free(fsck->orphans);
    fsck->orphans = NULL;
    return status;
}
