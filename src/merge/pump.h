/* pump.h: sources that are read ahead.
 *
 * The merge takes batches from its sources one by one. Threads of the pump, if it has any, fill
 * the spare batches meanwhile; when the one that is needed is not there and nobody is at it, the
 * merge fills it itself. So the work is shared whatever the shares turn out to be, and with no
 * threads at all the same code reads everything in turn.
 *
 * A batch that was handed out belongs to the merge until it asks for the next of that source. */
#ifndef MERGE_PUMP_H
#define MERGE_PUMP_H

#include "env/env.h"
#include "merge/source.h"

struct pump {
    struct env *env;
    struct source *sources;
    size_t source_count;
    struct env_task *tasks[MERGE_THREADS_MAX];
    size_t task_count;
    struct {
        struct env_mutex mutex;
        struct env_cond work;   /* for the threads: something to fill, or the end */
        struct env_cond filled; /* for the merge */
        struct source **queue;  /* a ring: sources with room for a batch */
        size_t queue_first;
        size_t queue_count;
        bool stopped;
    } shared;
};

/* With `threads` besides the caller's own. */
enum hf_status pump_start(struct pump *pump, struct env *env, struct source *sources,
                          size_t count, size_t threads, struct hf_error *error);

/* The next batch, or NULL at the end of the source; then source->error tells whether it is a
 * good end. */
const struct batch *pump_next(struct pump *pump, struct source *source);

/* Ends and joins the threads. Right after a start that failed, too. */
void pump_stop(struct pump *pump);

#endif
