/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c: a counter that many clients change, one at a time, and that anyone can read.
 *
 *     keys [URL]     for example: keys sqlite:jobs.db
 *
 * The state of a key changes only under its lease, and in this example only if it still has the
 * version that was read. */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME "examples/visits"

static enum hf_status read_visits(struct hf_client *client, long *ret_visits,
                                  struct hf_key_info *info, struct hf_error *error)
{
    void *data;
    size_t size;
    char text[32] = "0";
    enum hf_status status =
        hf_key_get(client, NAME, sizeof text - 1, &data, &size, info, error);
    if (status == HF_OK) {
        snprintf(text, sizeof text, "%.*s", (int)size, (const char *)data);
        hf_free(data);
    } else if (status != HF_NOT_FOUND) { /* NOT_FOUND: the key has no value yet */
        return status;
    }
    *ret_visits = strtol(text, NULL, 10);
    return HF_OK;
}

int main(int argc, char **argv)
{
    struct hf_client *client = NULL;
    struct hf_key *key = NULL;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_error error;
    long visits = 0;
    if (hf_client_open(argc > 1 ? argv[1] : "mem:", NULL, &client, &error) == HF_OK &&
        hf_key_new(client, NAME, NULL, &key, &error) == HF_OK &&
        hf_key_acquire(key, /* wait_ms */ 60000, NULL, &error) == HF_OK &&
        read_visits(client, &visits, &info, &error) == HF_OK) {
        struct hf_key_if unchanged = HF_KEY_IF;
        char text[32];
        int size = snprintf(text, sizeof text, "%ld", visits + 1);
        unchanged.version_set = true;
        unchanged.version = info.removed ? 0 : info.version;
        if (hf_key_update(key, text, (size_t)size, &unchanged, &info, &error) == HF_OK &&
            hf_key_release(key, HF_COMMIT, &error) == HF_OK)
            printf("%s visits, version %" PRIu64 "\n", text, info.version);
    }
    if (error.status != HF_OK)
        fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.why);
    hf_key_free(key); /* releases it if that has not been done */
    hf_client_close(client);
    return hf_status_exit_code(error.status);
}
