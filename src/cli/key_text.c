/* key_text.c: versions of keys, and why an operation on one was not done, for people and
 * programs. */
#include "cli/json_add.h"
#include "cli/key.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Refusals ------------------------------------------------------------------------ */

/* What to do next. */
static const char *const advice[HF_KEY_OUTCOME_COUNT] = {
    [HF_KEY_LEASE_REQUIRED] = "name it with --lease or HOLDFAST_LEASE",
    [HF_KEY_LEASE_EXPIRED] = "acquire the key anew, read it, and decide again",
    [HF_KEY_FENCING_MISMATCH] = "stop what it protected; acquire the key anew, and read it",
    [HF_KEY_VERSION_CONFLICT] = "read the key again, and decide again",
    [HF_KEY_ETAG_MISMATCH] = "read the key again, and decide again",
    [HF_KEY_TXN_MISMATCH] = "name its transaction with --txn; 'key show' tells which",
    [HF_KEY_WAITING] = "wait longer with --wait; 'key show' tells for whom",
};

static enum hf_key_outcome outcome_of(enum hf_status status)
{
    if (status == HF_HELD || status == HF_TIMEOUT)
        return HF_KEY_WAITING;
    if (status == HF_EXPIRED || status == HF_LOST)
        return HF_KEY_LEASE_EXPIRED;
    return status == HF_FENCED ? HF_KEY_FENCING_MISMATCH : HF_KEY_NONE;
}

void error_advise(struct hf_error *error, const char *what)
{
    size_t used = strlen(error->why), more = strlen(what) + 2;
    if (used + more < sizeof error->why)
        snprintf(error->why + used, sizeof error->why - used, "; %s", what);
}

enum hf_status key_refused(struct cli *cli, enum hf_key_outcome outcome)
{
    struct hf_error *error = &cli->error;
    if (error->status == HF_OK || error->status == HF_UNSURE)
        return error->status;
    if (outcome == HF_KEY_NONE)
        outcome = outcome_of(error->status);
    if (outcome == HF_KEY_NONE)
        return error->status;
    cli->outcome = hf_key_outcome_name(outcome);
    error_advise(error, advice[outcome]);
    return error->status;
}

/* ---- Versions ------------------------------------------------------------------------ */

json_t *key_info_as_json(const char *name, const struct hf_key_info *info)
{
    json_t *object = json_object();
    json_add(&object, "key", json_string(name));
    json_add_count(&object, "version", info->version);
    json_add_words(&object, "etag", view_of(info->etag));
    json_add_count(&object, "size_bytes", info->size);
    json_add_bool(&object, "removed", info->removed);
    if (info->version > 0) {
        json_add_count(&object, "written_with_token", info->token);
        json_add_time_ms(&object, "updated_at", info->updated_ms);
    }
    json_add_words(&object, "txn", view_of(info->txn));
    return object;
}

void append_version(struct buffer *to, const struct hf_key_info *info)
{
    char size[SIZE_TEXT_MAX];
    if (info->version == 0)
        buffer_append(to, VIEW("never written"));
    else if (info->removed)
        buffer_print(to, "removed as version %" PRIu64 ", ETag %s", info->version, info->etag);
    else
        buffer_print(to, "version %" PRIu64 ", %s, ETag %s", info->version,
                     size_text(info->size, size), info->etag);
}

const char *version_age(struct cli *cli, const struct hf_key_info *info,
                        char text[SPAN_TEXT_MAX + 4])
{
    struct wall_time at = { info->updated_ms * 1000 };
    struct span age = wall_since(env_wall(cli->env), at);
    return ago_text(age, text);
}
