/* crew.h: a bounded set of tasks that help with batches of requests. They are started when
 * first needed and kept until the store is closed; whoever brings a batch works on it too, so a
 * batch gets done even where no task can be started. */
#ifndef STORE_S3_CREW_H
#define STORE_S3_CREW_H

#include "env/env.h"

#define CREW_MAX 512

struct crew_job;

struct crew {
    struct env *env;
    size_t limit; /* helpers at most */
    struct {
        struct env_mutex mutex; /* guards what stands beside it, and the jobs */
        struct env_cond work;
        struct env_cond done;
        struct crew_job *first;
        struct env_task *helpers[CREW_MAX];
        size_t started;
        size_t idle;
        bool closing;
    } shared;
};

void crew_init(struct crew *crew, struct env *env, size_t limit);

/* No job may be under way. Joins the helpers. */
void crew_release(struct crew *crew);

/* run(argument, 0) ... run(argument, count - 1), in any order, at most `width` at a time;
 * returns when all have returned. */
void crew_run(struct crew *crew, size_t width, size_t count, void (*run)(void *, size_t),
              void *argument);

#endif
