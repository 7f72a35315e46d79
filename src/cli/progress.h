/* progress.h: one line on the terminal that says how far a long transfer is. Shown only when
 * stderr is a terminal and the work has taken a second; gone without a trace at the end. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/cli.h"

struct gauge {
    struct env *env;
    bool visible; /* there is a terminal to show it on */
    struct view label;
    uint64_t total;  /* bytes of the whole job; 0: as each step says */
    uint64_t before; /* bytes of the job done before the present object */
    uint64_t size;   /* bytes of the present object ... */
    unsigned pass;   /* ... which is moved `passes` times, now for this one */
    unsigned passes;
    struct mono_time start;
    struct mono_time last_shown;
    size_t width; /* columns of the line that stands there now */
};

void gauge_start(struct gauge *gauge, struct cli *cli, struct view label);

/* What the store calls; stops the transfer when a signal has come. */
struct progress gauge_progress(struct gauge *gauge);

/* The same for the public calls; the argument is the gauge. */
bool gauge_watch(void *gauge, const struct hf_progress *progress);

/* The step itself, for streams that are not the store's. `total` 0 means unknown. */
bool gauge_step(struct gauge *gauge, uint64_t done, uint64_t total);

/* Whether the line is to be drawn again: for those who have words of their own. */
bool gauge_is_due(struct gauge *gauge);

/* Shows words of one's own on the line instead, if there is a terminal. */
void gauge_say(struct gauge *gauge, struct view words);

/* Takes the line off the terminal. */
void gauge_clear(struct gauge *gauge);

#endif
