#include "store/s3/crew.h"

#include "base/check.h"

/* One batch; lives on the stack of the one who brought it. */
struct crew_job {
    void (*run)(void *argument, size_t index);
    void *argument;
    size_t count;
    size_t next;     /* the first index nobody has taken */
    size_t finished; /* indices whose run has returned */
    size_t room;     /* helpers that may still join */
    struct crew_job *following;
};

void crew_init(struct crew *crew, struct env *env, size_t limit)
{
    check(limit <= CREW_MAX);
    *crew = (struct crew){ .env = env, .limit = limit };
    env_mutex_init(env, &crew->shared.mutex);
    env_cond_init(env, &crew->shared.work);
    env_cond_init(env, &crew->shared.done);
}

void crew_release(struct crew *crew)
{
    env_mutex_lock(&crew->shared.mutex);
    check(!crew->shared.first);
    crew->shared.closing = true;
    env_cond_broadcast(&crew->shared.work);
    env_mutex_unlock(&crew->shared.mutex);
    for (size_t i = 0; i < crew->shared.started; i++)
        env_task_join(crew->env, crew->shared.helpers[i]);
    env_cond_release(&crew->shared.done);
    env_cond_release(&crew->shared.work);
    env_mutex_release(&crew->shared.mutex);
}

/* Works on the job until nothing of it is left to take. */
static void work_locked(struct crew *crew, struct crew_job *job)
{
    while (job->next < job->count) {
        size_t index = job->next++;
        env_mutex_unlock(&crew->shared.mutex);
        job->run(job->argument, index);
        env_mutex_lock(&crew->shared.mutex);
        job->finished++;
    }
}

static struct crew_job *find_job_locked(struct crew *crew)
{
    struct crew_job *job = crew->shared.first;
    while (job && (job->next == job->count || job->room == 0))
        job = job->following;
    return job;
}

static void help(void *argument)
{
    struct crew *crew = argument;
    env_mutex_lock(&crew->shared.mutex);
    while (!crew->shared.closing) {
        struct crew_job *job = find_job_locked(crew);
        if (job) {
            job->room--;
            work_locked(crew, job);
            job->room++;
            env_cond_broadcast(&crew->shared.done);
            continue;
        }
        crew->shared.idle++;
        env_cond_wait(&crew->shared.work, &crew->shared.mutex);
        crew->shared.idle--;
    }
    env_mutex_unlock(&crew->shared.mutex);
}

/* Fewer helpers than wanted only make the batch slower, so failing to start one is no error. */
static void find_helpers_locked(struct crew *crew, size_t wanted)
{
    size_t ready = crew->shared.idle;
    struct hf_error error;
    while (ready < wanted && crew->shared.started < crew->limit &&
           env_task_start(crew->env, help, crew, &crew->shared.helpers[crew->shared.started],
                          &error) == HF_OK) {
        crew->shared.started++;
        ready++;
    }
}

static void remove_job_locked(struct crew *crew, struct crew_job *job)
{
    struct crew_job **at = &crew->shared.first;
    while (*at != job)
        at = &(*at)->following;
    *at = job->following;
}

void crew_run(struct crew *crew, size_t width, size_t count, void (*run)(void *, size_t),
              void *argument)
{
    if (width > count)
        width = count;
    if (count == 0)
        return;
    struct crew_job job = {
        .run = run, .argument = argument, .count = count, .room = width - 1
    };
    env_mutex_lock(&crew->shared.mutex);
    struct crew_job **last = &crew->shared.first;
    while (*last)
        last = &(*last)->following;
    *last = &job;
    find_helpers_locked(crew, width - 1);
    if (width > 1)
        env_cond_broadcast(&crew->shared.work);
    work_locked(crew, &job);
    while (job.finished < job.count || job.room < width - 1)
        env_cond_wait(&crew->shared.done, &crew->shared.mutex);
    remove_job_locked(crew, &job);
    env_mutex_unlock(&crew->shared.mutex);
}
