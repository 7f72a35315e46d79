/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c: which other lines may go on when a resource becomes free. A lease of a tree is in the
 * way of everything below it, one of an inode is in the way of its ranges, and the other way
 * round. It guards against waiters that learn this only from their next poll, and against a release
 * that looks at all lines: they are found by the order of their names.
 *
 * Resources are "NAMESPACE/KIND:REST". Only the kinds path, tree, inode and range overlap with
 * other resources. */
#include "serve/core/core_inside.h"

#include <string.h>

/* A release wakes at most this many other lines. Each wake is a call to the store, and the lines
 * beyond this are polled anyway. */
#define WAKES_MAX 256

struct resource {
    struct view space; /* with the slash at its end */
    struct view kind, rest;
};

/* False: it has no kind. A name has no colon, so the first one ends the kind. */
static bool resource_parse(struct view text, struct resource *ret_resource)
{
    size_t colon = view_find(text, ':');
    size_t start = colon;
    if (colon == text.size)
        return false;
    while (start > 0 && text.data[start - 1] != '/')
        start--;
    *ret_resource = (struct resource){ .space = view_first(text, start),
                                       .kind = { text.data + start, colon - start },
                                       .rest = view_from(text, colon + 1) };
    return true;
}

struct waking {
    struct core *core;
    const struct resource *freed;
    size_t left; /* further lines that may be woken */
    char text[CORE_RESOURCE_MAX + 8];
    size_t size;
};

/* Sets the text to a resource of the same namespace. */
static struct view other_resource(struct waking *waking, const char *kind, struct view rest,
                                  const char *end)
{
    struct view parts[] = { waking->freed->space, view_of(kind), rest, view_of(end) };
    waking->size = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct view part = view_first(parts[i], sizeof waking->text - waking->size);
        if (part.size > 0)
            memcpy(waking->text + waking->size, part.data, part.size);
        waking->size += part.size;
    }
    return (struct view){ waking->text, waking->size };
}

static void wake_exactly(struct waking *waking, const char *kind, struct view rest)
{
    line_wake_one(waking->core, other_resource(waking, kind, rest, ""));
}

/* Wakes all lines whose names begin like this. */
static void wake_below(struct waking *waking, const char *kind, struct view rest,
                       const char *end)
{
    struct view start = other_resource(waking, kind, rest, end);
    struct core_line *line = map_seek(&waking->core->lines, start, /* beyond */ false);
    while (line && waking->left > 0 && view_starts_with(line_key(line), start)) {
        waking->left--;
        line_wake_one(waking->core, line_key(line));
        line = map_seek(&waking->core->lines, line_key(line), /* beyond */ true);
    }
}

/* Trees above a path, from the path itself up to the root. */
static void wake_trees_above(struct waking *waking, struct view path)
{
    while (path.size > 1) {
        wake_exactly(waking, "tree:", path);
        while (path.size > 0 && path.data[path.size - 1] != '/')
            path.size--;
        if (path.size > 0)
            path.size--; /* the slash */
    }
    wake_exactly(waking, "tree:", VIEW("/"));
}

static void wake_in_tree(struct waking *waking, struct view path)
{
    const char *end = view_equal(path, VIEW("/")) ? "" : "/";
    wake_exactly(waking, "path:", path);
    wake_below(waking, "path:", path, end);
    wake_below(waking, "tree:", path, end);
}

void overlap_wake(struct core *core, struct view text)
{
    struct resource freed;
    if (!resource_parse(text, &freed))
        return;
    struct waking waking = { .core = core, .freed = &freed, .left = WAKES_MAX };
    bool is_tree = view_equal(freed.kind, VIEW("tree"));
    if (is_tree || view_equal(freed.kind, VIEW("path")))
        wake_trees_above(&waking, freed.rest);
    if (is_tree)
        wake_in_tree(&waking, freed.rest);
    bool is_range = view_equal(freed.kind, VIEW("range"));
    if (is_range || view_equal(freed.kind, VIEW("inode"))) {
        struct view inode = view_first(freed.rest, view_find(freed.rest, ':'));
        wake_exactly(&waking, "inode:", inode);
        wake_below(&waking, "range:", inode, ":");
    }
}
