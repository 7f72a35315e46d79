/* SPDX-License-Identifier: Apache-2.0 */
/* crash.h: what is left of a store when its process is killed, or the power fails, anywhere in
 * the middle of a call. For every store that lives in files.
 *
 * A story is a few calls made beforehand, and a few more that are disturbed. After each
 * disturbance the store is opened again and judged: every object is whole and either as the
 * acknowledged calls left it or as the one under way would have; its ETag is the one it had; a
 * conditional put, a listing and a delete work.
 *
 * - crash_by_kill runs the calls in a child under ptrace, again and again, and kills it at each
 *   entry to and exit from a system call in turn.
 * - crash_by_power_loss runs them once in such a child and records every change that the calls
 *   make in the folder, and every sync. Then it builds, for each moment in that record, folders
 *   as a disk could show them after a power loss at that moment: changes that were synced are
 *   there, of the others any subset, and of a write any first part. Data of a file is durable
 *   after a sync of that file, a name after a sync of its directory and not before.
 *
 * The whole is seeded: the same subsets in every run. Files named "...-shm" are not modelled.
 * Both report the first state that is judged wrong by failing the cmocka test. */
#ifndef TESTS_CRASH_H
#define TESTS_CRASH_H

#include "store/store.h"

#include <sys/types.h>

enum crash_act { CRASH_PUT, CRASH_PUT_FILE, CRASH_CHANGE, CRASH_DELETE };

/* One call. A put of a key that is there is by its ETag, else if absent; a delete by its ETag; a
 * change knows the version that is there. */
struct crash_step {
    enum crash_act act;
    const char *key;
    size_t size; /* of the body, which is made of `letter` */
    char letter;
};

#define CRASH_STEPS_MAX 8

struct crash_story {
    struct crash_step before[CRASH_STEPS_MAX]; /* up to the first without a key */
    struct crash_step steps[CRASH_STEPS_MAX];
    bool batch; /* the steps are one batch: all puts or all deletes, each of another key */
    /* Another process has the store open from before the steps until after a kill. When the child
     * is dead, and while that process is idle, a third opens the store and closes it. */
    bool beside;
};

/* The store under test. */
struct crash_store {
    const char *url; /* with one %s for the folder, which exists and is empty at first */
    /* The same without waiting for the disk: opens most of the rebuilt folders. May be NULL. */
    const char *url_fast;
    /* A rebuilt file has another inode number than the recorded one; a store that keeps the
     * number in an attribute of the file gets it corrected here. May be NULL. */
    void (*relabel)(void *attribute, size_t size, ino_t inode);
    /* Whether the ETag is that of a write of ours, whole with all it needs. May be NULL. */
    bool (*knows_etag)(const struct etag *etag);
    /* A reader who runs while the writer is stopped must not see what a power loss could take
     * back; where `reads_durable`, crash_by_power_loss asks one at every moment. */
    bool reads_durable;
};

void crash_by_kill(const struct crash_store *store, const struct crash_story *story);

struct crash_plan {
    uint64_t seed;
    size_t subsets; /* tried at each moment, where there are too many to try all */
};

void crash_by_power_loss(const struct crash_store *store, const struct crash_story *story,
                         struct crash_plan plan);

#endif
