/* SPDX-License-Identifier: Apache-2.0 */
/* client.h: makes a client use a server in place of a store of objects. */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "lock/server.h"

struct change;
struct txn_record;

/* Lets the client use its server, if its store is one. Called before the client is used. */
void client_use_server(struct hf_client *client);

/* The parts of it. */
void lease_ask(struct table_ref *ref, struct request *request);
enum hf_status lease_list(struct server_list *list, struct hf_error *error);
enum hf_status key_list(struct server_key_list *list, struct hf_error *error);
enum hf_status txn_list(struct server_txn_list *list, struct hf_error *error);
enum hf_status timeline_at_server(struct server_timeline *timeline, struct hf_error *error);
enum hf_status key_change_at_server(struct table_ref *ref, struct change *change,
                                    struct mono_time deadline, struct hf_error *error);
enum hf_status key_read_state(struct hf_client *client, struct view name, struct buffer *body,
                              struct hf_key_info *info, struct hf_error *error);
enum hf_status key_describe_at_server(struct hf_client *client, struct view name,
                                      struct key_description *ret_description,
                                      struct hf_error *error);
enum hf_status txn_begin_at_server(struct hf_client *client, char ret_id[HF_TXN_ID_SIZE + 1],
                                   struct hf_error *error);
enum hf_status txn_decide_at_server(struct hf_client *client, struct view id,
                                    enum hf_decision decision, enum hf_decision *ret_decided,
                                    struct hf_error *error);
enum hf_status txn_read_at_server(struct hf_client *client, struct view id,
                                  struct txn_record *ret_record, struct hf_error *error);

#endif
