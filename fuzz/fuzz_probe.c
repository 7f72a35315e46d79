/* fuzz_probe.c: what an earlier probe left in the bucket, out of any bytes: what is believed can be
 * written again and says the same; the rest is refused, with a reason, and changes nothing. */
#include "base/check.h"
#include "base/layout.h"
#include "fuzz.h"
#include "store/probe.h"

static void put(struct store *store, struct view body)
{
    struct put_call call = { .key = VIEW(LAYOUT_PROBE_KEY), .body = body };
    check(store_put(store, &call) == HF_OK);
}

static bool same(const struct store_traits *a, const struct store_traits *b)
{
    return a->delete_conditional == b->delete_conditional &&
           a->put_file_conditional == b->put_file_conditional &&
           a->etag_fresh == b->etag_fresh && a->list_ordered == b->list_ordered &&
           a->etag_bare == b->etag_bare && a->clock == b->clock &&
           a->clock_skew_ms == b->clock_skew_ms;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct store *store;
    struct hf_error error;
    check(store_open(env_real(), VIEW("mem:"), &store, &error) == HF_OK);
    const struct store_traits own = store->traits;
    put(store, (struct view){ (const char *)data, size });
    enum hf_status status = probe_load(store, &error);
    if (status == HF_OK) {
        static struct probe_report report;
        report.traits = store->traits;
        check(probe_save(store, &report, &error) == HF_OK);
        store->traits = own;
        check(probe_load(store, &error) == HF_OK);
        check(same(&store->traits, &report.traits));
    } else {
        check(error.status == status && error.why[0]);
        check(same(&store->traits, &own));
    }
    store_close(store);
    return 0;
}
