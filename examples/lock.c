/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c: acquires one lock, works under it, and releases it.
 *
 *     lock [URL]     for example: lock sqlite:jobs.db */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct hf_client *client = NULL;
    struct hf_lock *lock = NULL;
    struct hf_error error;
    enum hf_status status = hf_client_open(argc > 1 ? argv[1] : "mem:", NULL, &client, &error);
    if (status == HF_OK)
        status = hf_lock_new(client, "deploy", NULL, &lock, &error);
    if (status == HF_OK)
        status = hf_lock_acquire(lock, /* wait_ms */ 60000, &error);
    if (status == HF_OK) {
        printf("it is ours, with token %" PRIu64 "\n", hf_lock_token(lock));
        status = hf_lock_check(lock, &error); /* before each critical step */
        if (status == HF_OK)
            printf("the work goes here\n");
        hf_lock_release(lock, status == HF_OK ? &error : NULL);
    }
    if (error.status != HF_OK)
        fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.why);
    hf_lock_free(lock); /* also leaves the queue, or releases the lock if still held */
    hf_client_close(client);
    return hf_status_exit_code(error.status);
}
