/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: the table of what a client asks a server for. */
#include "client/client.h"

#include "store/server/server.h"

static const struct server_ops over_http = {
    .ask = lease_ask,
    .change = key_change_at_server,
    .read_state = key_read_state,
    .describe = key_describe_at_server,
    .begin_txn = txn_begin_at_server,
    .decide_txn = txn_decide_at_server,
    .read_txn = txn_read_at_server,
    .list = lease_list,
    .list_keys = key_list,
    .list_txns = txn_list,
    .timeline = timeline_at_server,
};

void client_use_server(struct hf_client *client)
{
    if (server_of(client_store(client)))
        client_set_server(client, &over_http);
}
