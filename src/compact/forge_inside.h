/* forge_inside.h: what an order of the real forge is made of, for its files.
 *
 *   forge_files.c  merging, commands, putting
 *   forge_fetch.c  sources into files, or lent by the store; checked
 *
 * The task that called make is the only one that asks whether to go on. */
#ifndef COMPACT_FORGE_INSIDE_H
#define COMPACT_FORGE_INSIDE_H

#include "base/arena.h"
#include "compact/forge.h"
#include "compact/forge_scratch.h"

#include <stdatomic.h>

/* A request that the store cannot do now, or has not answered, is tried so often. */
#define TRIES_MAX 5
#define TRY_WAIT  SPAN_MS(100)

struct forge_files {
    struct forge forge;
    struct env *env;
    struct store *store;
    size_t threads;
    struct scratch scratch;
    struct allow_exec exec;     /* commands that may run */
    struct forge_merger merger; /* of the caller; `merge` NULL: none */
    atomic_uint_fast64_t jobs;  /* to name their folders */
    atomic_int lent;            /* descriptors of objects that are read where they lie */
};

/* A source that is read where it lies. */
struct lent {
    int fd; /* -1: it is not, but copied */
    char path[32];
};

/* One order under way. */
struct piece {
    struct forge_files *files;
    const struct forge_order *order;
    struct forge_product *product;
    struct arena arena;
    char name[24]; /* of its folder in the scratch folder */
    char folder[PATH_MAX];
    const char **paths; /* of the sources */
    struct lent *lent;  /* one for each */
    const char *output, *rejects;
    const char *program;      /* that a command runs; NULL: there is no command */
    uint64_t bytes;           /* of all sources */
    struct scratch_room room; /* when it began */
    atomic_bool disk_full;    /* it failed since there was no room for its files */
    struct {
        struct env_mutex mutex;
        struct env_cond changed;
        size_t beside;         /* tasks that fetch beside the one that asks */
        size_t next;           /* source to be fetched */
        uint64_t bytes;        /* fetched by all */
        struct hf_error error; /* the first */
        size_t culprit;
    } shared;
    atomic_bool stop; /* for those who fetch */
};

/* Whether somebody else merges: a command, or the caller. */
static inline bool forge_by_others(const struct piece *piece)
{
    return piece->order->settings->command.size > 0 || piece->files->merger.merge;
}

/* Asks whether to go on; false once and for all when not. */
bool forge_goes_on(struct piece *piece, uint64_t done);
enum hf_status forge_cancelled(struct hf_error *error);

/* What this machine cannot do is nobody else's fault, and never mistaken for a missing or
 * damaged source. */
enum hf_status forge_local_failure(struct hf_error *error, int errno_value, const char *what);

/* Whether the disk is full now; notes it. To be asked before any file is removed. */
bool forge_disk_is_full(struct piece *piece);

/* Reads an object into the file, over whatever is there. */
enum hf_status forge_get_object(struct piece *piece, struct view key, int fd,
                                const struct progress *progress, struct hf_error *error);

/* Fetches all sources, a few at once. */
enum hf_status forge_fetch_all(struct piece *piece, struct hf_error *error);

/* Closes what the store has lent. */
void forge_give_back(struct piece *piece);

#endif
