/* SPDX-License-Identifier: Apache-2.0 */
/* index_entry.c: the checker's view of the inbox. It tracks the contents of each entry, whether its
 * record had been folded or set aside when the entry was removed, and which entries other programs
 * have overwritten themselves. */
#include "sim/checkers/index_inside.h"

#include <stdlib.h>

#define ENTRY_END        ".usv"
#define RECORD_SEPARATOR '\x1e'

/* ---- Names ----------------------------------------------------------------------------- */

static struct checked_key *key_of_name(struct index_checker *checker, struct view name)
{
    for (size_t i = 0; i < checker->key_count; i++)
        if (view_equal(view_of(checker->keys[i].name), name) ||
            view_equal(checker->keys[i].text, name))
            return &checker->keys[i];
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
static void read_name(struct index_checker *checker, struct checked_object *object)
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
    struct checked_key *key = key_of_name(checker, view_cut(&end, '~'));
    bool in_place = folder.size == 0 || (key && view_equal(folder, view_of(key->shard)));
    bool dated = view_find(name, '~') < name.size;
    if (!in_place || (dated && !is_time_and_nonce(end)))
        return;
    object->key = key;
    object->ours = dated;
}

static struct checked_object *object_of(struct index_checker *checker, struct view rest)
{
    struct checked_object *object = map_get(&checker->objects, rest);
    if (object)
        return object;
    object = checked_new(checker, sizeof *object);
    object->rest = checked_keep_bytes(checker, rest).data;
    read_name(checker, object);
    object->next = checker->first_object;
    checker->first_object = object;
    checked_put_into(&checker->objects, view_of(object->rest), object);
    return object;
}

/* ---- Contents -------------------------------------------------------------------------- */

/* All records must have the key that the entry's name contains; the latest record counts. */
static void read_version(struct index_checker *checker, const struct checked_object *object,
                         struct checked_entry_version *version)
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
        struct checked_record *record = checked_record_of(checker, bytes);
        if (!record || record->key != object->key) {
            version->record = NULL;
            return;
        }
        if (record->fields > version->fields)
            version->fields = record->fields;
        if (!version->record || checked_compare(record, version->record) > 0)
            version->record = record;
    }
}

/* The id under which this version would be set aside. */
static void name_aside(struct index_checker *checker, const struct checked_object *object,
                       struct checked_entry_version *version)
{
    char text[KEY_BYTES_MAX + 1 + ETAG_BYTES_MAX];
    size_t size =
        (size_t)snprintf(text, sizeof text, "%s%s", checker->folder, object->rest) + 1;
    memcpy(text + size, version->etag.data, version->etag.size);
    checked_hex((struct view){ text, size + version->etag.size }, CHECKED_ID_SIZE, version->id);
}

static struct checked_entry_version *version_of(struct index_checker *checker,
                                                struct checked_object *object,
                                                const struct bucket_change *change)
{
    for (struct checked_entry_version *version = object->versions; version;
         version = version->next)
        if (etag_equal(&version->etag, &change->etag))
            return version;
    struct checked_entry_version *version = checked_new(checker, sizeof *version);
    version->etag = change->etag;
    version->bytes = checked_keep_bytes(checker, change->body);
    read_version(checker, object, version);
    name_aside(checker, object, version);
    version->next = object->versions;
    object->versions = version;
    checked_put_into(&checker->versions, view_of(version->id), version);
    return version;
}

/* ---- What is kept ---------------------------------------------------------------------- */

uint64_t checked_kept(const struct checked_record *record)
{
    uint64_t kept = record->folded;
    for (const struct checked_hold *hold = record->holds; hold; hold = hold->next)
        if (kept == 0 || hold->since < kept)
            kept = hold->since;
    return kept;
}

static void hold(struct index_checker *checker, struct checked_record *record,
                 const struct checked_object *object)
{
    if (record->folded > 0)
        return;
    for (const struct checked_hold *known = record->holds; known; known = known->next)
        if (known->object == object)
            return;
    struct checked_hold *added = checked_new(checker, sizeof *added);
    *added = (struct checked_hold){ record->holds, object, checker->changes };
    record->holds = added;
}

/* Records that from now on the name contains this record (NULL: none). All later records that the
 * name contained are lost, unless the shard has them. This includes records that a later record had
 * already overwritten. */
static void let_go(const struct checked_object *object, const struct checked_record *now)
{
    const struct checked_key *key = object->key;
    for (size_t i = 0; key && i < key->record_count; i++) {
        if (now && checked_compare(key->records[i], now) <= 0)
            continue;
        struct checked_hold **link = &key->records[i]->holds;
        while (*link && (*link)->object != object)
            link = &(*link)->next;
        if (*link)
            *link = (*link)->next;
    }
}

/* A reader that listed an older version of the entry opens the shard again if the entry has
 * changed. A record that was kept therefore stays kept. */
void checked_fold(struct index_checker *checker, struct checked_record *record)
{
    struct checked_key *key = record->key;
    for (size_t i = 0; i < key->record_count; i++) {
        struct checked_record *older = key->records[i];
        if (checked_compare(older, record) > 0)
            continue;
        older->folded = checked_kept(older);
        older->holds = NULL;
    }
    if (record->folded == 0)
        record->folded = checker->changes;
    record->ever = record->was_in_shard = true;
    if (key->in_shard != record)
        key->in_shard_since_us = world_now_us(index_world(checker));
    key->in_shard = record;
}

bool checked_is_below_floor(const struct index_checker *checker,
                            const struct checked_record *record)
{
    for (size_t i = 0; i < checker->shard_count; i++) {
        const struct checked_shard *shard = &checker->shards[i];
        if (strcmp(shard->id, record->key->shard) == 0)
            return shard->has_floor && instant_compare(record->time, shard->floor) <= 0;
    }
    return false;
}

bool checked_is_folded(const struct index_checker *checker, const struct checked_record *record)
{
    const struct checked_key *key = record->key;
    if (key->in_shard && checked_compare(key->in_shard, record) >= 0)
        return true;
    if (key->dropped && checked_compare(key->dropped, record) >= 0)
        return true;
    return record->deleted && checked_is_below_floor(checker, record);
}

/* ---- Changes --------------------------------------------------------------------------- */

static struct checked_aside *aside_of(const struct index_checker *checker, const char *id)
{
    for (struct checked_aside *aside = checker->asides; aside; aside = aside->next)
        if (strcmp(aside->id, id) == 0)
            return aside;
    return NULL;
}

static void checker_cleared(struct index_checker *checker, const struct checked_object *object)
{
    const struct checked_entry_version *version = object->now;
    const struct checked_aside *aside = aside_of(checker, version->id);
    const struct checked_record *record = version->record;
    bool folded = record && checked_is_folded(checker, record);
    if (!folded && !(aside && aside->copied && aside->explained))
        world_fail(index_world(checker),
                   "%s is cleared away, and its record is neither in the shard nor aside",
                   object->rest);
}

void checker_entry_changed(struct index_checker *checker, struct view rest,
                           const struct bucket_change *change)
{
    struct checked_object *object = object_of(checker, rest);
    if (change->body.size == 0) {
        if (object->now)
            checker_cleared(checker, object);
        object->now = NULL;
        let_go(object, NULL);
        return;
    }
    struct checked_entry_version *version = object->now = version_of(checker, object, change);
    if (!version->record || version->fields > checker->fields)
        version->was_bad = true;
    if (version->record)
        version->record->ever = true;
    struct checked_record *readable = version->was_bad ? NULL : version->record;
    let_go(object, readable);
    if (readable)
        hold(checker, readable, object);
}

static struct checked_aside *aside_new(struct index_checker *checker, struct view id)
{
    struct checked_aside *aside = checked_new(checker, sizeof *aside);
    memcpy(aside->id, id.data, id.size);
    aside->next = checker->asides;
    checker->asides = aside;
    return aside;
}

static void checker_set_aside(struct index_checker *checker, const char *id, struct view bytes)
{
    const struct checked_entry_version *version = map_get(&checker->versions, view_of(id));
    if (!version)
        world_fail(index_world(checker), "aside/%s is of no entry that was ever put", id);
    else if (!view_equal(version->bytes, bytes))
        world_fail(index_world(checker), "aside/%s is not what its entry was", id);
    else if (!version->was_bad && !(version->record && !version->record->deleted &&
                                    checked_is_below_floor(checker, version->record)))
        world_fail(index_world(checker), "aside/%s could be read when it was written: %s", id,
                   trace_text(bytes).text);
}

/* <id>.usv, <id>.json */
void checker_aside_changed(struct index_checker *checker, struct view name,
                           const struct bucket_change *change)
{
    struct view id = view_cut(&name, '.');
    char text[CHECKED_ID_SIZE + 1] = "";
    if (id.size != CHECKED_ID_SIZE || !change->body.data) {
        world_fail(index_world(checker), "aside/%s is deleted, or is no name",
                   trace_text(id).text);
        return;
    }
    memcpy(text, id.data, id.size);
    struct checked_aside *aside = aside_of(checker, text);
    if (!aside)
        aside = aside_new(checker, id);
    if (view_equal(name, VIEW("usv"))) {
        checker_set_aside(checker, text, change->body);
        aside->copied = true;
    } else {
        aside->explained = true;
    }
}
