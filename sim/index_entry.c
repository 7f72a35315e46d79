/* index_entry.c: the inbox as its judge sees it: which entry holds what, what was folded or set
 * aside when it went, and what other programs have written over each other. */
#include "sim/index_judge.h"

#include <stdlib.h>

#define ENTRY_END        ".usv"
#define RECORD_SEPARATOR '\x1e'

/* ---- Names ----------------------------------------------------------------------------- */

static struct judged_key *key_of_name(struct judge_index *judge, struct view name)
{
    for (size_t i = 0; i < judge->key_count; i++)
        if (view_equal(view_of(judge->keys[i].name), name) ||
            view_equal(judge->keys[i].text, name))
            return &judge->keys[i];
    return NULL;
}

/* YYYYMMDDTHHMMSS[.fraction]-<32 digits> */
static bool is_time_and_nonce(struct view text)
{
    struct view time = view_cut(&text, '-');
    struct view whole = view_cut(&time, '.');
    return whole.size == 15 && whole.data[8] == 'T' && text.size == NONCE_SIZE;
}

/* [inbox/[<xx>/]]<name>[~<time>-<nonce>].usv */
static void read_name(struct judge_index *judge, struct judged_object *object)
{
    struct view name = view_of(object->rest);
    struct view folder = VIEW("");
    if (!view_ends_with(name, VIEW(ENTRY_END)))
        return;
    name = view_first(name, name.size - strlen(ENTRY_END));
    if (view_starts_with(name, VIEW("inbox/")))
        name = view_from(name, strlen("inbox/"));
    if (view_find(name, '/') < name.size)
        folder = view_cut(&name, '/');
    struct view end = name;
    struct judged_key *key = key_of_name(judge, view_cut(&end, '~'));
    bool in_place = folder.size == 0 || (key && view_equal(folder, view_of(key->shard)));
    bool dated = view_find(name, '~') < name.size;
    if (!in_place || (dated && !is_time_and_nonce(end)))
        return;
    object->key = key;
    object->ours = dated;
}

static struct judged_object *object_of(struct judge_index *judge, struct view rest)
{
    struct judged_object *object = map_get(&judge->objects, rest);
    if (object)
        return object;
    object = judged_new(judge, sizeof *object);
    object->rest = judged_keep_bytes(judge, rest).data;
    read_name(judge, object);
    object->next = judge->first_object;
    judge->first_object = object;
    judged_put_into(&judge->objects, view_of(object->rest), object);
    return object;
}

/* ---- What they hold -------------------------------------------------------------------- */

/* All records must be of the key that the name tells; the latest counts. */
static void read_version(struct judge_index *judge, const struct judged_object *object,
                         struct judged_entry_version *version)
{
    struct view rest = version->bytes;
    while (rest.size > 0) {
        size_t end = 0;
        while (end < rest.size && rest.data[end] != '\n' && rest.data[end] != RECORD_SEPARATOR)
            end++;
        struct view bytes = view_first(rest, end);
        rest = view_from(rest, end + 1);
        if (bytes.size == 0)
            continue;
        struct judged_record *record = judged_record_of(judge, bytes);
        if (!record || record->key != object->key) {
            version->record = NULL;
            return;
        }
        if (record->fields > version->fields)
            version->fields = record->fields;
        if (!version->record || judged_compare(record, version->record) > 0)
            version->record = record;
    }
}

/* The id under which this version would be set aside. */
static void name_aside(struct judge_index *judge, const struct judged_object *object,
                       struct judged_entry_version *version)
{
    char text[KEY_BYTES_MAX + 1 + ETAG_BYTES_MAX];
    size_t size = (size_t)snprintf(text, sizeof text, "%s%s", judge->folder, object->rest) + 1;
    memcpy(text + size, version->etag.data, version->etag.size);
    judged_hex((struct view){ text, size + version->etag.size }, JUDGED_ID_SIZE, version->id);
}

static struct judged_entry_version *version_of(struct judge_index *judge,
                                               struct judged_object *object,
                                               const struct bucket_change *change)
{
    for (struct judged_entry_version *version = object->versions; version;
         version = version->next)
        if (etag_equal(&version->etag, &change->etag))
            return version;
    struct judged_entry_version *version = judged_new(judge, sizeof *version);
    version->etag = change->etag;
    version->bytes = judged_keep_bytes(judge, change->body);
    read_version(judge, object, version);
    name_aside(judge, object, version);
    version->next = object->versions;
    object->versions = version;
    judged_put_into(&judge->versions, view_of(version->id), version);
    return version;
}

/* ---- What is kept ---------------------------------------------------------------------- */

uint64_t judged_kept(const struct judged_record *record)
{
    uint64_t kept = record->folded;
    for (const struct judged_hold *hold = record->holds; hold; hold = hold->next)
        if (kept == 0 || hold->since < kept)
            kept = hold->since;
    return kept;
}

static void hold(struct judge_index *judge, struct judged_record *record,
                 const struct judged_object *object)
{
    if (record->folded > 0)
        return;
    for (const struct judged_hold *known = record->holds; known; known = known->next)
        if (known->object == object)
            return;
    struct judged_hold *added = judged_new(judge, sizeof *added);
    *added = (struct judged_hold){ record->holds, object, judge->changes };
    record->holds = added;
}

/* The name has this record from now on (NULL: none): all that are later and that it held are lost
 * with it, unless the shard has them, also those that were written over by a later one before. */
static void let_go(const struct judged_object *object, const struct judged_record *now)
{
    const struct judged_key *key = object->key;
    for (size_t i = 0; key && i < key->record_count; i++) {
        if (now && judged_compare(key->records[i], now) <= 0)
            continue;
        struct judged_hold **link = &key->records[i]->holds;
        while (*link && (*link)->object != object)
            link = &(*link)->next;
        if (*link)
            *link = (*link)->next;
    }
}

/* Who listed an entry that held an older one looks into the shard once that entry has changed: so
 * what was kept stays so. */
void judged_fold(struct judge_index *judge, struct judged_record *record)
{
    struct judged_key *key = record->key;
    for (size_t i = 0; i < key->record_count; i++) {
        struct judged_record *older = key->records[i];
        if (judged_compare(older, record) > 0)
            continue;
        older->folded = judged_kept(older);
        older->holds = NULL;
    }
    if (record->folded == 0)
        record->folded = judge->changes;
    record->ever = true;
    key->in_shard = record;
}

/* ---- Changes --------------------------------------------------------------------------- */

static struct judged_aside *aside_of(const struct judge_index *judge, const char *id)
{
    for (struct judged_aside *aside = judge->asides; aside; aside = aside->next)
        if (strcmp(aside->id, id) == 0)
            return aside;
    return NULL;
}

static void judge_cleared(struct judge_index *judge, const struct judged_object *object)
{
    const struct judged_entry_version *version = object->now;
    const struct judged_aside *aside = aside_of(judge, version->id);
    const struct judged_record *record = version->record;
    bool folded =
        record && record->key->in_shard && judged_compare(record->key->in_shard, record) >= 0;
    if (!folded && !(aside && aside->copied && aside->explained))
        world_fail(index_world(judge),
                   "%s is cleared away, and its record is neither in the shard nor aside",
                   object->rest);
}

void judge_entry_changed(struct judge_index *judge, struct view rest,
                         const struct bucket_change *change)
{
    struct judged_object *object = object_of(judge, rest);
    if (change->body.size == 0) {
        if (object->now)
            judge_cleared(judge, object);
        object->now = NULL;
        let_go(object, NULL);
        return;
    }
    struct judged_entry_version *version = object->now = version_of(judge, object, change);
    if (!version->record || version->fields > judge->fields)
        version->was_bad = true;
    if (version->record)
        version->record->ever = true;
    struct judged_record *readable = version->was_bad ? NULL : version->record;
    let_go(object, readable);
    if (readable)
        hold(judge, readable, object);
}

static struct judged_aside *aside_new(struct judge_index *judge, struct view id)
{
    struct judged_aside *aside = judged_new(judge, sizeof *aside);
    memcpy(aside->id, id.data, id.size);
    aside->next = judge->asides;
    judge->asides = aside;
    return aside;
}

static void judge_set_aside(struct judge_index *judge, const char *id, struct view bytes)
{
    const struct judged_entry_version *version = map_get(&judge->versions, view_of(id));
    if (!version)
        world_fail(index_world(judge), "aside/%s is of no entry that was ever put", id);
    else if (!view_equal(version->bytes, bytes))
        world_fail(index_world(judge), "aside/%s is not what its entry was", id);
    else if (!version->was_bad)
        world_fail(index_world(judge), "aside/%s could be read when it was written: %s", id,
                   trace_text(bytes).text);
}

/* <id>.usv, <id>.json */
void judge_aside_changed(struct judge_index *judge, struct view name,
                         const struct bucket_change *change)
{
    struct view id = view_cut(&name, '.');
    char text[JUDGED_ID_SIZE + 1] = "";
    if (id.size != JUDGED_ID_SIZE || !change->body.data) {
        world_fail(index_world(judge), "aside/%s is deleted, or is no name",
                   trace_text(id).text);
        return;
    }
    memcpy(text, id.data, id.size);
    struct judged_aside *aside = aside_of(judge, text);
    if (!aside)
        aside = aside_new(judge, id);
    if (view_equal(name, VIEW("usv"))) {
        judge_set_aside(judge, text, change->body);
        aside->copied = true;
    } else {
        aside->explained = true;
    }
}
