/* SPDX-License-Identifier: Apache-2.0 */
/* semaphore.c: lets up to three of many workers work at the same time. Here, each worker is a
 * thread. The workers could also be processes, or machines that share a bucket: all they need in
 * common is the store and a name.
 *
 *     semaphore [URL]     for example: semaphore sqlite:jobs.db */
#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define WORKERS 12
#define SLOTS   3

static struct hf_client *client;
static atomic_int working, most, failed;

static void note_most(int now)
{
    int before = atomic_load(&most);
    while (before < now && !atomic_compare_exchange_weak(&most, &before, now))
        ;
}

static void do_one_step(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

static void *work(void *unused)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_lock *lock = NULL;
    struct hf_error error;
    options.mode = HF_SLOTS;
    options.slots = SLOTS;
    /* One handle per worker, because each handle takes one slot. */
    if (hf_lock_new(client, "downloads", &options, &lock, &error) == HF_OK &&
        hf_lock_acquire(lock, HF_WAIT_FOREVER, &error) == HF_OK) {
        note_most(atomic_fetch_add(&working, 1) + 1);
        for (int i = 0; i < 3 && hf_lock_check(lock, &error) == HF_OK; i++)
            do_one_step(); /* only while we hold the slot */
        atomic_fetch_sub(&working, 1);
        hf_lock_release(lock, error.status == HF_OK ? &error : NULL);
    }
    if (error.status != HF_OK) {
        fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.why);
        atomic_fetch_add(&failed, 1);
    }
    hf_lock_free(lock);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t workers[WORKERS];
    struct hf_error error;
    int started = 0;
    if (hf_client_open(argc > 1 ? argv[1] : "mem:", NULL, &client, &error) != HF_OK) {
        fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.why);
        return hf_status_exit_code(error.status);
    }
    while (started < WORKERS && pthread_create(&workers[started], NULL, work, NULL) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(workers[i], NULL);
    hf_client_close(client);
    printf("%d workers, never more than %d at a time\n", started, atomic_load(&most));
    return started < WORKERS || atomic_load(&failed) > 0 || atomic_load(&most) > SLOTS;
}
