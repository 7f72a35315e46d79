/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c: finds new objects in an inbox. It remembers what earlier scans have seen, so that an
 * object is read once, and a scan that finds nothing new only lists the inbox. */
#include "compact/work/inbox.h"

#include "base/map.h"
#include "compact/catalog/prefixes.h"

#include <stdlib.h>

/* One version of an object. */
struct inbox_object {
    struct etag etag;
    bool settled;  /* adopted, or unreadable: nothing to do until it has another ETag */
    uint64_t scan; /* the last one that listed it */
    struct view key;
    char text[];
};

struct inbox {
    struct catalog_tree *tree;
    struct adopt_options options;
    struct map objects;
    uint64_t scan;
    struct mono_time registered_at;
    char prefix[KEY_BYTES_MAX + 1];
};

enum hf_status inbox_new(struct catalog_tree *tree, struct view prefix,
                         const struct adopt_options *options, struct inbox **ret_inbox,
                         struct hf_error *error)
{
    enum hf_status status = prefix_check(prefix, error);
    if (status == HF_OK && prefix.data[prefix.size - 1] != '/')
        status = error_set(error, HF_INVALID, "%.*s: an inbox must end with a slash",
                           VIEW_ARGS(view_first(prefix, 120)));
    if (status != HF_OK)
        return status;
    struct inbox *inbox = calloc(1, sizeof *inbox);
    if (!inbox)
        return error_no_memory(error);
    inbox->tree = tree;
    inbox->options = *options;
    inbox->objects = MAP_INIT;
    memcpy(inbox->prefix, prefix.data, prefix.size);
    *ret_inbox = inbox;
    return HF_OK;
}

/* Forgets objects that no scan since `oldest` has listed. */
static void forget_objects(struct inbox *inbox, uint64_t oldest)
{
    struct inbox_object *object = map_seek(&inbox->objects, VIEW(""), /* beyond */ false);
    while (object) {
        struct inbox_object *next = map_seek(&inbox->objects, object->key, /* beyond */ true);
        if (object->scan < oldest) {
            map_take(&inbox->objects, object->key);
            free(object);
        }
        object = next;
    }
}

void inbox_free(struct inbox *inbox)
{
    if (!inbox)
        return;
    forget_objects(inbox, UINT64_MAX);
    map_release(&inbox->objects);
    free(inbox);
}

/* The object, remembered from now on; NULL if there is no room for it. */
static struct inbox_object *remember_object(struct inbox *inbox, struct view key)
{
    void *old;
    struct inbox_object *object = inbox->objects.count < INBOX_OBJECTS_MAX
                                      ? calloc(1, sizeof *object + key.size + 1)
                                      : NULL;
    if (!object)
        return NULL;
    memcpy(object->text, key.data, key.size);
    object->key = (struct view){ object->text, key.size };
    if (map_put(&inbox->objects, object->key, object, &old))
        return object;
    free(object);
    return NULL;
}

/* Whether to adopt this version now. On a local store it must first be seen twice: its writer may
 * not have finished. */
static bool inbox_wants(void *argument, struct view key, const struct etag *etag)
{
    struct inbox *inbox = argument;
    bool in_place = inbox->tree->store->traits.clock == STORE_CLOCK_BOOT;
    struct inbox_object *object = map_get(&inbox->objects, key);
    if (!object)
        object = remember_object(inbox, key);
    if (!object)
        return false;
    bool same = etag_equal(&object->etag, etag);
    object->scan = inbox->scan;
    if (!same) {
        object->etag = *etag;
        object->settled = false;
    }
    return !object->settled && (same || !in_place);
}

/* An object that this worker can never read as it is (its contents, or their format) is left alone.
 * Every other error may pass, for example one of permissions, and is tried again by the next
 * scan. */
static void inbox_result(void *argument, const struct ingest_file *file, struct view etag)
{
    struct inbox *inbox = argument;
    struct inbox_object *object = map_get(&inbox->objects, view_of(file->path));
    enum hf_status status = file->error.status;
    bool stays = status == HF_OK || status == HF_INVALID || status == HF_CORRUPT ||
                 status == HF_UNSUPPORTED;
    if (object && view_equal(etag_view(&object->etag), etag) && stays)
        object->settled = true;
}

static bool inbox_goes_on(void *argument, size_t objects_done, uint64_t bytes_done)
{
    const struct adopt_options *options = &((const struct inbox *)argument)->options;
    return !options->go_on || options->go_on(options->argument, objects_done, bytes_done);
}

static bool inbox_describes(void *argument, struct view key, struct adopt_facts *ret_facts)
{
    const struct adopt_options *options = &((const struct inbox *)argument)->options;
    return options->describe(options->argument, key, ret_facts);
}

enum hf_status inbox_scan(struct inbox *inbox, struct adopt_report *ret_report,
                          struct hf_error *error)
{
    struct view prefix = view_of(inbox->prefix);
    struct adopt_options options = inbox->options;
    options.own = true;
    options.registered_at = inbox->registered_at;
    options.wants = inbox_wants;
    options.each = inbox_result;
    options.go_on = inbox_goes_on;
    options.describe = options.describe ? inbox_describes : NULL;
    options.argument = inbox;
    options.until = (struct mono_time){ 0 };
    inbox->scan++;
    enum hf_status status = adopt_paths(inbox->tree, &prefix, 1, &options, ret_report, error);
    inbox->registered_at = ret_report->registered_at;
    /* An incomplete listing shows nothing about the objects that it did not reach. */
    if (ret_report->listed)
        forget_objects(inbox, inbox->scan);
    return status;
}
