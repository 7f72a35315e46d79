/* SPDX-License-Identifier: Apache-2.0 */
/* swap_checker.c: remembers the last version of each document, and fails the run if a write is not
 * conditional on that version, as swap_checker.h describes. */
#include "sim/checkers/swap_checker.h"

#include "base/layout.h"
#include "sim/checkers/checker_inside.h"

#include <stdlib.h>

/* A document, and its version. */
struct swapped {
    struct swapped *next;
    struct etag etag;
    size_t size;
    char key[];
};

struct swap_checker {
    struct run *run;
    struct bucket_watch watch;
    struct swapped *documents;
};

static bool ends_with(struct view key, struct view end)
{
    return key.size >= end.size && view_equal(view_from(key, key.size - end.size), end);
}

static bool is_document(struct view key)
{
    static const struct view folders[] = {
        { LAYOUT_EPOCH_FOLDER, sizeof LAYOUT_EPOCH_FOLDER - 1 },
        { LAYOUT_EPOCH_COPY_FOLDER, sizeof LAYOUT_EPOCH_COPY_FOLDER - 1 },
        { LAYOUT_TXN_FOLDER, sizeof LAYOUT_TXN_FOLDER - 1 },
        { "default/meta/", 13 },
        { "default/inode/", 14 },
        { "default/paths/", 14 },
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (view_starts_with(key, folders[i]))
            return true;
    return view_equal(key, VIEW("default/paths.json")) ||
           ends_with(key, VIEW("/" LAYOUT_LEASES)) || ends_with(key, VIEW("/" LAYOUT_INDEX));
}

static struct swapped *document_of(struct swap_checker *checker, struct view key)
{
    for (struct swapped *document = checker->documents; document; document = document->next)
        if (view_equal((struct view){ document->key, document->size }, key))
            return document;
    struct swapped *document = checker_allocate(sizeof *document + key.size);
    document->size = key.size;
    memcpy(document->key, key.data, key.size);
    document->next = checker->documents;
    checker->documents = document;
    return document;
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct swap_checker *checker = argument;
    if (!is_document(change->key))
        return;
    bool in_order = bucket_change_in_order(change, &document_of(checker, change->key)->etag);
    if (!in_order && change->body.data && net_sender(checker->run->net).node)
        world_fail(checker->run->world, "%.*s is written over a version that was not seen",
                   VIEW_ARGS(change->key));
}

struct swap_checker *swap_checker_new(struct run *run)
{
    struct swap_checker *checker = checker_allocate(sizeof *checker);
    checker->run = run;
    checker->watch = (struct bucket_watch){ .changed = changed, .argument = checker };
    bucket_add_watch(net_bucket(run->net), &checker->watch);
    return checker;
}

void swap_checker_free(struct swap_checker *checker)
{
    while (checker && checker->documents) {
        struct swapped *first = checker->documents;
        checker->documents = first->next;
        free(first);
    }
    free(checker);
}
