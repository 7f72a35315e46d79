/* SPDX-License-Identifier: Apache-2.0 */
/* store_contract.c: runs the rows of the store contract, and holds their common steps. */
#include "store_contract.h"

#include <stdarg.h>
#include <stdio.h>

const struct contract_row *contract_row(size_t index)
{
    const struct contract_rows *const tables[] = { &contract_basics, &contract_changes,
                                                   &contract_listings, &contract_streams,
                                                   &contract_races };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (index < tables[i]->count)
            return &tables[i]->rows[index];
        index -= tables[i]->count;
    }
    return NULL;
}

bool contract_run(struct contract *contract, const struct contract_row *row)
{
    char hex[17];
    env_random_hex(contract->env, 16, hex);
    snprintf(contract->prefix, sizeof contract->prefix, "c-%s/", hex);
    contract->failure[0] = '\0';
    row->run(contract);
    return contract->failure[0] == '\0';
}

void contract_fail(struct contract *contract, const char *file, int line, const char *format,
                   ...)
{
    if (contract->failure[0])
        return;
    int used = snprintf(contract->failure, sizeof contract->failure, "%s:%d: ", file, line);
    va_list args;
    va_start(args, format);
    vsnprintf(contract->failure + used, sizeof contract->failure - (size_t)used, format, args);
    va_end(args);
}

struct view contract_key(const struct contract *contract, struct view name,
                         struct contract_key *space)
{
    struct view prefix = view_of(contract->prefix);
    memcpy(space->text, prefix.data, prefix.size);
    memcpy(space->text + prefix.size, name.data, name.size);
    space->text[prefix.size + name.size] = '\0';
    space->view = (struct view){ space->text, prefix.size + name.size };
    return space->view;
}

bool contract_put(struct contract *contract, struct view name, struct view body,
                  struct etag *ret_etag)
{
    struct contract_key key;
    struct put_call put = { .key = contract_key(contract, name, &key), .body = body };
    if (store_put(contract->store, &put) != HF_OK)
        contract_fail(contract, __FILE__, __LINE__, "put %.*s: %s", VIEW_ARGS(name),
                      put.error.why);
    else if (ret_etag)
        *ret_etag = put.etag;
    return contract->failure[0] == '\0';
}

bool contract_holds(struct contract *contract, struct view name, struct view body)
{
    struct contract_key key;
    struct buffer got = BUFFER_INIT(4 * MIB);
    struct get_call get = { .key = contract_key(contract, name, &key), .body = &got };
    if (store_get(contract->store, &get) != HF_OK)
        contract_fail(contract, __FILE__, __LINE__, "get %.*s: %s", VIEW_ARGS(name),
                      get.error.why);
    else if (!view_equal(buffer_view(&got), body) || get.info.size != body.size)
        contract_fail(contract, __FILE__, __LINE__,
                      "%.*s holds other bytes than were put: %.*s, expected %.*s",
                      VIEW_ARGS(name), VIEW_ARGS(view_first(buffer_view(&got), 40)),
                      VIEW_ARGS(view_first(body, 40)));
    buffer_release(&got);
    return contract->failure[0] == '\0';
}

bool contract_missing(struct contract *contract, struct view name)
{
    struct contract_key key;
    struct buffer got = BUFFER_INIT(4 * MIB);
    struct get_call get = { .key = contract_key(contract, name, &key), .body = &got };
    enum hf_status status = store_get(contract->store, &get);
    if (status != HF_NOT_FOUND)
        contract_fail(contract, __FILE__, __LINE__, "%.*s should be missing: %s",
                      VIEW_ARGS(name), hf_status_name(status));
    buffer_release(&got);
    return contract->failure[0] == '\0';
}
