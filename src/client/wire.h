/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h: the requests and replies of a server (docs/serve.md): JSON in both directions, and which
 * status a refusal has. The server is not trusted to send what it should: a member with a wrong
 * type, a number out of range or a text that does not end makes the whole reply invalid. */
#ifndef CLIENT_WIRE_H
#define CLIENT_WIRE_H

#include "base/json.h"
#include "lock/server.h"
#include "store/server/server.h"

#define WIRE_REPLY_MAX (256 * KIB)

/* The number of digits of a lease's id on the wire. */
#define WIRE_LEASE_ID_SIZE 32

/* What a reply says. Members that were not sent are zero or empty. */
struct wire_answer {
    struct hf_error error; /* OK, the refusal, or why there is no reply */
    enum hf_key_outcome outcome;
    struct mono_time sent, received;
    char lease_id[WIRE_LEASE_ID_SIZE + 1];
    char etag[HF_KEY_ETAG_SIZE + 1];
    char owner[HF_HOLDER_MAX + 1];
    char txn_id[HF_TXN_ID_SIZE + 1], state[16]; /* of a transaction */
    char word[32];
    char detail[160];
    uint64_t token, version, state_token, size, waiters;
    int64_t ttl_ms, remaining_ms, waited_ms, updated_s, expires_s;
    bool held, removed, staged;
    uint64_t blocked; /* which of several scopes are held, one bit each */
    bool doubt;       /* an earlier attempt got no reply, and may have taken effect */
};

/* ---- Requests: {"name":value,...} ------------------------------------------------------------ */

void wire_begin(struct buffer *json);
void wire_text(struct buffer *json, const char *name, struct view text);
void wire_number(struct buffer *json, const char *name, int64_t number);
void wire_json(struct buffer *json, const char *name, struct view value);
void wire_end(struct buffer *json);

/* The namespace, and the key or scope of a lock. */
void wire_resource(struct buffer *json, struct table_ref *ref);

/* Appends "&name=value" or, after '?', "name=value", with the value escaped. */
void wire_parameter(struct buffer *path, const char *name, struct view value);

/* ---- Replies --------------------------------------------------------------------------------- */

/* Sends one request, and reads its reply; a body that is not JSON stays in `reply`, which must be
 * released. Returns the status of the answer. */
enum hf_status wire_exchange(struct hf_client *client, const struct server_call *call,
                             struct http_reply *reply, struct wire_answer *answer);

/* The same, repeated within the budget of the store and until the deadline of the call, as long as
 * there is no reply. If the last attempt could not be made, an earlier one may have taken effect
 * nevertheless, and the result is UNSURE. */
enum hf_status wire_repeat(struct hf_client *client, const struct server_call *call,
                           struct http_reply *reply, struct wire_answer *answer);

/* The same with JSON in both directions. */
enum hf_status wire_ask(struct hf_client *client, const char *path, struct buffer *json,
                        struct mono_time deadline, struct wire_answer *answer);

/* How a member is read. WIRE_WORDS is text for people, which may be cut off. WIRE_BITS is an array
 * of numbers below 64. WIRE_RAW is any JSON, as a view of the reply. */
enum wire_type { WIRE_TEXT, WIRE_WORDS, WIRE_U64, WIRE_I64, WIRE_FLAG, WIRE_BITS, WIRE_RAW };

struct wire_field {
    const char *name;
    enum wire_type type;
    size_t offset, size; /* of the member of a struct that it is stored in */
};
#define WIRE_FIELD(of, name, type, member)                             \
    {                                                                  \
        name, type, offsetof(of, member), sizeof(((of *)NULL)->member) \
    }

/* Takes an object: known members go into the struct, others are skipped. False after an error. */
bool wire_take(struct json_reader *reader, const struct wire_field *fields, size_t count,
               void *to);

/* Takes one text of such a kind. */
bool wire_take_text(struct json_reader *reader, const struct wire_field *field, char *to);

/* The mode of this name; exclusive if there is none. */
enum hf_mode wire_mode(const char *name);

/* INVALID: the server sent something that is no reply. */
enum hf_status wire_invalid(const char *why, struct hf_error *error);

/* The same for a GET, of which the body is then in `reply`. `header` may be NULL. */
enum hf_status wire_get(struct hf_client *client, const struct buffer *path, const char *header,
                        size_t reply_max, struct http_reply *reply, struct wire_answer *answer);

/* The status and the outcome of a refusal, by its word; UNSURE for a word that is not known,
 * because it may come from a proxy that has passed the request on. */
enum hf_status wire_refusal(struct view word, enum hf_key_outcome *ret_outcome);

/* Reads the JSON of a reply. INVALID if it is not what a server sends. */
enum hf_status wire_read(struct view json, struct wire_answer *answer);

#endif
