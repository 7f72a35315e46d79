/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_writer.c: writes a fenced object under a lock that may be lost; the object never goes back
 * to an older value.
 *
 *     fenced_writer [URL]     for example: fenced_writer sqlite:jobs.db
 *
 * Several writers may run at once. Each acquires the lock, reads the number, and writes the next
 * number with its token. If a writer is paused for longer than its lease and continues after
 * another writer has written, its write is refused with FENCED. A check before the write could not
 * have prevented this, because the pause may come after the check. */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define OBJECT "examples/counter"

static enum hf_status next_number(struct hf_client *client, long *ret_number,
                                  struct hf_error *error)
{
    void *data;
    size_t size;
    char text[32] = "0";
    enum hf_status status =
        hf_fenced_get(client, OBJECT, sizeof text - 1, &data, &size, NULL, error);
    if (status == HF_OK) {
        snprintf(text, sizeof text, "%.*s", (int)size, (const char *)data);
        hf_free(data);
    } else if (status != HF_NOT_FOUND) {
        return status;
    }
    *ret_number = strtol(text, NULL, 10) + 1;
    return HF_OK;
}

int main(int argc, char **argv)
{
    struct hf_client *client = NULL;
    struct hf_lock *lock = NULL;
    struct hf_error error;
    long number = 0;
    enum hf_status status = hf_client_open(argc > 1 ? argv[1] : "mem:", NULL, &client, &error);
    if (status == HF_OK)
        status = hf_lock_new(client, "counter", NULL, &lock, &error);
    if (status == HF_OK)
        status = hf_lock_acquire(lock, /* wait_ms */ 60000, &error);
    if (status == HF_OK)
        status = next_number(client, &number, &error);
    if (status == HF_OK) {
        char text[32];
        int size = snprintf(text, sizeof text, "%ld", number);
        status = hf_fenced_put(lock, OBJECT, text, (size_t)size, &error);
    }
    if (status == HF_OK)
        printf("%ld, with token %" PRIu64 "\n", number, hf_lock_token(lock));
    else
        fprintf(stderr, "%s: %s\n", hf_status_name(status), error.why);
    hf_lock_free(lock); /* releases the lock */
    hf_client_close(client);
    return hf_status_exit_code(status);
}
