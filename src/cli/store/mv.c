/* SPDX-License-Identifier: Apache-2.0 */
/* mv.c: `store mv`: moves objects within a store or between two, one after the other. The library
 * moves each object (the option `move` of hf_store_copy). */
#include "base/parse.h"
#include "cli/interrupt.h"
#include "cli/output/record.h"
#include "cli/store/store.h"

#include <stdlib.h>

struct moved_object {
    struct view from, to;
    uint64_t size;
    bool moved;
};

static const struct field moved_object_record[] = MOVED_OBJECT_RECORD;

/* One object of a page of the listing. */
struct move_entry {
    struct view key;
    uint64_t size;
};

struct move {
    struct cli *cli;
    struct store_ends ends;
    bool recursive, dry;
    struct arena arena; /* of the page */
    struct move_entry *page;
    size_t count, room;
    uint64_t moved;
    struct hf_error error; /* unless OK, why the move was stopped */
};

/* ---- One object ---------------------------------------------------------------------- */

/* The object may have been written since it was listed. */
static bool note_moved(void *argument, const struct hf_store_copied *copied)
{
    struct moved_object *told = argument;
    told->size = copied->size;
    return true;
}

static enum hf_status move_one(struct move *move, const struct move_entry *entry)
{
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct store_ends *ends = &move->ends;
    struct buffer target = BUFFER_INIT(2 * KEY_BYTES_MAX);
    buffer_append(&target, ends->target);
    buffer_append(&target, view_from(entry->key, ends->source.size));
    const char *text = buffer_text(&target);
    struct moved_object told = { entry->key, buffer_view(&target), entry->size, !move->dry };
    enum hf_status status = text ? HF_OK : error_no_memory(&move->error);
    if (status == HF_OK)
        status = hf_store_check_key(entry->key.data, entry->key.size, false, &move->error);
    if (status == HF_OK)
        status = hf_store_check_key(told.to.data, told.to.size, false, &move->error);
    if (status == HF_OK && move->recursive && ends->source_there.data &&
        view_starts_with(told.to, ends->source_there))
        status = error_set(&move->error, HF_INVALID,
                           "it would become '%.*s', which is part of the source",
                           VIEW_ARGS(told.to));
    options.source_size = entry->key.size;
    options.target_size = told.to.size;
    options.move = true;
    options.each = note_moved;
    options.each_argument = &told;
    if (status == HF_OK && !move->dry)
        status = hf_store_copy(ends->from, entry->key.data, ends->to, told.to.data, &options,
                               /* report */ NULL, &move->error);
    if (status == HF_OK && (move->dry || move->cli->json))
        record_show(move->cli, moved_object_record, &told, "{from} -> {to}\n");
    move->moved += status == HF_OK;
    if (status != HF_OK)
        error_about(&move->error, entry->key.data);
    buffer_release(&target);
    return status;
}

/* ---- The listing --------------------------------------------------------------------- */

static bool move_page(struct move *move)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; status == HF_OK && i < move->count; i++) {
        status = move_one(move, &move->page[i]);
        if (status == HF_OK)
            status = interrupt_check(&move->error);
    }
    move->count = 0;
    arena_release(&move->arena);
    move->arena = ARENA_INIT;
    output_flush(&move->cli->out, /* error */ NULL);
    return status == HF_OK && !output_is_closed(&move->cli->out);
}

/* Without --recursive, only the object with exactly this key counts; it is listed first. */
static bool take_move_entry(void *argument, const struct hf_store_entry *entry)
{
    struct move *move = argument;
    struct view key = { entry->key, entry->key_size };
    bool last = entry->last_of_page;
    if (!move->recursive && !view_equal(key, move->ends.source))
        return false;
    if (move->count == move->room) {
        size_t room = move->room ? 2 * move->room : 64;
        struct move_entry *page = realloc(move->page, room * sizeof *page);
        if (!page)
            return error_no_memory(&move->error), false;
        move->page = page;
        move->room = room;
    }
    if (!move->recursive || filters_choose(move->cli, key)) {
        struct view copy = arena_copy(&move->arena, key);
        if (!copy.data)
            return error_no_memory(&move->error), false;
        move->page[move->count++] = (struct move_entry){ copy, entry->size };
    }
    return last ? move_page(move) : move->recursive;
}

static enum hf_status move_all(struct move *move)
{
    struct cli *cli = move->cli;
    struct hf_store_list_options options = HF_STORE_LIST_OPTIONS;
    options.prefix_size = move->ends.source.size;
    enum hf_status status = hf_store_list(move->ends.from, move->ends.source.data, &options,
                                          take_move_entry, move, &cli->error);
    if (status == HF_OK && move->error.status == HF_OK && move->count > 0)
        move_page(move);
    if (status == HF_OK && move->error.status != HF_OK) {
        cli->error = move->error;
        status = cli->error.status;
    }
    if (status == HF_OK && !move->recursive && move->moved == 0)
        status = error_set(&cli->error, HF_NOT_FOUND, "no such object");
    if (status == HF_OK && !move->dry && !cli->json && !cli->quiet)
        output_print(&cli->out, "moved %llu object%s\n", (unsigned long long)move->moved,
                     plural(move->moved));
    return status;
}

enum hf_status run_store_mv(struct cli *cli)
{
    struct move move = { .cli = cli,
                         .recursive = cli_given(cli, "recursive"),
                         .dry = cli_given(cli, "dry-run"),
                         .arena = ARENA_INIT };
    enum hf_status status = filters_check(cli);
    if (status == HF_OK)
        status = store_ends_open(cli, &move.ends, /* deletes */ !move.dry);
    if (status == HF_OK)
        status = move_all(&move);
    store_ends_close(&move.ends);
    arena_release(&move.arena);
    free(move.page);
    return status;
}
