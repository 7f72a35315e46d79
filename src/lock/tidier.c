#include "lock/tidier.h"

#include "base/check.h"
#include "lock/handle.h"

#include <stdlib.h>

/* One try is given this long, the next comes this much later, and closing a client waits no longer
 * than that and one try. */
#define TRY_TIME   SPAN_S(2)
#define TRY_AGAIN  SPAN_S(1)
#define CLOSE_TIME SPAN_S(4)

struct loose_end {
    struct loose_end *next;
    struct place *place;
    enum table_op_kind kind;
    char id[LEASE_ID_MAX + 1];
    uint64_t token;
    struct mono_time try_at;
    struct mono_time give_up_at; /* nobody can mistake it for held any more */
    size_t note_size;
    char note[];
};

void tidier_init(struct tidier *tidier, struct env *env)
{
    *tidier = (struct tidier){ 0 };
    env_mutex_init(env, &tidier->mutex);
    env_cond_init(env, &tidier->changed);
}

static void take_out_locked(struct tidier *tidier, struct loose_end *loose)
{
    struct loose_end **at = &tidier->first;
    while (*at != loose)
        at = &(*at)->next;
    *at = loose->next;
    tidier->count--;
}

/* True when it is settled. The write shuts out whatever was under way. */
static bool try_once(struct hf_client *client, struct loose_end *loose)
{
    struct request request, *requests[] = { &request };
    request_init(&request, loose->place, loose->kind, mono_add(env_now(client->env), TRY_TIME));
    request.op.settle = true;
    request.table.id = view_of(loose->id);
    request.table.token = loose->token;
    request.table.note = (struct view){ loose->note, loose->note_size };
    return request_settled(place_ask(loose->place, requests, 1));
}

static void try_locked(struct hf_client *client, struct loose_end *loose)
{
    struct tidier *tidier = &client->tidier;
    struct place *place = loose->place;
    env_mutex_unlock(&tidier->mutex);
    bool settled = try_once(client, loose);
    struct mono_time now = env_now(client->env);
    env_mutex_lock(&tidier->mutex);
    loose->try_at = mono_add(now, TRY_AGAIN);
    if (!settled && mono_before(now, loose->give_up_at))
        return;
    take_out_locked(tidier, loose);
    if (!tidier->first)
        env_cond_broadcast(&tidier->changed); /* for whoever waits for that */
    free(loose);
    env_mutex_unlock(&tidier->mutex);
    place_drop(place);
    env_mutex_lock(&tidier->mutex);
}

static struct loose_end *first_locked(const struct tidier *tidier)
{
    struct loose_end *first = tidier->first;
    for (struct loose_end *loose = first; loose; loose = loose->next)
        if (mono_before(loose->try_at, first->try_at))
            first = loose;
    return first;
}

static void tidy(void *argument)
{
    struct hf_client *client = argument;
    struct tidier *tidier = &client->tidier;
    env_mutex_lock(&tidier->mutex);
    while (!tidier->stopping ||
           (tidier->first && mono_before(env_now(client->env), tidier->stop_at))) {
        struct loose_end *loose = first_locked(tidier);
        struct mono_time next = loose ? loose->try_at : (struct mono_time){ MOMENT_FAR };
        if (!mono_before(env_now(client->env), next))
            try_locked(client, loose);
        else
            env_cond_wait_until(&tidier->changed, &tidier->mutex,
                                tidier->stopping ? mono_earlier(next, tidier->stop_at) : next);
    }
    env_mutex_unlock(&tidier->mutex);
}

/* With the mutex held. */
static bool have_task_locked(struct hf_client *client)
{
    struct tidier *tidier = &client->tidier;
    struct hf_error error;
    return tidier->task ||
           env_task_start(client->env, tidy, client, &tidier->task, &error) == HF_OK;
}

void tie_up(struct place *place, enum table_op_kind kind, struct view id, uint64_t token,
            struct view note, struct span ttl)
{
    struct hf_client *client = place->client;
    struct tidier *tidier = &client->tidier;
    struct loose_end *loose = malloc(sizeof *loose + note.size);
    check(id.size <= LEASE_ID_MAX);
    env_mutex_lock(&tidier->mutex);
    bool kept = loose && tidier->count < LOOSE_ENDS_MAX && have_task_locked(client);
    if (kept) {
        struct mono_time now = env_now(client->env);
        *loose = (struct loose_end){ .next = tidier->first,
                                     .place = place,
                                     .kind = kind,
                                     .token = token,
                                     .try_at = now,
                                     .give_up_at = mono_add(now, ttl),
                                     .note_size = note.size };
        memcpy(loose->id, id.data, id.size);
        if (note.size > 0)
            memcpy(loose->note, note.data, note.size);
        tidier->first = loose;
        tidier->count++;
        env_cond_broadcast(&tidier->changed);
    }
    env_mutex_unlock(&tidier->mutex);
    if (!kept) { /* then it ends by itself, when its time is over */
        free(loose);
        place_drop(place);
    }
}

void tidier_wait(struct hf_client *client)
{
    struct tidier *tidier = &client->tidier;
    env_mutex_lock(&tidier->mutex);
    struct mono_time until = mono_add(env_now(client->env), CLOSE_TIME);
    while (tidier->first && mono_before(env_now(client->env), until))
        env_cond_wait_until(&tidier->changed, &tidier->mutex, until);
    env_mutex_unlock(&tidier->mutex);
}

void tidier_release(struct hf_client *client)
{
    struct tidier *tidier = &client->tidier;
    env_mutex_lock(&tidier->mutex);
    tidier->stopping = true;
    tidier->stop_at = mono_add(env_now(client->env), CLOSE_TIME);
    env_cond_signal(&tidier->changed);
    env_mutex_unlock(&tidier->mutex);
    if (tidier->task)
        env_task_join(client->env, tidier->task);
    while (tidier->first) {
        struct loose_end *loose = tidier->first;
        take_out_locked(tidier, loose);
        place_drop(loose->place);
        free(loose);
    }
    env_cond_release(&tidier->changed);
    env_mutex_release(&tidier->mutex);
}
