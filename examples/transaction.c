/* SPDX-License-Identifier: Apache-2.0 */
/* transaction.c: changes two accounts together or not at all.
 *
 *     transaction [URL]     for example: transaction sqlite:bank.db
 *
 * If a client dies before the commit, nothing needs to be repaired: the next client that wants one
 * of the accounts rolls the transaction back. */
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const accounts[] = { "accounts/ann", "accounts/joe" };

/* The balance of an account; a new account has 100. An account that cannot be read is not new. */
static enum hf_status read_balance(struct hf_client *client, const char *name,
                                   long *ret_balance, struct hf_error *error)
{
    void *data;
    size_t size;
    char text[32] = "100";
    enum hf_status status =
        hf_key_get(client, name, sizeof text - 1, &data, &size, NULL, error);
    if (status == HF_OK) {
        snprintf(text, sizeof text, "%.*s", (int)size, (const char *)data);
        hf_free(data);
    } else if (status != HF_NOT_FOUND) {
        return status;
    }
    *ret_balance = strtol(text, NULL, 10);
    return HF_OK;
}

static enum hf_status write_balance(struct hf_key *key, long balance, struct hf_error *error)
{
    char text[32];
    int size = snprintf(text, sizeof text, "%ld", balance);
    return hf_key_update(key, text, (size_t)size, NULL, NULL, error);
}

int main(int argc, char **argv)
{
    struct hf_client *client = NULL;
    struct hf_txn *txn = NULL;
    struct hf_key *keys[2];
    struct hf_error error;
    if (hf_client_open(argc > 1 ? argv[1] : "mem:", NULL, &client, &error) == HF_OK &&
        hf_txn_begin(client, NULL, &txn, &error) == HF_OK &&
        hf_txn_acquire(txn, accounts, 2, NULL, /* wait_ms */ 60000, keys, &error) == HF_OK) {
        long ann, joe; /* no other client can change them now */
        if (read_balance(client, accounts[0], &ann, &error) == HF_OK &&
            read_balance(client, accounts[1], &joe, &error) == HF_OK &&
            write_balance(keys[0], ann - 10, &error) == HF_OK &&
            write_balance(keys[1], joe + 10, &error) == HF_OK &&
            hf_txn_commit(txn, NULL, &error) == HF_OK)
            printf("ann has %ld, joe %ld\n", ann - 10, joe + 10);
    }
    if (error.status != HF_OK)
        fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.why);
    hf_txn_free(txn); /* frees its keys too; rolls back if undecided */
    hf_client_close(client);
    return hf_status_exit_code(error.status);
}
