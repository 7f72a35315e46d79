/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_expiry_entry.c: parses arbitrary bytes as the name of an entry of the expiry index, and
 * as its contents. An accepted name must name a table of this namespace and be written again as
 * the same. An ETag that is read from an entry must occur in the entry. */
#include "base/check.h"
#include "fuzz.h"
#include "lock/client_inside.h"
#include "lock/expiry.h"

#include <stdio.h>

static struct hf_client *client_of_mem(void)
{
    static struct hf_client *client;
    struct hf_error error;
    if (!client)
        check(hf_client_open("mem:", NULL, &client, &error) == HF_OK);
    return client;
}

static void name_holds(const struct hf_client *client, struct view name)
{
    char table[KEY_BYTES_MAX + 1], again[KEY_BYTES_MAX + 1];
    struct hour hour;
    if (!expiry_parse(client, name, &hour, table))
        return;
    check(hour.number >= 0 && expiry_has(client, view_of(table)));
    check(table_key_is_ours(view_of(table)));
    check(expiry_key(client, view_of(table), hour, again));
    check(view_equal(view_of(again), name));
}

static void hour_holds(struct view text)
{
    char again[HOUR_TEXT_SIZE + 1];
    struct hour hour;
    if (hour_parse(text, &hour))
        check(hour.number >= 0 && view_equal(view_of(hour_text(hour, again)), text));
}

/* Written as we write it, it says the same. */
static void entry_holds(struct hf_client *client, struct view bytes)
{
    struct expiry_entry entry, again;
    struct buffer text = BUFFER_INIT(8192);
    struct hf_error error;
    char key[KEY_BYTES_MAX + 1];
    if (!expiry_decode(bytes, &entry))
        return;
    check(entry.stub.size <= sizeof entry.stub.data);
    const struct view table = VIEW("default/meta/deploy.json");
    const struct etag *stub = entry.stub.size > 0 ? &entry.stub : NULL;
    check(expiry_write(client, table, (struct hour){ 7 }, stub,
                       mono_add(env_now(client->env), SPAN_S(10)), &error) == HF_OK);
    check(expiry_key(client, table, (struct hour){ 7 }, key));
    struct get_call get = { .key = view_of(key), .body = &text };
    check(store_get(client->store, &get) == HF_OK);
    check(expiry_decode(buffer_view(&text), &again));
    check(view_equal(etag_view(&again.stub), etag_view(&entry.stub)));
    buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_client *client = client_of_mem();
    struct view input = { (const char *)data, size };
    if (view_find(input, '\0') == size)
        name_holds(client, input);
    hour_holds(input);
    entry_holds(client, input);
    return 0;
}
