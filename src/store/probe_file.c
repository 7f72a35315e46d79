/* probe_file.c: the probe's findings as a document in the bucket: its encoding and decoding. */
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "store/probe.h"

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
    TRAIT(delete_conditional), TRAIT(put_file_conditional),
    TRAIT(etag_fresh),         TRAIT(list_ordered),
    TRAIT(etag_bare),
};
#define TRAIT_ROWS (sizeof trait_rows / sizeof trait_rows[0])

static bool *trait_at(struct store_traits *traits, size_t row)
{
    return (bool *)(void *)((char *)traits + trait_rows[row].offset);
}

static void write_member(struct buffer *text, const char *name, const char *value)
{
    buffer_print(text, "\"%s\": ", name);
    json_write_string(text, view_of(value));
}

static void encode(struct store *store, const struct probe_report *report, struct buffer *text)
{
    struct store_traits traits = report->traits;
    char now[TIME_TEXT_MAX];
    buffer_print(text, "{ ");
    write_member(text, "format", LAYOUT_PROBE_FORMAT);
    buffer_print(text, ",\n  ");
    write_member(text, "kind", store->ops->name);
    buffer_print(text, ",\n  ");
    write_member(text, "version", hf_version());
    buffer_print(text, ",\n  ");
    write_member(text, "probed_at", time_text(env_wall(store->env), now));
    buffer_print(text, ",\n  \"traits\": {");
    for (size_t i = 0; i < TRAIT_ROWS; i++)
        buffer_print(text, "%s \"%s\": %s", i ? "," : "", trait_rows[i].name,
                     *trait_at(&traits, i) ? "true" : "false");
    buffer_print(text, " },\n  \"findings\": [");
    for (size_t i = 0; i < report->count; i++) {
        const struct probe_finding *finding = &report->findings[i];
        buffer_print(text, "%s\n    { ", i ? "," : "");
        write_member(text, "what", finding->what);
        buffer_print(text, ", ");
        write_member(text, "verdict", probe_verdict_name(finding->verdict));
        buffer_print(text, ", ");
        write_member(text, "detail", finding->detail);
        buffer_print(text, " }");
    }
    buffer_print(text, " ] }\n");
}

enum hf_status probe_save(struct store *store, const struct probe_report *report,
                          struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(PROBE_BYTES_MAX);
    encode(store, report, &text);
    if (text.failed) {
        buffer_release(&text);
        return error_no_memory(error);
    }
    struct put_call put = { .key = VIEW(LAYOUT_PROBE_KEY), .body = buffer_view(&text) };
    enum hf_status status = store_put(store, &put);
    if (status != HF_OK)
        *error = put.error;
    buffer_release(&text);
    return status;
}

/* Takes the members that are known; the others are for later versions and for people. */
static bool decode_traits(struct json_reader *reader, struct store_traits *traits)
{
    size_t known = 0;
    struct view name, raw;
    for (json_enter_object(reader); json_next_member(reader, &name);) {
        size_t row = 0;
        while (row < TRAIT_ROWS && !view_equal(name, view_of(trait_rows[row].name)))
            row++;
        if (row == TRAIT_ROWS)
            json_skip(reader, &raw);
        else
            known += json_take_bool(reader, trait_at(traits, row));
    }
    return known == TRAIT_ROWS;
}

static enum hf_status decode(struct view bytes, struct store_traits *ret_traits,
                             struct hf_error *error)
{
    struct json_reader reader = json_read(bytes);
    struct view name, raw, format = VIEW("");
    struct store_traits traits = *ret_traits;
    bool complete = false;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &format);
        else if (view_equal(name, VIEW("traits")))
            complete = decode_traits(&reader, &traits);
        else
            json_skip(&reader, &raw);
    }
    if (!json_end(&reader) || !complete || !view_equal(format, VIEW(LAYOUT_PROBE_FORMAT)))
        return error_set(error, HF_CORRUPT, "%s is not a probe of this version; probe again",
                         LAYOUT_PROBE_KEY);
    *ret_traits = traits;
    return HF_OK;
}

enum hf_status probe_load(struct store *store, struct hf_error *error)
{
    struct buffer body = BUFFER_INIT(PROBE_BYTES_MAX);
    struct get_call get = { .key = VIEW(LAYOUT_PROBE_KEY), .body = &body };
    enum hf_status status = store_get(store, &get);
    if (status == HF_OK)
        status = decode(buffer_view(&body), &store->traits, error);
    else
        *error = get.error;
    if (status == HF_OK && store->ops->learn)
        store->ops->learn(store, &store->traits);
    buffer_release(&body);
    return status;
}
