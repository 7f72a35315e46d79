/* SPDX-License-Identifier: Apache-2.0 */
/* server.h: what a client asks a server for, if its store is one. src/client implements it.
 *
 * Everything else about a lock is the same with both back ends: handles, their depth, the keeper,
 * validity, events, and the cleanup of requests that got no reply. What differs is where a request
 * goes, and each member below is called in one place, where a request would otherwise be sent to a
 * document. A call that is not here reads or writes objects, which the store of a server refuses
 * (store/server/server.h). */
#ifndef LOCK_SERVER_H
#define LOCK_SERVER_H

#include "lock/client.h"

struct change;          /* key/change.h */
struct key_description; /* key/key.h */
struct txn_record;      /* key/record.h */

/* What the server knows about the state of a key that it has granted, for the hook of the grant. */
struct server_grant {
    uint64_t token, version;
    struct view etag;
};

/* A list of leases, as hf_locks_list makes it. */
struct server_list {
    struct hf_client *client;
    struct view start;
    bool (*each)(void *argument, const struct hf_lease_info *lease);
    void *argument;
    bool stopped; /* `each` returned false */
    bool ended;   /* leases that have ended, too */
};

/* A list of keys, as hf_keys_list makes it. */
struct server_key_list {
    struct hf_client *client;
    struct view prefix;
    hf_each_key *each;
    void *argument;
};

/* A list of transactions, as hf_txns_list makes it. A server gives labels in place of the ids. */
struct server_txn_list {
    struct hf_client *client;
    enum hf_txn_state only; /* ABSENT: all */
    hf_each_txn *each;
    void *argument;
};

/* Who held a lock when, as hf_locks_timeline lists it. */
struct server_timeline {
    struct hf_client *client;
    struct hf_timeline_info *info;                   /* with the scope */
    void (*begin)(struct server_timeline *timeline); /* the info is complete */
    hf_each_hold *each;                              /* may be NULL */
    void *argument;
};

struct server_ops {
    /* In place of a swap of the table (table_ref_ask): sets the result of the request. One that
     * waits is never HELD: it waits until its deadline, or until its waiter is cancelled. */
    void (*ask)(struct table_ref *ref, struct request *request);

    /* In place of a swap of a key's state (change_ask). */
    enum hf_status (*change)(struct table_ref *ref, struct change *change,
                             struct mono_time deadline, struct hf_error *error);

    /* In place of reading a key's document and its body: appends the state to the body. NOT_FOUND:
     * it has none; `info` is set nevertheless. */
    enum hf_status (*read_state)(struct hf_client *client, struct view name,
                                 struct buffer *body, struct hf_key_info *info,
                                 struct hf_error *error);
    enum hf_status (*describe)(struct hf_client *client, struct view name,
                               struct key_description *ret_description, struct hf_error *error);

    /* In place of a swap of a transaction's record (txn_ask, txn_decide), and of reading it
     * (record_get). The server chooses the id, and does everything else that a transaction does to
     * its record and to its keys. *ret_decided: the decision, which may be another one. */
    enum hf_status (*begin_txn)(struct hf_client *client, char ret_id[HF_TXN_ID_SIZE + 1],
                                struct hf_error *error);
    enum hf_status (*decide_txn)(struct hf_client *client, struct view id,
                                 enum hf_decision decision, enum hf_decision *ret_decided,
                                 struct hf_error *error);
    enum hf_status (*read_txn)(struct hf_client *client, struct view id,
                               struct txn_record *ret_record, struct hf_error *error);

    /* In place of reading lease tables for display (hf_locks_list and what is built on it). */
    enum hf_status (*list)(struct server_list *list, struct hf_error *error);

    /* In place of reading the documents of keys (hf_keys_list). */
    enum hf_status (*list_keys)(struct server_key_list *list, struct hf_error *error);

    /* In place of reading the records of transactions (hf_txns_list). */
    enum hf_status (*list_txns)(struct server_txn_list *list, struct hf_error *error);

    /* What only a server keeps (hf_locks_timeline). */
    enum hf_status (*timeline)(struct server_timeline *timeline, struct hf_error *error);
};

/* The server of a client; NULL: the client has a store of objects. */
const struct server_ops *client_server(const struct hf_client *client);
void client_set_server(struct hf_client *client, const struct server_ops *server);

/* UNSUPPORTED, with a sentence, if the client has a server: `what` needs the bucket itself. */
enum hf_status client_needs_bucket(const struct hf_client *client, const char *what,
                                   struct hf_error *error);

#endif
