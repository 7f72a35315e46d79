/* SPDX-License-Identifier: Apache-2.0 */
/* store_contract_races.c: many tasks on one key: exactly one winner, no torn reads. */
#include "store_contract.h"

#include <stdio.h>
#include <stdlib.h>

/* Tasks meet here at the start of each round. */
struct barrier {
    struct env_mutex mutex;
    struct env_cond turned;
    unsigned count, waiting, turn;
};

static void barrier_wait(struct barrier *barrier)
{
    env_mutex_lock(&barrier->mutex);
    unsigned turn = barrier->turn;
    if (++barrier->waiting == barrier->count) {
        barrier->waiting = 0;
        barrier->turn++;
        env_cond_broadcast(&barrier->turned);
    }
    while (turn == barrier->turn)
        env_cond_wait(&barrier->turned, &barrier->mutex);
    env_mutex_unlock(&barrier->mutex);
}

struct race {
    struct contract *contract;
    struct barrier barrier;
    struct env_mutex mutex; /* guards the winner of the round */
    unsigned winners;
    unsigned winner;
    struct etag etag;
    bool by_match;
    bool stop;
};

struct racer {
    struct race *race;
    unsigned number;
};

static void key_of_round(struct race *race, unsigned round, struct contract_key *key)
{
    char name[32];
    snprintf(name, sizeof name, "race-%u", race->by_match ? 0 : round);
    contract_key(race->contract, view_of(name), key);
}

/* What one racer does in one round: puts, and notes it when it won. A conflict is the only
 * other answer that a store without faults may give. */
static void run_round(struct racer *racer, unsigned round)
{
    struct race *race = racer->race;
    struct contract_key key;
    char body[48];
    key_of_round(race, round, &key);
    snprintf(body, sizeof body, "round %u racer %u", round, racer->number);
    struct put_call put = { .key = key.view,
                            .body = view_of(body),
                            .condition = race->by_match && round > 0 ? if_match(&race->etag)
                                                                     : if_absent() };
    barrier_wait(&race->barrier);
    enum hf_status status = store_put(race->contract->store, &put);
    env_mutex_lock(&race->mutex);
    if (status == HF_OK) {
        race->winners++;
        race->winner = racer->number;
    } else if (status != HF_CONFLICT && status != HF_UNSURE) {
        contract_fail(race->contract, __FILE__, __LINE__, "round %u: %s", round, put.error.why);
    }
    env_mutex_unlock(&race->mutex);
    barrier_wait(&race->barrier);
}

/* The first racer counts: one winner, whose bytes are there. */
static void judge_round(struct race *race, unsigned round)
{
    struct contract *c = race->contract;
    struct contract_key key;
    struct buffer body = BUFFER_INIT(KIB);
    char expected[48];
    key_of_round(race, round, &key);
    struct get_call get = { .key = key.view, .body = &body };
    enum hf_status status = store_get(c->store, &get);
    snprintf(expected, sizeof expected, "round %u racer %u", round, race->winner);
    if (race->winners != 1)
        contract_fail(c, __FILE__, __LINE__, "round %u had %u winners", round, race->winners);
    else if (status != HF_OK || !view_equal(buffer_view(&body), view_of(expected)))
        contract_fail(c, __FILE__, __LINE__, "round %u: the winner's bytes are not there",
                      round);
    race->etag = get.info.etag;
    race->winners = 0;
    race->stop = c->failure[0] != '\0';
    buffer_release(&body);
}

static void run_racer(void *argument)
{
    struct racer *racer = argument;
    struct race *race = racer->race;
    for (unsigned round = 0; round < race->contract->rounds; round++) {
        run_round(racer, round);
        if (racer->number == 0)
            judge_round(race, round);
        barrier_wait(&race->barrier);
        if (race->stop)
            return;
    }
}

static void race_all(struct contract *c, bool by_match)
{
    struct race race = { .contract = c, .by_match = by_match };
    struct racer *racers = calloc(c->racers, sizeof *racers);
    struct env_task **tasks = calloc(c->racers, sizeof(struct env_task *));
    race.barrier.count = c->racers;
    env_mutex_init(c->env, &race.mutex);
    env_mutex_init(c->env, &race.barrier.mutex);
    env_cond_init(c->env, &race.barrier.turned);
    for (unsigned i = 0; i < c->racers; i++) {
        racers[i] = (struct racer){ &race, i };
        if (env_task_start(c->env, run_racer, &racers[i], &tasks[i], NULL) != HF_OK)
            abort(); /* the others wait for it at the barrier */
    }
    for (unsigned i = 0; i < c->racers; i++)
        env_task_join(c->env, tasks[i]);
    env_mutex_release(&race.mutex);
    env_mutex_release(&race.barrier.mutex);
    env_cond_release(&race.barrier.turned);
    free(tasks);
    free(racers);
}

static void race_for_absence(struct contract *c)
{
    race_all(c, /* by_match */ false);
}

static void race_for_one_version(struct contract *c)
{
    race_all(c, /* by_match */ true);
}

/* ---- No torn reads ------------------------------------------------------------------- */

#define TORN_BODY 3000

struct torn {
    struct contract *contract;
    struct env_mutex mutex;
    unsigned writers_left;
};

static bool writers_left(struct torn *torn)
{
    env_mutex_lock(&torn->mutex);
    bool left = torn->writers_left > 0;
    env_mutex_unlock(&torn->mutex);
    return left;
}

static void write_uniform(void *argument)
{
    struct torn *torn = argument;
    struct contract_key key;
    char body[TORN_BODY];
    contract_key(torn->contract, VIEW("torn"), &key);
    for (unsigned i = 0; i < torn->contract->rounds; i++) {
        memset(body, (int)('a' + i % 26), sizeof body);
        struct put_call put = { .key = key.view, .body = { body, sizeof body - i % 7 } };
        if (store_put(torn->contract->store, &put) != HF_OK)
            contract_fail(torn->contract, __FILE__, __LINE__, "put: %s", put.error.why);
    }
    env_mutex_lock(&torn->mutex);
    torn->writers_left--;
    env_mutex_unlock(&torn->mutex);
}

static void read_uniform(void *argument)
{
    struct torn *torn = argument;
    struct contract_key key;
    struct buffer body = BUFFER_INIT(2 * TORN_BODY);
    contract_key(torn->contract, VIEW("torn"), &key);
    while (writers_left(torn)) {
        buffer_clear(&body);
        struct get_call get = { .key = key.view, .body = &body };
        enum hf_status status = store_get(torn->contract->store, &get);
        bool uniform = body.size == get.info.size;
        for (size_t i = 1; uniform && i < body.size; i++)
            uniform = body.data[i] == body.data[0];
        if (status == HF_OK && !uniform)
            contract_fail(torn->contract, __FILE__, __LINE__, "a torn read");
        if (status != HF_OK)
            contract_fail(torn->contract, __FILE__, __LINE__, "get: %s", get.error.why);
    }
    buffer_release(&body);
}

static void reads_are_whole(struct contract *c)
{
    enum { WRITERS = 4, READERS = 4 };
    struct torn torn = { .contract = c, .writers_left = WRITERS };
    struct env_task *tasks[WRITERS + READERS];
    EXPECT(c, contract_put(c, VIEW("torn"), VIEW("zzz"), NULL));
    env_mutex_init(c->env, &torn.mutex);
    for (int i = 0; i < WRITERS + READERS; i++)
        if (env_task_start(c->env, i < WRITERS ? write_uniform : read_uniform, &torn, &tasks[i],
                           NULL) != HF_OK)
            abort();
    for (int i = 0; i < WRITERS + READERS; i++)
        env_task_join(c->env, tasks[i]);
    env_mutex_release(&torn.mutex);
}

static const struct contract_row rows[] = {
    { "of many tasks that put if absent exactly one wins", race_for_absence },
    { "of many tasks that put if match one ETag exactly one wins", race_for_one_version },
    { "a read beside writes shows one whole version", reads_are_whole },
};

const struct contract_rows contract_races = { rows, sizeof rows / sizeof rows[0] };
