#include "sim/judge_swap.h"

#include "base/layout.h"
#include "sim/judge_inside.h"

#include <stdlib.h>

/* A document, and its version. */
struct swapped {
    struct swapped *next;
    struct etag etag;
    size_t size;
    char key[];
};

struct judge_swap {
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
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (view_starts_with(key, folders[i]))
            return true;
    return view_equal(key, VIEW("default/paths.json")) ||
           ends_with(key, VIEW("/" LAYOUT_LEASES)) || ends_with(key, VIEW("/" LAYOUT_INDEX));
}

static struct swapped *document_of(struct judge_swap *judge, struct view key)
{
    for (struct swapped *document = judge->documents; document; document = document->next)
        if (view_equal((struct view){ document->key, document->size }, key))
            return document;
    struct swapped *document = judge_allocate(sizeof *document + key.size);
    document->size = key.size;
    memcpy(document->key, key.data, key.size);
    document->next = judge->documents;
    judge->documents = document;
    return document;
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct judge_swap *judge = argument;
    if (!is_document(change->key))
        return;
    bool in_order = bucket_change_in_order(change, &document_of(judge, change->key)->etag);
    if (!in_order && change->body.data && net_sender(judge->run->net).node)
        world_fail(judge->run->world, "%.*s is written over a version that was not seen",
                   VIEW_ARGS(change->key));
}

struct judge_swap *judge_swap_new(struct run *run)
{
    struct judge_swap *judge = judge_allocate(sizeof *judge);
    judge->run = run;
    judge->watch = (struct bucket_watch){ .changed = changed, .argument = judge };
    bucket_add_watch(net_bucket(run->net), &judge->watch);
    return judge;
}

void judge_swap_free(struct judge_swap *judge)
{
    while (judge && judge->documents) {
        struct swapped *first = judge->documents;
        judge->documents = first->next;
        free(first);
    }
    free(judge);
}
