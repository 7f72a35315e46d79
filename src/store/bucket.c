/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.c: reads, checks and writes the format document of a bucket, and probes the store when the
 * document contains no verdict on the store. It refuses a store that ignores conditions, and a
 * bucket whose formats this version does not know. */
#include "store/bucket_inside.h"

#include "base/checksum.h"
#include "base/evidence.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"
#include "base/rule.h"
#include "store/probe_turn.h"
#include "store/server/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FORMAT_FAMILY "holdfast.bucket/"

/* A bucket may be reached in several ways (gateways, host names). Each way has its own verdict. */
#define VERDICTS_MAX 8

#define PASSED_FOR  SPAN_S(30 * 24 * 3600)
#define REFUSED_FOR SPAN_S(24 * 3600)
#define CLOCK_SLACK SPAN_S(24 * 3600) /* the writer may have had no store time */

#define READ_TIME    SPAN_S(10)
#define PROBE_TIME   SPAN_S(30)
#define PROBE_TRIES  3
#define WRITE_TRIES  3
#define AWAIT_PAUSES 8 /* the first pause of a client that waits is this part of its wait */
#define IDENTITY_MAX ((size_t)1024)

/* ---- Features ------------------------------------------------------------------------ */

const char *const bucket_list_names[FEATURE_LISTS] = {
    [COMPATIBLE] = "compatible",
    [READ_ONLY] = "read_only",
    [INCOMPATIBLE] = "incompatible",
};

/* The features that this version knows. Each also has a row in docs/formats.md. */
const struct feature_row bucket_features[BUCKET_FEATURES] = {
    [BUCKET_ADOPTED_OBJECTS] = { INCOMPATIBLE, "adopted-objects" },
    [BUCKET_PATH_PAGES] = { INCOMPATIBLE, "path-pages" },
    [BUCKET_CHECKSUMS] = { READ_ONLY, "checksums" },
};

#define NO_FEATURES VIEW("{ \"compatible\": [], \"read_only\": [], \"incompatible\": [] }")

/* ---- The document, decoded ----------------------------------------------------------- */

static void note_feature(struct format *format, enum feature_list list, struct view name)
{
    for (size_t i = 0; i < BUCKET_FEATURES; i++)
        if (bucket_features[i].list == list &&
            view_equal(name, view_of(bucket_features[i].name))) {
            format->uses[i] = true;
            return;
        }
    if (format->unknown[list][0])
        return;
    snprintf(format->unknown[list], FEATURE_MAX, "%.*s",
             VIEW_ARGS(view_first(name, FEATURE_MAX - 1)));
    for (char *c = format->unknown[list]; *c; c++) /* it is shown to users */
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
            *c = '?';
    if (name.size == 0)
        snprintf(format->unknown[list], FEATURE_MAX, "?");
}

/* A list with an unknown name may mean anything, so it counts as `incompatible`. Returns what
 * is wrong, or NULL. */
static const char *decode_features(struct view text, struct format *format)
{
    struct json_reader reader = json_read(text);
    struct view name, feature;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        unsigned list = 0;
        while (list < FEATURE_LISTS && !view_equal(name, view_of(bucket_list_names[list])))
            list++;
        if (list == FEATURE_LISTS) {
            note_feature(format, INCOMPATIBLE, name);
            json_skip(&reader, &feature);
            continue;
        }
        for (json_enter_array(&reader); json_next_element(&reader);)
            if (json_take_plain(&reader, &feature))
                note_feature(format, (enum feature_list)list, feature);
    }
    return json_end(&reader) ? NULL : reader.why;
}

/* Finds the members before any of them is interpreted: a later format may define them
 * differently. */
static const char *decode_members(struct format *format, struct view *ret_line,
                                  struct view *ret_features)
{
    struct json_reader reader = json_read(buffer_view(&format->text));
    struct view name, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        struct view *member = view_equal(name, VIEW("format"))       ? ret_line
                              : view_equal(name, VIEW("features"))   ? ret_features
                              : view_equal(name, VIEW("verdicts"))   ? &format->verdicts
                              : view_equal(name, VIEW("placements")) ? &format->placements
                                                                     : NULL;
        if (!json_skip(&reader, &raw) || !member)
            continue;
        if (member->size > 0)
            json_fail(&reader, "a member appears twice");
        *member = raw;
    }
    return json_end(&reader) ? NULL : reader.why;
}

static enum hf_status decode_format(struct format *format, struct hf_error *error)
{
    struct view line = VIEW(""), features = VIEW("");
    const char *why = checksum_check(buffer_view(&format->text)) == CHECKSUM_WRONG
                          ? CHECKSUM_MISTAKE
                          : decode_members(format, &line, &features);
    bool ours = view_equal(line, VIEW("\"" LAYOUT_BUCKET_FORMAT "\""));
    if (!ours && view_starts_with(line, VIEW("\"" FORMAT_FAMILY)))
        return error_set(
            error, HF_UNSUPPORTED,
            "this bucket has the format %.*s, but this version knows only %s; upgrade Holdfast",
            VIEW_ARGS(view_first(line, 60)), LAYOUT_BUCKET_FORMAT);
    if (!why && !ours)
        why = "its 'format' member is missing or unknown";
    if (!why && features.size == 0)
        why = "its 'features' member is missing";
    if (!why)
        why = decode_features(features, format);
    if (!why)
        format->features = features;
    if (!why && format->verdicts.size > 0 && format->verdicts.data[0] != '[')
        why = "its 'verdicts' member is not an array";
    if (!why && format->placements.size > 0 && format->placements.data[0] != '{')
        why = "its 'placements' member is not an object";
    if (!why)
        return HF_OK;
    format->verdicts = VIEW("");
    return error_set(error, HF_CORRUPT,
                     "%s is damaged (%s); inspect it with 'holdfast store get', and remove it "
                     "to have the store probed again",
                     LAYOUT_BUCKET_KEY, why);
}

enum hf_status bucket_check_text(struct view text, struct hf_error *error)
{
    struct format format = { .text = BUFFER_INIT(FORMAT_BYTES_MAX) };
    enum hf_status status = buffer_append(&format.text, text) ? decode_format(&format, error)
                                                              : error_no_memory(error);
    buffer_release(&format.text);
    return status;
}

/* `provisional` is that of the get. */
static enum hf_status read_format(struct store *store, bool provisional, struct format *format,
                                  struct hf_error *error)
{
    struct get_call get = { .key = VIEW(LAYOUT_BUCKET_KEY),
                            .body = &format->text,
                            .provisional = provisional,
                            .deadline = mono_add(env_now(store->env), READ_TIME) };
    *format = (struct format){ .text = BUFFER_INIT(FORMAT_BYTES_MAX), .features = NO_FEATURES };
    enum hf_status status = store_get(store, &get);
    /* A reply from a cache carries an old date, by which an expired verdict could still count. */
    bool dated = get.stamp.known && !get.stamp.cached;
    format->now = dated ? get.stamp.date : env_wall(store->env);
    if (status == HF_OK) {
        format->etag = get.info.etag;
        return decode_format(format, error);
    }
    if (status == HF_NOT_FOUND)
        return error_clear(error);
    *error = get.error;
    if (status == HF_INVALID && get.info.size > FORMAT_BYTES_MAX)
        error_set(error, HF_CORRUPT,
                  "%s is damaged (%" PRIu64 " bytes, limit %zu); remove it to have the "
                  "store probed again",
                  LAYOUT_BUCKET_KEY, get.info.size, FORMAT_BYTES_MAX);
    else
        error_prefix(error, "cannot read %s", LAYOUT_BUCKET_KEY);
    return error->status;
}

/* ---- Verdicts ------------------------------------------------------------------------ */

/* The traits that a verdict records. The clock is not among them, because the kind of store
 * determines it. */
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

struct verdict {
    struct view identity; /* as it is between its quotes */
    bool usable;
    char why[HF_WHY_MAX]; /* set if the store is not usable */
    struct wall_time expires;
    struct store_traits traits;
};

/* All traits that this version knows must be present. Others are for later versions and for
 * users. */
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

static bool decode_why(struct json_reader *reader, char why[HF_WHY_MAX])
{
    struct buffer text = BUFFER_INIT(HF_WHY_MAX - 1);
    bool taken = json_take_string(reader, &text) && !text.failed;
    if (taken)
        snprintf(why, HF_WHY_MAX, "%.*s", VIEW_ARGS(buffer_view(&text)));
    buffer_release(&text);
    return taken;
}

/* Traits that the verdict does not record keep their value in `verdict->traits`. */
static bool decode_verdict(struct view text, struct verdict *verdict)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    bool identity = false, usable = false, expires = false, traits = false, why = true;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("identity")))
            identity = json_take_plain(&reader, &verdict->identity);
        else if (view_equal(name, VIEW("usable")))
            usable = json_take_bool(&reader, &verdict->usable);
        else if (view_equal(name, VIEW("why")))
            why = decode_why(&reader, verdict->why);
        else if (view_equal(name, VIEW("expires_at")))
            expires = json_take_plain(&reader, &raw) &&
                      parse_time(raw, &verdict->expires, NULL) == HF_OK;
        else if (view_equal(name, VIEW("traits")))
            traits = decode_traits(&reader, &verdict->traits);
        else
            json_skip(&reader, &raw);
    }
    return json_end(&reader) && identity && usable && why && expires && traits;
}

static bool is_current(const struct verdict *verdict, struct wall_time now)
{
    struct span longest = verdict->usable ? PASSED_FOR : REFUSED_FOR;
    struct wall_time last = wall_add(wall_add(now, longest), CLOCK_SLACK);
    /* A verdict that would last too long was written with a wrong clock, and does not count. */
    return wall_before(now, verdict->expires) && !wall_before(last, verdict->expires);
}

/* Finds the verdict on the store with this identity, if there is one that has not expired. */
static bool find_verdict(const struct format *format, const struct store *store,
                         struct view identity, struct verdict *ret_verdict)
{
    struct json_reader reader = json_read(format->verdicts);
    struct view raw;
    bool found = false;
    for (json_enter_array(&reader); json_next_element(&reader);) {
        struct verdict verdict = { .traits = store->traits };
        if (!json_skip(&reader, &raw) || !decode_verdict(raw, &verdict) ||
            !view_equal(verdict.identity, identity) || !is_current(&verdict, format->now))
            continue;
        *ret_verdict = verdict;
        found = true;
    }
    return found;
}

/* ---- Encoding ------------------------------------------------------------------------ */

/* The result of a probe, with everything that is needed to write the verdict. */
struct probe_outcome {
    const struct probe_report *report;
    const struct hf_error *error; /* UNSUPPORTED: the store was refused */
    struct view identity;
    struct wall_time at;
    bool yields; /* to a refusal that another client has written in the meantime */
};

static void write_string_member(struct buffer *text, const char *name, struct view value)
{
    buffer_print(text, "\"%s\": ", name);
    json_write_string(text, value);
}

static void write_findings(struct buffer *text, const struct probe_report *report)
{
    buffer_print(text, ",\n      \"findings\": [");
    for (size_t i = 0; i < report->count; i++) {
        const struct probe_finding *finding = &report->findings[i];
        buffer_print(text, "%s\n        { ", i ? "," : "");
        write_string_member(text, "what", view_of(finding->what));
        buffer_print(text, ", ");
        write_string_member(text, "verdict", view_of(hf_finding_name(finding->verdict)));
        buffer_print(text, ", ");
        write_string_member(text, "detail", view_of(finding->detail));
        buffer_print(text, " }");
    }
    buffer_print(text, " ]");
}

static void write_verdict(struct buffer *text, const struct probe_outcome *outcome)
{
    struct store_traits traits = outcome->report->traits;
    bool usable = outcome->error->status == HF_OK;
    struct view kind = outcome->identity;
    char time[TIME_TEXT_MAX];
    buffer_print(text, "{ ");
    write_string_member(text, "identity", outcome->identity);
    buffer_print(text, ", ");
    write_string_member(text, "kind", view_first(kind, view_find(kind, ' ')));
    buffer_print(text, ", \"usable\": %s", usable ? "true" : "false");
    if (!usable) {
        buffer_print(text, ",\n      ");
        write_string_member(text, "why", view_of(outcome->error->why));
    }
    buffer_print(text, ",\n      ");
    write_string_member(text, "version", view_of(hf_version()));
    buffer_print(text, ", ");
    write_string_member(text, "probed_at", view_of(time_text(outcome->at, time)));
    buffer_print(text, ", ");
    struct wall_time expires = wall_add(outcome->at, usable ? PASSED_FOR : REFUSED_FOR);
    write_string_member(text, "expires_at", view_of(time_text(expires, time)));
    buffer_print(text, ",\n      \"traits\": {");
    for (size_t i = 0; i < TRAIT_ROWS; i++)
        buffer_print(text, "%s \"%s\": %s", i ? "," : "", trait_rows[i].name,
                     *trait_at(&traits, i) ? "true" : "false");
    buffer_print(text, " }");
    write_findings(text, outcome->report);
    buffer_print(text, " }");
}

/* Keeps those verdicts on other stores that have not expired. If there are too many, the oldest
 * ones, which come first in the list, are dropped. */
static void keep_verdicts(const struct format *format, struct view identity,
                          struct buffer *text)
{
    struct view kept[VERDICTS_MAX - 1], raw;
    size_t count = 0;
    struct json_reader reader = json_read(format->verdicts);
    for (json_enter_array(&reader); json_next_element(&reader);) {
        struct verdict verdict = { .usable = false };
        if (!json_skip(&reader, &raw) || !decode_verdict(raw, &verdict) ||
            view_equal(verdict.identity, identity) || !is_current(&verdict, format->now))
            continue;
        if (count == VERDICTS_MAX - 1)
            memmove(kept, kept + 1, --count * sizeof *kept);
        kept[count++] = raw;
    }
    for (size_t i = 0; i < count; i++) {
        buffer_append(text, kept[i]);
        buffer_append(text, VIEW(",\n    "));
    }
}

/* Copies every other member of the document unchanged. */
void bucket_keep_members(const struct format *format, struct buffer *text)
{
    struct json_reader reader = json_read(buffer_view(&format->text));
    struct view name, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (!json_skip(&reader, &raw))
            break;
        if (!view_equal(name, VIEW("format")) && !view_equal(name, VIEW("features")) &&
            !view_equal(name, VIEW("verdicts")) && !view_equal(name, VIEW("placements")) &&
            !view_equal(name, VIEW("write")))
            buffer_print(text, ",\n  \"%.*s\": %.*s", VIEW_ARGS(name), VIEW_ARGS(raw));
    }
}

/* ---- Probing ------------------------------------------------------------------------- */

/* Returns an empty identity if it is too long or memory runs out. */
static struct view identity_of(struct store *store, struct buffer *space)
{
    buffer_clear(space);
    store_identify(store, space);
    return space->failed ? VIEW("") : buffer_view(space);
}

/* False if a layer of the store knows that it no longer has this identity. */
static bool rely_on(struct store *store, struct view identity)
{
    bool same = true;
    for (struct store *layer = store; layer; layer = layer->inner)
        if (layer->ops->rely)
            same = layer->ops->rely(layer, identity) && same;
    return same;
}

/* Finds the verdict to go by. A store that is about to be relied on may turn out to be another one
 * than this verdict is on, and there may be a verdict on that one, too. */
static bool find_valid_verdict(const struct format *format, struct store *store,
                               enum bucket_use use, struct verdict *ret_verdict)
{
    struct buffer space = BUFFER_INIT(IDENTITY_MAX);
    bool found, relies;
    do {
        found = find_verdict(format, store, identity_of(store, &space), ret_verdict);
        relies = found && use == BUCKET_LOCKS && ret_verdict->usable;
    } while (relies && !rely_on(store, ret_verdict->identity));
    buffer_release(&space);
    return found;
}

/* Begins the document, up to and including its features. On some stores equal bytes have equal
 * ETags. The nonce ensures that an ETag names one write. */
void bucket_begin_format(struct store *store, struct view features, enum feature_list to,
                         const char *more, struct buffer *text)
{
    char nonce[NONCE_SIZE + 1];
    env_random_hex(store->env, NONCE_SIZE, nonce);
    buffer_print(text, "{ \"format\": \"%s\",\n  \"write\": ", LAYOUT_BUCKET_FORMAT);
    checksum_append_write(text, view_of(nonce));
    buffer_append(text, VIEW(",\n  \"features\": "));
    bucket_write_features(features, to, more, text);
}

static struct condition format_condition(const struct format *format)
{
    struct condition condition = { .kind = CONDITION_ALWAYS };
    if (RULE(FEATURES_ARE_SWAPPED))
        condition = format->etag.size ? if_match(&format->etag) : if_absent();
    return condition;
}

/* Ends the document and writes it, on condition that it is still the version that was read. */
enum hf_status bucket_put_format(struct store *store, const struct format *format,
                                 struct buffer *text, struct hf_error *error)
{
    buffer_append(text, VIEW(" }\n"));
    if (!checksum_finish(text))
        return error_set(error, HF_UNAVAILABLE, "%s would be too long", LAYOUT_BUCKET_KEY);
    struct put_call put = { .key = VIEW(LAYOUT_BUCKET_KEY),
                            .body = buffer_view(text),
                            .condition = format_condition(format),
                            .deadline = mono_add(env_now(store->env), READ_TIME) };
    enum hf_status status = store_put(store, &put);
    if (status != HF_OK)
        *error = put.error;
    return status;
}

/* Writes the document with the verdict of a probe. */
static enum hf_status write_format(struct store *store, const struct format *format,
                                   struct probe_outcome *outcome, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(FORMAT_BYTES_MAX);
    outcome->at = format->now;
    bucket_begin_format(store, format->features, COMPATIBLE, NULL, &text);
    bucket_keep_members(format, &text);
    bucket_write_placements(format, NULL, &text);
    buffer_print(&text, ",\n  \"verdicts\": [\n    ");
    keep_verdicts(format, outcome->identity, &text);
    write_verdict(&text, outcome);
    buffer_append(&text, VIEW(" ]"));
    enum hf_status status = bucket_put_format(store, format, &text, error);
    buffer_release(&text);
    return status;
}

static enum hf_status refuse_store(const char *why, struct hf_error *error)
{
    return error_set(error, HF_UNSUPPORTED,
                     "%.180s; run 'holdfast store probe' to check it again", why);
}

/* Reads still work, but every write through this handle fails with this error. */
static enum hf_status disable_writes(struct store *store, struct hf_error *error)
{
    store->barred = *error;
    return error_clear(error);
}

static enum hf_status check_features(struct store *store, const struct format *format,
                                     struct hf_error *error)
{
    if (format->unknown[INCOMPATIBLE][0])
        return error_set(error, HF_UNSUPPORTED,
                         "this bucket uses the feature '%s', which this version does not know; "
                         "upgrade Holdfast",
                         format->unknown[INCOMPATIBLE]);
    if (RULE(UNKNOWN_FEATURES_BAR_WRITES) && format->unknown[READ_ONLY][0]) {
        error_set(error, HF_UNSUPPORTED,
                  "this bucket uses the feature '%s', and this version can only read such "
                  "buckets; upgrade Holdfast to write to it",
                  format->unknown[READ_ONLY]);
        return disable_writes(store, error);
    }
    return HF_OK;
}

enum hf_status bucket_read_known(struct store *store, struct format *format,
                                 struct hf_error *error)
{
    enum hf_status status = read_format(store, /* provisional */ false, format, error);
    return status == HF_OK ? check_features(store, format, error) : status;
}

/* Reads the document again after another client changed it. A race that exposes a store's fault may
 * occur in one probe and not in another, so another client's refusal outweighs our pass. */
static enum hf_status reread_format(struct store *store, struct format *format,
                                    const struct probe_outcome *outcome, struct hf_error *error)
{
    struct verdict theirs;
    buffer_release(&format->text);
    enum hf_status status = bucket_read_known(store, format, error);
    if (status == HF_OK && outcome->yields && outcome->error->status == HF_OK &&
        find_verdict(format, store, outcome->identity, &theirs) && !theirs.usable)
        status = refuse_store(theirs.why, error);
    return status;
}

/* Writes the verdict, and retries with the new document if another client has changed it in the
 * meantime. */
static enum hf_status keep_outcome(struct store *store, struct format *format,
                                   struct probe_outcome *outcome, struct hf_error *error)
{
    enum hf_status status = write_format(store, format, outcome, error);
    for (int i = 1; i < WRITE_TRIES; i++) {
        if (status != HF_CONFLICT && status != HF_NOT_FOUND)
            break;
        status = reread_format(store, format, outcome, error);
        if (status == HF_OK)
            status = write_format(store, format, outcome, error);
    }
    return status;
}

/* Whether a probe that ended with this status may succeed on a retry: its requests got no reply, or
 * one of its own writes took effect late. */
bool bucket_may_pass_later(enum hf_status status)
{
    return status == HF_UNSURE || status == HF_UNAVAILABLE || status == HF_CONFLICT ||
           status == HF_TIMEOUT;
}

/* Waits before the next attempt. Returns false immediately if there is no time for one. */
static bool pause_within(struct store *store, struct mono_time deadline)
{
    struct span pause = env_jitter(store->env, RETRY_PAUSE);
    struct mono_time next = mono_add(env_now(store->env), pause);
    if (!mono_before(next, deadline))
        return false;
    env_sleep_until(store->env, next);
    return true;
}

static enum hf_status probe_with_patience(struct store *store, struct probe_report *report,
                                          struct hf_error *error)
{
    struct mono_time deadline = mono_add(env_now(store->env), PROBE_TIME);
    /* A probe whose requests got no reply yields no verdict, because a wrong refusal would be kept
     * for a day and stop every client. It is repeated instead. */
    enum hf_status status = store_probe(store, deadline, report, error);
    for (int i = 1; i < PROBE_TRIES; i++) {
        if (!bucket_may_pass_later(status) || !pause_within(store, deadline))
            break;
        status = store_probe(store, deadline, report, error);
    }
    if (bucket_may_pass_later(status) || status == HF_NOT_FOUND) {
        bool gone = status == HF_NOT_FOUND;
        error->status = status = gone ? HF_NOT_FOUND : HF_UNAVAILABLE;
        error_prefix(error, "cannot determine whether this store can be used");
    }
    return status;
}

static void adopt_traits(struct store *store, const struct store_traits *traits)
{
    store->traits = *traits;
    for (struct store *layer = store; layer; layer = layer->inner)
        if (layer->ops->learn)
            layer->ops->learn(layer, &store->traits);
}

enum hf_status bucket_probe(struct store *store, bool keep, struct probe_report *ret_report,
                            struct hf_error *error)
{
    struct format format;
    struct buffer space = BUFFER_INIT(IDENTITY_MAX);
    struct hf_error unkept;
    *ret_report = (struct probe_report){ .traits = store->traits };
    if (store->barred.status != HF_OK) {
        *error = store->barred;
        return error->status;
    }
    enum hf_status status = read_format(store, /* provisional */ false, &format, error);
    if (status == HF_OK) {
        status = probe_with_patience(store, ret_report, error);
        struct probe_outcome outcome = { .report = ret_report,
                                         .error = error,
                                         .identity = identity_of(store, &space) };
        bool verdict = (status == HF_OK && !ret_report->unanswered) || status == HF_UNSUPPORTED;
        enum hf_status kept =
            keep && verdict ? keep_outcome(store, &format, &outcome, &unkept) : HF_OK;
        if (status == HF_OK && kept != HF_OK) {
            *error = unkept;
            error_prefix(error, "cannot save the verdict in %s", LAYOUT_BUCKET_KEY);
            status = kept;
        }
    }
    buffer_release(&format.text);
    buffer_release(&space);
    return status;
}

/* ---- Checking a bucket at open ------------------------------------------------------- */

/* Probes a store for which no verdict is recorded, or only an expired one. The verdict applies to
 * this handle even if it cannot be saved for other clients. */
static enum hf_status probe_and_record(struct store *store, struct format *format,
                                       struct hf_error *error)
{
    struct probe_report report;
    struct hf_error unkept;
    struct buffer space = BUFFER_INIT(IDENTITY_MAX);
    enum hf_status status = probe_with_patience(store, &report, error);
    struct probe_outcome outcome = { .report = &report,
                                     .error = error,
                                     .identity = identity_of(store, &space),
                                     .yields = true };
    if (status == HF_OK) {
        adopt_traits(store, &report.traits);
        if (!report.unanswered &&
            keep_outcome(store, format, &outcome, &unkept) == HF_UNSUPPORTED) {
            *error = unkept;
            status = HF_UNSUPPORTED;
        } else if (!rely_on(store, outcome.identity)) {
            status = error_set(error, HF_UNAVAILABLE,
                               "the bucket began to keep versions while it was probed");
        }
    } else if (status == HF_UNSUPPORTED) {
        (void)keep_outcome(store, format, &outcome, &unkept);
    } else if (status == HF_DENIED) {
        error_prefix(
            error, "this store has not been probed, and probing it needs permission to write");
        status = disable_writes(store, error);
    }
    buffer_release(&space);
    return status;
}

/* Waits until it is this client's turn to probe, or another client has recorded a verdict
 * (*ret_judged). The probes of many clients that open a new bucket at the same time would make each
 * other fail, because each of them is dozens of requests. */
static enum hf_status await_verdict(struct store *store, struct span wait,
                                    struct format *format, struct verdict *verdict,
                                    bool *ret_judged, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    struct mono_time now = env_now(store->env), end = mono_add(now, wait);
    struct span pause = SPAN_US(wait.us / AWAIT_PAUSES + 1);
    while (status == HF_OK && !*ret_judged && mono_before(now, end)) {
        struct mono_time next = mono_add(now, env_jitter(store->env, pause));
        env_sleep_until(store->env, mono_earlier(next, end));
        pause.us *= 2;
        buffer_release(&format->text);
        status = bucket_read_known(store, format, error);
        *ret_judged =
            status == HF_OK && find_valid_verdict(format, store, BUCKET_LOCKS, verdict);
        if (status == HF_UNAVAILABLE)
            status = error_clear(error);
        now = env_now(store->env);
    }
    return status;
}

/* Gets a verdict on a store for which none is recorded. If another client was first, it is in
 * *verdict, and *ret_judged is set. */
static enum hf_status obtain_verdict(struct store *store, struct format *format,
                                     struct verdict *verdict, bool *ret_judged,
                                     struct hf_error *error)
{
    struct probe_turn turn;
    struct span wait = probe_turn_take(store, &turn);
    enum hf_status status = await_verdict(store, wait, format, verdict, ret_judged, error);
    bool probes = status == HF_OK && !*ret_judged && store->barred.status == HF_OK;
    if (probes)
        status = probe_and_record(store, format, error);
    probe_turn_end(store, &turn, probes);
    return status;
}

/* A gateway that is restarting refuses connections. A client that wants locks is prepared to
 * wait, so it also waits for the gateway. What the document says takes effect in later calls, so
 * the get is provisional. */
static enum hf_status read_format_for(struct store *store, enum bucket_use use,
                                      struct format *format, struct hf_error *error)
{
    struct mono_time end = mono_add(env_now(store->env), READ_TIME);
    enum hf_status status = read_format(store, /* provisional */ true, format, error);
    while (status == HF_UNAVAILABLE && use == BUCKET_LOCKS) {
        if (!pause_within(store, end))
            break;
        buffer_release(&format->text);
        status = read_format(store, /* provisional */ true, format, error);
    }
    return status;
}

/* Decides how to continue without the document. A client without permission to read the document
 * must not write either, and its next call will report DENIED. A damaged document does not prevent
 * access to single objects. */
static enum hf_status open_without_format(struct store *store, enum bucket_use use,
                                          enum hf_status status, struct hf_error *error)
{
    if (status == HF_DENIED)
        return use == BUCKET_LOCKS ? disable_writes(store, error) : error_clear(error);
    if (status == HF_CORRUPT && use == BUCKET_OBJECTS)
        return error_clear(error);
    return status;
}

static enum hf_status check_bucket(struct store *store, enum bucket_use use,
                                   struct buffer *placements, struct hf_error *error)
{
    struct format format;
    struct verdict verdict;
    struct buffer space = BUFFER_INIT(IDENTITY_MAX);
    if (server_of(store)) /* the server has checked its bucket */
        return use == BUCKET_LOCKS ? error_clear(error) : server_refuse(error);
    enum hf_status status = read_format_for(store, use, &format, error);
    if (status == HF_OK)
        status = check_features(store, &format, error);
    else
        status = open_without_format(store, use, status, error);
    bool others = store_identify(store, &space);
    /* After the get, which may show versioning. */
    bool judged = status == HF_OK && find_valid_verdict(&format, store, use, &verdict);
    if (status == HF_OK && !judged && others && use == BUCKET_LOCKS &&
        store->barred.status == HF_OK)
        status = obtain_verdict(store, &format, &verdict, &judged, error);
    if (judged)
        adopt_traits(store, &verdict.traits);
    if (judged && !verdict.usable && use == BUCKET_LOCKS)
        status = refuse_store(verdict.why, error);
    if (status == HF_OK && placements && !buffer_append(placements, format.placements))
        status = error_no_memory(error);
    buffer_release(&format.text);
    buffer_release(&space);
    return status;
}

enum hf_status bucket_check(struct store *store, enum bucket_use use, struct hf_error *error)
{
    return check_bucket(store, use, /* placements */ NULL, error);
}

enum hf_status bucket_check_placed(struct store *store, struct buffer *placements,
                                   struct hf_error *error)
{
    return check_bucket(store, BUCKET_LOCKS, placements, error);
}
