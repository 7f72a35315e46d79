/* SPDX-License-Identifier: Apache-2.0 */
/* release.c: releases registered paths. It guards against a path whose objects two partitions list:
 * one of them could delete an object that the other still needs. */
#include "compact/care/release.h"

#include "base/rule.h"
#include "compact/catalog/prefixes.h"

/* ---- The partition ------------------------------------------------------------------- */

static void take_late_bound(void *argument, const struct catalog *catalog,
                            const struct evidence *evidence)
{
    struct prefix_release *release = argument;
    (void)evidence;
    release->late_bound_ms = catalog->settings.late_bound_ms;
    release->skew_tolerance_ms = catalog->settings.skew_tolerance_ms;
}

/* The D of the partition, or the default one if the partition does not exist any more. */
static enum hf_status find_late_bound(struct catalog_tree *tree, struct prefix_release *release,
                                      struct hf_error *error)
{
    struct compact_settings usual = compact_settings_default();
    struct catalog_ref *ref;
    release->late_bound_ms = usual.late_bound_ms;
    release->skew_tolerance_ms = usual.skew_tolerance_ms;
    enum hf_status status = catalog_tree_ref(tree, view_of(tree->partition), &ref, error);
    if (status == HF_OK)
        status = catalog_ref_show(ref, take_late_bound, release, error);
    return status == HF_NOT_FOUND ? error_clear(error) : status;
}

/* ---- Objects that are in use --------------------------------------------------------- */

struct usage {
    struct view path;
    uint64_t chunks;
    struct hf_error damage; /* a catalog that cannot be read may list anything */
};

static void count_chunks(struct usage *usage, const struct chunk *chunks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        usage->chunks +=
            chunk_is_adopted(&chunks[i]) && prefix_covers(usage->path, chunks[i].object);
}

static enum hf_status count_usage(void *argument, struct catalog_ref *ref,
                                  const struct catalog *catalog,
                                  const struct evidence *evidence, const struct hf_error *why)
{
    struct usage *usage = argument;
    (void)evidence;
    if (!catalog) {
        usage->damage = *why;
        error_prefix(&usage->damage, "%s", ref->partition);
        return why->status;
    }
    count_chunks(usage, catalog->live, catalog->live_count);
    for (size_t i = 0; i < catalog->grave_count; i++)
        count_chunks(usage, catalog->graves[i].chunks, catalog->graves[i].count);
    for (size_t i = 0; i < catalog->removal_count; i++)
        for (size_t k = 0; k < catalog->removals[i].object_count; k++)
            usage->chunks += prefix_covers(usage->path, catalog->removals[i].objects[k].object);
    return HF_OK;
}

static enum hf_status find_usage(struct catalog_tree *tree, struct usage *usage,
                                 struct hf_error *error)
{
    enum hf_status status = catalog_tree_walk(tree, count_usage, usage, error);
    if (usage->damage.status != HF_OK)
        *error = usage->damage;
    else if (status == HF_NOT_FOUND) /* there is no partition */
        error_clear(error);
    return error->status;
}

/* ---- One path ------------------------------------------------------------------------ */

struct lookup {
    struct view path;
    bool found;
    char around[KEY_BYTES_MAX + 1]; /* the registered path that contains it; empty: none */
};

static void look_up(void *argument, const struct prefix *prefix,
                    const struct evidence *evidence)
{
    struct lookup *lookup = argument;
    (void)evidence;
    lookup->found |= view_equal(prefix->path, lookup->path);
    if (prefix_covers(prefix->path, lookup->path)) {
        memcpy(lookup->around, prefix->path.data, prefix->path.size);
        lookup->around[prefix->path.size] = '\0';
    }
}

static enum hf_status check_registered(struct catalog_tree *tree, struct view path,
                                       struct hf_error *error)
{
    struct lookup lookup = { .path = path };
    enum hf_status status = prefixes_show(tree, look_up, &lookup, error);
    if (status != HF_OK || lookup.found)
        return status;
    if (lookup.around[0])
        return error_set(error, HF_NOT_FOUND,
                         "%.*s is registered only as part of %.120s, which can be released",
                         VIEW_ARGS(view_first(path, 100)), lookup.around);
    return error_set(error, HF_NOT_FOUND,
                     "%.*s is not registered to partition %s; 'holdfast compact status' lists "
                     "the registered paths",
                     VIEW_ARGS(view_first(path, 100)), tree->partition);
}

enum hf_status release_path(struct catalog_tree *tree, struct view path,
                            struct release_report *ret_report, struct hf_error *error)
{
    struct prefix_release release = { .path = path };
    struct usage usage = { .path = path };
    *ret_report = (struct release_report){ .released = false };
    client_active(tree->client);
    enum hf_status status = check_registered(tree, path, error);
    if (status == HF_OK)
        status = find_late_bound(tree, &release, error);
    if (status == HF_OK)
        status = prefixes_release(tree, &release, error);
    if (status == HF_OK)
        status = find_usage(tree, &usage, error); /* after the wait: see release.h */
    if (status != HF_OK)
        return status;
    bool in_use = RULE(RELEASE_AFTER_THE_OBJECTS) && usage.chunks > 0;
    if (release.ready > 0 && !in_use) {
        release.unused = true;
        status = prefixes_release(tree, &release, error);
    }
    *ret_report = (struct release_report){ .released = release.waiting + release.ready == 0,
                                           .chunks = usage.chunks,
                                           .wait_ms = release.wait_ms };
    return status;
}

struct waiting {
    int64_t late_bound_ms;
    int64_t wait_ms;
};

static void look_how_long(void *argument, const struct prefix *prefix,
                          const struct evidence *evidence)
{
    struct waiting *waiting = argument;
    int64_t wait_ms = prefix_wait_ms(prefix, waiting->late_bound_ms, evidence);
    waiting->wait_ms = wait_ms > waiting->wait_ms ? wait_ms : waiting->wait_ms;
}

enum hf_status release_wait(struct catalog_tree *tree, int64_t late_bound_ms,
                            int64_t *ret_wait_ms, struct hf_error *error)
{
    struct waiting waiting = { .late_bound_ms = late_bound_ms };
    enum hf_status status = prefixes_show(tree, look_how_long, &waiting, error);
    *ret_wait_ms = waiting.wait_ms;
    return status;
}

enum hf_status release_all(struct catalog_tree *tree, bool unused, size_t *ret_left,
                           struct hf_error *error)
{
    struct prefix_release release = { .path = VIEW(""), .unused = unused };
    enum hf_status status = find_late_bound(tree, &release, error);
    if (status == HF_OK)
        status = prefixes_release(tree, &release, error);
    *ret_left = release.waiting + release.ready;
    return status;
}
