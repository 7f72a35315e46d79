/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_lease_text.c: parses arbitrary bytes as the text of a lease. An accepted text must name
 * a table of Holdfast and be printed again as the same bytes or, for the scope of a server's lease,
 * as bytes that name the same; a refused one must have a reason. */
#include "base/check.h"
#include "base/layout.h"
#include "fuzz.h"
#include "lock/handle.h"
#include "lock/lease_name.h"

static void name_holds(const struct lease_name *name, struct view text)
{
    struct buffer again = BUFFER_INIT(HF_LEASE_TEXT_MAX - 1);
    char space[KEY_BYTES_MAX];
    struct lease_name same;
    lease_name_append(&again, name);
    check(table_key_is_at_server(name->key) || view_equal(buffer_view(&again), text));
    check(lease_name_parse(buffer_view(&again), space, &same, NULL) == HF_OK);
    check(same.token == name->token && view_equal(same.id, name->id) &&
          view_equal(same.key, name->key));
    buffer_release(&again);
    check(name->id.size > 0 && name->id.size <= LEASE_ID_MAX);
    check(table_key_is_ours(name->key) && name->key.size <= KEY_BYTES_MAX);
    struct view ns = lease_name_namespace(name);
    check(name_check(ns, NULL) == HF_OK && !layout_namespace_reserved(ns));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = { (const char *)data, size };
    struct hf_error error = { .why = "" };
    struct lease_name name;
    char space[KEY_BYTES_MAX];
    enum hf_status status = lease_name_parse(text, space, &name, &error);
    if (status == HF_OK)
        name_holds(&name, text);
    else
        check(status == HF_INVALID && error.status == status && error.why[0] != '\0');
    return 0;
}
