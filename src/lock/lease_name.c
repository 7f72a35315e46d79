/* SPDX-License-Identifier: Apache-2.0 */
/* lease_name.c: a lease as text, TOKEN:ID:TABLE. Only the exact printed form is accepted, so each
 * lease has exactly one text. */
#include "lock/lease_name.h"

#include "base/layout.h"
#include "base/options.h"
#include "base/parse.h"
#include "lock/client_inside.h"
#include "lock/handle.h"

#include <stdio.h>

static_assert(sizeof "18446744073709551615::" + LEASE_ID_MAX + KEY_BYTES_MAX <=
                  HF_LEASE_TEXT_MAX,
              "every lease can be printed");

void lease_name_append(struct buffer *to, const struct lease_name *name)
{
    buffer_append_u64(to, name->token);
    buffer_append_byte(to, ':');
    buffer_append(to, name->id);
    buffer_append_byte(to, ':');
    buffer_append(to, name->key);
}

/* Parses a token without leading zeros. */
static bool parse_token(struct view text, uint64_t *ret_token)
{
    return parse_u64(text, UINT64_MAX, ret_token, NULL) == HF_OK &&
           (text.size == 1 || text.data[0] != '0');
}

enum hf_status lease_name_parse(struct view text, struct lease_name *ret_name,
                                struct hf_error *error)
{
    struct lease_name name;
    struct view rest = text;
    struct view token = view_cut(&rest, ':');
    name.id = view_cut(&rest, ':');
    name.key = rest;
    if (!parse_token(token, &name.token) || name.id.size == 0 || name.id.size > LEASE_ID_MAX ||
        !table_key_is_ours(name.key))
        return error_set(error, HF_INVALID,
                         "'%.*s' is not a lease; pass the TOKEN:ID:TABLE that 'holdfast "
                         "acquire' printed",
                         VIEW_ARGS(view_first(text, 80)));
    *ret_name = name;
    return HF_OK;
}

struct view lease_name_namespace(const struct lease_name *name)
{
    struct view rest = name->key;
    bool none = table_key_is_of_chunks(name->key) || table_key_is_of_shard(name->key);
    return none ? VIEW(LAYOUT_NAMESPACE_DEFAULT) : view_cut(&rest, '/');
}

enum hf_status hf_lease_parse(const char *text, struct hf_lease_name *name,
                              struct hf_error *error)
{
    struct hf_lease_name filled = HF_LEASE_NAME;
    struct lease_name parsed = { 0 };
    if (check_caller_report("HF_LEASE_NAME", name, error) != HF_OK ||
        ERROR_IF_NULL(error, text, name) != HF_OK)
        return HF_INVALID;
    enum hf_status status = lease_name_parse(view_of(text), &parsed, error);
    if (status != HF_OK)
        return status;
    struct view ns = lease_name_namespace(&parsed);
    filled.token = parsed.token;
    snprintf(filled.ns, sizeof filled.ns, "%.*s", VIEW_ARGS(ns));
    snprintf(filled.table, sizeof filled.table, "%.*s", VIEW_ARGS(parsed.key));
    name_of_table(ns, parsed.key, filled.key);
    write_caller_report(name, &filled, sizeof filled);
    return error_clear(error);
}
