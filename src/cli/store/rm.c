/* SPDX-License-Identifier: Apache-2.0 */
/* rm.c: `store rm`: removes objects by their keys, or all objects below a prefix. Whatever must not
 * be removed is found before the first object is removed. */
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/output/record.h"
#include "cli/store/store.h"

#include <stdlib.h>

struct removed {
    struct view key;
    bool removed;
};

const struct field removed_object_record[] = REMOVED_OBJECT_RECORD;

/* Keys that are removed together: the arguments, or a page of a listing. */
struct removal {
    struct cli *cli;
    struct hf_store_delete_options options;
    struct arena arena;
    const char **keys;
    size_t *sizes;
    size_t count, capacity;
    struct hf_error error; /* unless OK, why the listing was stopped */
};

enum hf_status cli_if_match(struct cli *cli, const char **ret_etag)
{
    const struct option_value *given = cli_option(cli, "if-match");
    *ret_etag = given ? given->text.data : NULL;
    if (given && (given->text.size < 1 || given->text.size >= HF_ETAG_MAX))
        return cli_invalid(cli, "an ETag must be 1 to %d bytes long", HF_ETAG_MAX - 1);
    return HF_OK;
}

static enum hf_status add_key(struct removal *removal, struct view key)
{
    if (removal->count == removal->capacity) {
        size_t capacity = removal->capacity ? 2 * removal->capacity : 64;
        const char **keys = realloc(removal->keys, capacity * sizeof *keys);
        if (keys)
            removal->keys = keys;
        size_t *sizes = keys ? realloc(removal->sizes, capacity * sizeof *sizes) : NULL;
        if (!sizes)
            return error_no_memory(&removal->error);
        removal->sizes = sizes;
        removal->capacity = capacity;
    }
    struct view copy = arena_copy(&removal->arena, key);
    if (!copy.data)
        return error_no_memory(&removal->error);
    removal->keys[removal->count] = copy.data;
    removal->sizes[removal->count++] = copy.size;
    return HF_OK;
}

/* Reports the result for each key; the first failure becomes the status of the command. */
static bool tell_removed(void *argument, size_t index, const struct hf_error *error)
{
    struct removal *removal = argument;
    struct cli *cli = removal->cli;
    struct view key = { removal->keys[index], removal->sizes[index] };
    if (error->status != HF_OK) {
        cli_report(cli, key, error);
        cli->reported = true;
    } else {
        record_tell(cli, removed_object_record, &(struct removed){ key, true }, NULL);
    }
    return !interrupted();
}

/* Removes the gathered keys, or shows them. The first failure is kept, and the others go on. */
static enum hf_status remove_gathered(struct removal *removal)
{
    struct cli *cli = removal->cli;
    struct hf_error error = removal->error;
    enum hf_status status = HF_OK;
    bool dry = cli_given(cli, "dry-run");
    for (size_t i = 0; dry && i < removal->count; i++) {
        struct view key = { removal->keys[i], removal->sizes[i] };
        record_show(cli, removed_object_record, &(struct removed){ key, false }, "{key}\n");
    }
    if (!dry)
        status =
            hf_store_delete_many(cli->handle, removal->keys, removal->sizes, removal->count,
                                 &removal->options, tell_removed, removal, &error);
    if (status != HF_OK && removal->error.status == HF_OK)
        removal->error = error;
    removal->count = 0;
    arena_release(&removal->arena);
    removal->arena = ARENA_INIT;
    return status;
}

/* ---- Below a prefix ------------------------------------------------------------------ */

static bool refuse_own(void *argument, const struct hf_store_entry *entry)
{
    struct removal *removal = argument;
    struct view key = { entry->key, entry->key_size };
    bool chosen = filters_choose(removal->cli, key);
    return (!chosen || hf_store_check_key(entry->key, entry->key_size, removal->options.force,
                                          &removal->error) == HF_OK) &&
           (!entry->last_of_page || interrupt_check(&removal->error) == HF_OK);
}

static bool remove_page(void *argument, const struct hf_store_entry *entry)
{
    struct removal *removal = argument;
    struct view key = { entry->key, entry->key_size };
    if (filters_choose(removal->cli, key) && add_key(removal, key) != HF_OK)
        return false;
    if (!entry->last_of_page)
        return true;
    remove_gathered(removal);
    output_flush(&removal->cli->out, /* error */ NULL);
    return !interrupted() && !output_is_closed(&removal->cli->out);
}

/* Calls `each` for every object below each prefix. */
static enum hf_status list_prefixes(struct removal *removal, hf_store_each_fn *each)
{
    struct cli *cli = removal->cli;
    enum hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < cli->argument_count; i++) {
        struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
        struct view prefix;
        status = cli_key(cli, i, &prefix);
        if (status == HF_OK && prefix.size == 0)
            return cli_invalid(cli, "PREFIX is empty; to remove everything, remove the store");
        options.prefix_size = prefix.size;
        if (status == HF_OK)
            status =
                hf_store_list(cli->handle, prefix.data, &options, each, removal, &cli->error);
        if (status == HF_OK)
            status = interrupt_check(&cli->error);
    }
    return status;
}

static enum hf_status remove_recursively(struct removal *removal)
{
    struct cli *cli = removal->cli;
    enum hf_status status = cli_open_objects(cli);
    if (status == HF_OK && !removal->options.force)
        status = list_prefixes(removal, refuse_own);
    if (status == HF_OK && removal->error.status == HF_OK)
        status = list_prefixes(removal, remove_page);
    if (status != HF_OK || removal->error.status == HF_OK)
        return status;
    cli->error = removal->error;
    return cli->error.status;
}

/* ---- By their keys ------------------------------------------------------------------- */

/* Invalid keys are refused before the store is opened. */
static enum hf_status remove_arguments(struct removal *removal)
{
    struct cli *cli = removal->cli;
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < cli->argument_count; i++) {
        struct view key;
        status = cli_key(cli, i, &key);
        if (status == HF_OK)
            status =
                hf_store_check_key(key.data, key.size, removal->options.force, &cli->error);
        if (status == HF_OK && add_key(removal, key) != HF_OK)
            status = error_no_memory(&cli->error);
        if (status != HF_OK)
            return status;
    }
    struct view url = { NULL, 0 };
    if (removal->options.if_match) {
        status = cli_find_store(cli, &url);
        if (status == HF_OK)
            status = cli_open_for_deletes(cli, url, /* must_exist */ false, &cli->handle);
    } else {
        status = cli_open_objects(cli);
    }
    if (status == HF_OK && remove_gathered(removal) != HF_OK) {
        cli->error = removal->error;
        return cli->error.status;
    }
    return status == HF_OK ? interrupt_check(&cli->error) : status;
}

enum hf_status run_store_rm(struct cli *cli)
{
    struct removal removal = { .cli = cli,
                               .options = HF_STORE_DELETE_OPTIONS,
                               .arena = ARENA_INIT };
    bool recursive = cli_given(cli, "recursive");
    removal.options.force = cli_given(cli, "force");
    if (cli_given(cli, "if-match") && (cli->argument_count > 1 || recursive))
        return cli_invalid(cli, "--if-match takes only one KEY");
    enum hf_status status = cli_if_match(cli, &removal.options.if_match);
    if (status == HF_OK)
        status = filters_check(cli);
    if (status == HF_OK)
        status = recursive ? remove_recursively(&removal) : remove_arguments(&removal);
    free(removal.keys);
    free(removal.sizes);
    arena_release(&removal.arena);
    return status;
}
