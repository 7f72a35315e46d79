/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c: the only part of `top` that makes calls of the library. A read that fails gives no
 * snapshot, so the screen keeps the rows of the one before. */
#include "top/reader.h"

#include "base/error.h"
#include "holdfast/store.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    struct env *env;
    const struct reader_options *options;
    struct hf_store *store;
    struct hf_client *client;
    struct hf_watch *watch;
    struct hf_compact *partitions[TOP_PARTITIONS_MAX];
    uint64_t granted, ended; /* since the first read, which sees everything as new */
    bool has_looked;
    struct env_task *task;
    struct env_mutex mutex; /* guards the members below */
    struct env_cond changed;
    struct snapshot *newest;
    struct hf_error trouble;
    bool stopping;
};

/* ---- One read ------------------------------------------------------------------------ */

struct look {
    struct reader *reader;
    struct snapshot *snapshot;
};

static bool take_changed_lease(void *argument, enum hf_change change,
                               const struct hf_lease_info *lease)
{
    struct look *look = argument;
    if (look->reader->has_looked && change == HF_CHANGE_GRANTED)
        look->reader->granted++;
    if (change == HF_CHANGE_ENDED)
        look->reader->ended++;
    if (change != HF_CHANGE_ENDED && change != HF_CHANGE_LEFT)
        snapshot_add_lock(look->snapshot, lease);
    return true;
}

static void count_damaged_table(void *argument, const char *table, const struct hf_error *why)
{
    struct look *look = argument;
    (void)table;
    (void)why;
    look->snapshot->damaged++;
}

static void read_partitions(struct reader *reader, struct snapshot *snapshot)
{
    const struct reader_options *options = reader->options;
    for (size_t i = 0; i < options->partition_count; i++) {
        struct top_partition *partition = &snapshot->partitions[i];
        partition->name = snapshot_text(snapshot, options->partitions[i]);
        partition->status = HF_COMPACT_STATUS;
        if (!reader->partitions[i] &&
            hf_compact_open(reader->client, options->partitions[i], NULL,
                            &reader->partitions[i], NULL) != HF_OK)
            continue;
        partition->found = hf_compact_get_status(reader->partitions[i], NULL,
                                                 &partition->status, NULL) == HF_OK;
    }
    snapshot->partition_count = options->partition_count;
}

static bool take_index(void *argument, const char *name)
{
    struct look *look = argument;
    struct snapshot *snapshot = look->snapshot;
    if (snapshot->index_count == TOP_INDEXES_MAX)
        return false;
    struct top_index *found = &snapshot->indexes[snapshot->index_count];
    struct hf_index *index;
    found->name = snapshot_text(snapshot, name);
    found->stats = HF_INDEX_STATS;
    if (!found->name)
        return false;
    snapshot->index_count++;
    if (hf_index_open(look->reader->client, name, &index, NULL) == HF_OK) {
        found->read = hf_index_status(index, NULL, &found->stats, NULL) == HF_OK;
        hf_index_close(index);
    }
    return true;
}

static struct snapshot *read_store(struct reader *reader, struct hf_error *trouble)
{
    struct snapshot *snapshot = snapshot_new(env_now(reader->env));
    if (!snapshot) {
        error_no_memory(trouble);
        return NULL;
    }
    struct look look = { reader, snapshot };
    enum hf_status status = hf_watch_look(reader->watch, take_changed_lease, &look, trouble);
    if (status == HF_OK) {
        reader->has_looked = true;
        snapshot_finish(snapshot);
        read_partitions(reader, snapshot);
        status = hf_index_list(reader->client, take_index, &look, trouble);
    }
    snapshot->granted = reader->granted;
    snapshot->ended = reader->ended;
    (void)hf_client_stats(reader->client, &snapshot->requests, NULL);
    if (status == HF_OK && snapshot->no_memory)
        status = error_no_memory(trouble);
    if (status == HF_OK)
        return snapshot;
    snapshot_free(snapshot);
    return NULL;
}

/* ---- The thread ---------------------------------------------------------------------- */

static void read_again_and_again(void *argument)
{
    struct reader *reader = argument;
    env_mutex_lock(&reader->mutex);
    while (!reader->stopping) {
        struct hf_error trouble;
        struct mono_time next = mono_add(env_now(reader->env), reader->options->interval);
        error_clear(&trouble);
        env_mutex_unlock(&reader->mutex);
        struct snapshot *snapshot = read_store(reader, &trouble);
        env_mutex_lock(&reader->mutex);
        reader->trouble = trouble;
        if (snapshot) {
            snapshot_free(reader->newest);
            reader->newest = snapshot;
        }
        while (!reader->stopping && mono_before(env_now(reader->env), next))
            env_cond_wait_until(&reader->changed, &reader->mutex, next);
    }
    env_mutex_unlock(&reader->mutex);
}

struct snapshot *reader_take(struct reader *reader, struct hf_error *trouble)
{
    env_mutex_lock(&reader->mutex);
    struct snapshot *snapshot = reader->newest;
    reader->newest = NULL;
    *trouble = reader->trouble;
    env_mutex_unlock(&reader->mutex);
    return snapshot;
}

/* ---- Begin and end ------------------------------------------------------------------- */

/* Nothing is created. */
static enum hf_status open_watched_store(struct reader *reader, struct hf_error *error)
{
    const struct reader_options *options = reader->options;
    struct hf_store_options store_options = HF_STORE_OPTIONS;
    struct hf_client_options client_options = HF_CLIENT_OPTIONS;
    struct hf_list_options list_options = HF_LIST_OPTIONS;
    store_options.coordinates = store_options.must_exist = true;
    client_options.ns = options->name_space;
    list_options.waiting = true;
    list_options.damaged = count_damaged_table;
    enum hf_status status =
        hf_store_open(options->store, &store_options, &reader->store, error);
    if (status == HF_OK)
        status = hf_client_open_on(reader->store, &client_options, &reader->client, error);
    return status == HF_OK ? hf_watch_new(reader->client, options->prefix, &list_options,
                                          &reader->watch, error)
                           : status;
}

static void release_reader(struct reader *reader)
{
    for (size_t i = 0; i < TOP_PARTITIONS_MAX; i++)
        hf_compact_close(reader->partitions[i]);
    hf_watch_free(reader->watch);
    hf_client_close(reader->client);
    hf_store_close(reader->store);
    snapshot_free(reader->newest);
    env_cond_release(&reader->changed);
    env_mutex_release(&reader->mutex);
    free(reader);
}

enum hf_status reader_start(struct env *env, const struct reader_options *options,
                            struct reader **ret_reader, struct hf_error *error)
{
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return error_no_memory(error);
    reader->env = env;
    reader->options = options;
    env_mutex_init(env, &reader->mutex);
    env_cond_init(env, &reader->changed);
    enum hf_status status = open_watched_store(reader, error);
    if (status == HF_OK)
        status = env_task_start(env, read_again_and_again, reader, &reader->task, error);
    if (status != HF_OK) {
        release_reader(reader);
        return status;
    }
    *ret_reader = reader;
    return HF_OK;
}

void reader_stop(struct reader *reader)
{
    if (!reader)
        return;
    env_mutex_lock(&reader->mutex);
    reader->stopping = true;
    env_cond_signal(&reader->changed);
    env_mutex_unlock(&reader->mutex);
    env_task_join(reader->env, reader->task);
    release_reader(reader);
}
