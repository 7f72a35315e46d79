/* probe_file.c: the probe's findings as a document in the bucket: its encoding and decoding. */
#include "base/check.h"
#include "base/layout.h"
#include "base/parse.h"
#include "store/probe.h"

#include <jansson.h>
#include <stdlib.h>

#define PROBE_BYTES_MAX (64 * KIB)

/* The traits that are written down; the clock is a property of the kind of store. */
struct trait_row {
    const char *name;
    size_t offset;
};

#define TRAIT(name)                                \
    {                                              \
#name, offsetof(struct store_traits, name) \
    }
static const struct trait_row trait_rows[] = {
    TRAIT(delete_conditional),
    TRAIT(put_file_conditional),
    TRAIT(etag_fresh),
    TRAIT(list_ordered),
};
#define TRAIT_ROWS (sizeof trait_rows / sizeof trait_rows[0])

static bool *trait_at(struct store_traits *traits, size_t row)
{
    return (bool *)(void *)((char *)traits + trait_rows[row].offset);
}

static json_t *encode(struct store *store, const struct probe_report *report)
{
    struct store_traits traits = report->traits;
    char now[TIME_TEXT_MAX];
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:{}, s:[]}", "format", LAYOUT_PROBE_FORMAT,
                             "kind", store->ops->name, "version", hf_version(), "probed_at",
                             time_text(env_wall(store->env), now), "traits", "findings");
    json_t *traits_json = json_object_get(root, "traits");
    json_t *findings_json = json_object_get(root, "findings");
    bool good = root != NULL;
    for (size_t i = 0; good && i < TRAIT_ROWS; i++)
        good = json_object_set_new(traits_json, trait_rows[i].name,
                                   json_boolean(*trait_at(&traits, i))) == 0;
    for (size_t i = 0; good && i < report->count; i++) {
        const struct probe_finding *finding = &report->findings[i];
        good = json_array_append_new(findings_json,
                                     json_pack("{s:s, s:s, s:s}", "what", finding->what,
                                               "verdict", probe_verdict_name(finding->verdict),
                                               "detail", finding->detail)) == 0;
    }
    if (!good) {
        json_decref(root);
        return NULL;
    }
    return root;
}

enum hf_status probe_save(struct store *store, const struct probe_report *report,
                          struct error *error)
{
    json_t *root = encode(store, report);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!text)
        return error_no_memory(error);
    struct put_call put = { .key = VIEW(LAYOUT_PROBE_KEY), .body = view_of(text) };
    enum hf_status status = store_put(store, &put);
    if (status != HF_OK)
        *error = put.error;
    free(text);
    return status;
}

static enum hf_status decode(struct view bytes, struct store_traits *ret_traits,
                             struct error *error)
{
    json_t *root = json_loadb(bytes.data, bytes.size, 0, NULL);
    json_t *traits_json = json_object_get(root, "traits");
    const char *format = json_string_value(json_object_get(root, "format"));
    struct store_traits traits = *ret_traits;
    bool good = format && view_equal(view_of(format), VIEW(LAYOUT_PROBE_FORMAT));
    for (size_t i = 0; good && i < TRAIT_ROWS; i++) {
        json_t *value = json_object_get(traits_json, trait_rows[i].name);
        good = json_is_boolean(value);
        *trait_at(&traits, i) = json_is_true(value);
    }
    json_decref(root);
    if (!good)
        return error_set(error, HF_CORRUPT, "%s is not a probe of this version; probe again",
                         LAYOUT_PROBE_KEY);
    *ret_traits = traits;
    return HF_OK;
}

enum hf_status probe_load(struct store *store, struct error *error)
{
    struct buffer body = BUFFER_INIT(PROBE_BYTES_MAX);
    struct get_call get = { .key = VIEW(LAYOUT_PROBE_KEY), .body = &body };
    enum hf_status status = store_get(store, &get);
    if (status == HF_OK)
        status = decode(buffer_view(&body), &store->traits, error);
    else
        *error = get.error;
    buffer_release(&body);
    return status;
}
