/* bucket.c: the format document of a bucket: its decoding and encoding side by side, and when the
 * store must be probed for it. */
#include "store/bucket.h"

#include "base/evidence.h"
#include "base/json.h"
#include "base/layout.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FORMAT_BYTES_MAX ((size_t)256 * KIB)
#define FORMAT_FAMILY    "holdfast.bucket/"

/* A bucket may be reached in several ways (gateways, host names), each with a verdict. */
#define VERDICTS_MAX 8

#define PASSED_FOR  SPAN_S(30 * 24 * 3600)
#define REFUSED_FOR SPAN_S(24 * 3600)
#define CLOCK_SLACK SPAN_S(24 * 3600) /* whoever wrote it may have had no store time */

#define READ_TIME    SPAN_S(10)
#define PROBE_TIME   SPAN_S(30)
#define PROBE_TRIES  3
#define RETRY_PAUSE  SPAN_MS(500)
#define WRITE_TRIES  3
#define IDENTITY_MAX ((size_t)1024)
#define FEATURE_MAX  64

/* ---- Features ------------------------------------------------------------------------ */

enum feature_list { COMPATIBLE, READ_ONLY, INCOMPATIBLE, FEATURE_LISTS };

static const char *const list_names[FEATURE_LISTS] = {
    [COMPATIBLE] = "compatible",
    [READ_ONLY] = "read_only",
    [INCOMPATIBLE] = "incompatible",
};

/* The features that this version knows, each also a row of docs/formats.md. There are none yet. */
static const struct {
    enum feature_list list;
    const char *name; /* NULL ends the list */
} known_features[] = { { COMPATIBLE, NULL } };

static bool is_known(enum feature_list list, struct view name)
{
    for (size_t i = 0; known_features[i].name; i++)
        if (known_features[i].list == list && view_equal(name, view_of(known_features[i].name)))
            return true;
    return false;
}

/* ---- The document, decoded ----------------------------------------------------------- */

struct format {
    struct buffer text;   /* as it stands */
    struct etag etag;     /* empty: there is none */
    struct wall_time now; /* the store's time where it tells one, else this machine's */
    struct view verdicts; /* the array, as it stands; empty: none */
    char unknown[FEATURE_LISTS][FEATURE_MAX]; /* of each list the first that is not known */
};

static void note_feature(struct format *format, enum feature_list list, struct view name)
{
    if (format->unknown[list][0] || is_known(list, name))
        return;
    snprintf(format->unknown[list], FEATURE_MAX, "%.*s",
             VIEW_ARGS(view_first(name, FEATURE_MAX - 1)));
    for (char *c = format->unknown[list]; *c; c++) /* it is shown to people */
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
            *c = '?';
    if (name.size == 0)
        snprintf(format->unknown[list], FEATURE_MAX, "?");
}

/* A list that we do not know may mean anything: it counts as the strictest. Returns what is wrong,
 * or NULL. */
static const char *decode_features(struct view text, struct format *format)
{
    struct json_reader reader = json_read(text);
    struct view name, feature;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        unsigned list = 0;
        while (list < FEATURE_LISTS && !view_equal(name, view_of(list_names[list])))
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

/* The members that matter, before anything is believed: of a later format they may be others. */
static const char *decode_members(struct format *format, struct view *ret_line,
                                  struct view *ret_features)
{
    struct json_reader reader = json_read(buffer_view(&format->text));
    struct view name, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        struct view *member = view_equal(name, VIEW("format"))     ? ret_line
                              : view_equal(name, VIEW("features")) ? ret_features
                              : view_equal(name, VIEW("verdicts")) ? &format->verdicts
                                                                   : NULL;
        if (!json_skip(&reader, &raw) || !member)
            continue;
        if (member->size > 0)
            json_fail(&reader, "a member stands twice");
        *member = raw;
    }
    return json_end(&reader) ? NULL : reader.why;
}

static enum hf_status decode(struct format *format, struct hf_error *error)
{
    struct view line = VIEW(""), features = VIEW("");
    const char *why = decode_members(format, &line, &features);
    bool ours = view_equal(line, VIEW("\"" LAYOUT_BUCKET_FORMAT "\""));
    if (!ours && view_starts_with(line, VIEW("\"" FORMAT_FAMILY)))
        return error_set(
            error, HF_UNSUPPORTED,
            "this bucket is of the format %.*s, and this version knows %s: upgrade",
            VIEW_ARGS(view_first(line, 60)), LAYOUT_BUCKET_FORMAT);
    if (!why && !ours)
        why = "it has no format line of ours";
    if (!why && features.size == 0)
        why = "it names no features";
    if (!why)
        why = decode_features(features, format);
    if (!why && format->verdicts.size > 0 && format->verdicts.data[0] != '[')
        why = "its verdicts are no list";
    if (!why)
        return HF_OK;
    format->verdicts = VIEW("");
    return error_set(error, HF_CORRUPT,
                     "%s is damaged (%s); look at it with 'store get', and remove it to have "
                     "the store probed anew",
                     LAYOUT_BUCKET_KEY, why);
}

static enum hf_status read_format(struct store *store, struct format *format,
                                  struct hf_error *error)
{
    struct get_call get = { .key = VIEW(LAYOUT_BUCKET_KEY),
                            .body = &format->text,
                            .deadline = mono_add(env_now(store->env), READ_TIME) };
    *format = (struct format){ .text = BUFFER_INIT(FORMAT_BYTES_MAX) };
    enum hf_status status = store_get(store, &get);
    bool dated = get.stamp.known && !get.stamp.cached;
    format->now = dated ? get.stamp.date : env_wall(store->env);
    if (status == HF_OK) {
        format->etag = get.info.etag;
        return decode(format, error);
    }
    if (status == HF_NOT_FOUND)
        return error_clear(error);
    *error = get.error;
    if (status == HF_INVALID && get.info.size > FORMAT_BYTES_MAX)
        error_set(error, HF_CORRUPT,
                  "%s is damaged (%" PRIu64 " bytes, of at most %zu); remove it to have the "
                  "store probed anew",
                  LAYOUT_BUCKET_KEY, get.info.size, FORMAT_BYTES_MAX);
    else
        error_prefix(error, "read %s", LAYOUT_BUCKET_KEY);
    return error->status;
}

static void format_release(struct format *format)
{
    buffer_release(&format->text);
}

/* ---- Verdicts ------------------------------------------------------------------------ */

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

struct verdict {
    struct view identity; /* as it stands between its quotes */
    bool usable;
    char why[HF_WHY_MAX]; /* it is not */
    struct wall_time expires;
    struct store_traits traits;
};

/* All that we know must be there; the others are for later versions and for people. */
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

static bool take_time(struct json_reader *reader, struct wall_time *ret_time)
{
    struct view text;
    return json_take_plain(reader, &text) && parse_time(text, ret_time, NULL) == HF_OK;
}

static bool take_why(struct json_reader *reader, char why[HF_WHY_MAX])
{
    struct buffer text = BUFFER_INIT(HF_WHY_MAX - 1);
    bool taken = json_take_string(reader, &text) && !text.failed;
    if (taken)
        snprintf(why, HF_WHY_MAX, "%.*s", VIEW_ARGS(buffer_view(&text)));
    buffer_release(&text);
    return taken;
}

/* `verdict->traits` says what stands unless it is written down. */
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
            why = take_why(&reader, verdict->why);
        else if (view_equal(name, VIEW("expires_at")))
            expires = take_time(&reader, &verdict->expires);
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
    return wall_before(now, verdict->expires) && !wall_before(last, verdict->expires);
}

/* The verdict on the store of this identity, if there is one that still counts. */
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

/* What the probe has said, with what must be known to write it down. */
struct probe_outcome {
    const struct probe_report *report;
    const struct hf_error *error; /* UNSUPPORTED: refused */
    struct view identity;
    struct wall_time at;
    bool yields; /* to a refusal that somebody else has written meanwhile */
};

static void write_member(struct buffer *text, const char *name, struct view value)
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
        write_member(text, "what", view_of(finding->what));
        buffer_print(text, ", ");
        write_member(text, "verdict",
                     view_of(hf_finding_name((enum hf_finding)finding->verdict)));
        buffer_print(text, ", ");
        write_member(text, "detail", view_of(finding->detail));
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
    write_member(text, "identity", outcome->identity);
    buffer_print(text, ", ");
    write_member(text, "kind", view_first(kind, view_find(kind, ' ')));
    buffer_print(text, ", \"usable\": %s", usable ? "true" : "false");
    if (!usable) {
        buffer_print(text, ",\n      ");
        write_member(text, "why", view_of(outcome->error->why));
    }
    buffer_print(text, ",\n      ");
    write_member(text, "version", view_of(hf_version()));
    buffer_print(text, ", ");
    write_member(text, "probed_at", view_of(time_text(outcome->at, time)));
    buffer_print(text, ", ");
    struct wall_time expires = wall_add(outcome->at, usable ? PASSED_FOR : REFUSED_FOR);
    write_member(text, "expires_at", view_of(time_text(expires, time)));
    buffer_print(text, ",\n      \"traits\": {");
    for (size_t i = 0; i < TRAIT_ROWS; i++)
        buffer_print(text, "%s \"%s\": %s", i ? "," : "", trait_rows[i].name,
                     *trait_at(&traits, i) ? "true" : "false");
    buffer_print(text, " }");
    write_findings(text, outcome->report);
    buffer_print(text, " }");
}

/* The verdicts on others that still count, the newest of them, which stand last. */
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

/* Everything of the document that is not about verdicts stays as it stood. */
static void keep_members(const struct format *format, struct buffer *text)
{
    struct json_reader reader = json_read(buffer_view(&format->text));
    struct view name, raw,
        features = VIEW("{ \"compatible\": [], \"read_only\": [], \"incompatible\": [] }");
    struct buffer others = BUFFER_INIT(FORMAT_BYTES_MAX);
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (!json_skip(&reader, &raw))
            break;
        if (view_equal(name, VIEW("features")))
            features = raw;
        else if (!view_equal(name, VIEW("format")) && !view_equal(name, VIEW("verdicts")) &&
                 !view_equal(name, VIEW("write")))
            buffer_print(&others, ",\n  \"%.*s\": %.*s", VIEW_ARGS(name), VIEW_ARGS(raw));
    }
    buffer_print(text, ",\n  \"features\": %.*s", VIEW_ARGS(features));
    buffer_append(text, buffer_view(&others));
    text->failed = text->failed || others.failed;
    buffer_release(&others);
}

static void encode(const struct format *format, const struct probe_outcome *outcome,
                   const char *nonce, struct buffer *text)
{
    buffer_print(text, "{ \"format\": \"%s\"", LAYOUT_BUCKET_FORMAT);
    keep_members(format, text);
    buffer_print(text, ",\n  \"verdicts\": [\n    ");
    keep_verdicts(format, outcome->identity, text);
    write_verdict(text, outcome);
    buffer_print(text, " ],\n  \"write\": \"%s\" }\n", nonce);
}

/* ---- Probing ------------------------------------------------------------------------- */

/* What can be said of it when there is no memory, or it is too long, is nothing. */
static struct view identity_of(struct store *store, struct buffer *space)
{
    buffer_clear(space);
    store_identify(store, space);
    return space->failed ? VIEW("") : buffer_view(space);
}

/* Writes the verdict into the document as it was read. */
static enum hf_status write_format(struct store *store, const struct format *format,
                                   struct probe_outcome *outcome, struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    struct buffer text = BUFFER_INIT(FORMAT_BYTES_MAX);
    env_random_hex(store->env, NONCE_SIZE, nonce);
    outcome->at = format->now;
    encode(format, outcome, nonce, &text);
    if (text.failed) {
        buffer_release(&text);
        return error_set(error, HF_UNAVAILABLE, "%s would be too long", LAYOUT_BUCKET_KEY);
    }
    struct put_call put = { .key = VIEW(LAYOUT_BUCKET_KEY),
                            .body = buffer_view(&text),
                            .condition =
                                format->etag.size ? if_match(&format->etag) : if_absent(),
                            .deadline = mono_add(env_now(store->env), READ_TIME) };
    enum hf_status status = store_put(store, &put);
    if (status != HF_OK)
        *error = put.error;
    buffer_release(&text);
    return status;
}

static enum hf_status refuse_store(const char *why, struct hf_error *error)
{
    return error_set(error, HF_UNSUPPORTED, "%.180s; 'store probe' tries it again", why);
}

/* Reads go on; every write of this handle ends with this. */
static enum hf_status bar_writes(struct store *store, struct hf_error *error)
{
    store->barred = *error;
    return error_clear(error);
}

static enum hf_status judge_features(struct store *store, const struct format *format,
                                     struct hf_error *error)
{
    if (format->unknown[INCOMPATIBLE][0])
        return error_set(error, HF_UNSUPPORTED,
                         "this bucket uses the feature '%s', which this version does not know: "
                         "upgrade",
                         format->unknown[INCOMPATIBLE]);
    if (!format->unknown[READ_ONLY][0])
        return HF_OK;
    error_set(error, HF_UNSUPPORTED,
              "this bucket uses the feature '%s', with which this version can only read: "
              "upgrade to write",
              format->unknown[READ_ONLY]);
    return bar_writes(store, error);
}

/* Reads again what somebody else has written. One prober may have been luckier than another: that
 * a store lies counts for more than that it was not caught. */
static enum hf_status read_again(struct store *store, struct format *format,
                                 const struct probe_outcome *outcome, struct hf_error *error)
{
    struct verdict theirs;
    format_release(format);
    enum hf_status status = read_format(store, format, error);
    if (status == HF_OK)
        status = judge_features(store, format, error);
    if (status == HF_OK && outcome->yields && outcome->error->status == HF_OK &&
        find_verdict(format, store, outcome->identity, &theirs) && !theirs.usable)
        status = refuse_store(theirs.why, error);
    return status;
}

/* Keeps what was found, in the document as it stands by then. */
static enum hf_status keep_outcome(struct store *store, struct format *format,
                                   struct probe_outcome *outcome, struct hf_error *error)
{
    enum hf_status status = write_format(store, format, outcome, error);
    for (int i = 1; i < WRITE_TRIES && (status == HF_CONFLICT || status == HF_NOT_FOUND); i++) {
        status = read_again(store, format, outcome, error);
        if (status == HF_OK)
            status = write_format(store, format, outcome, error);
    }
    return status;
}

/* Whether a probe that ended so may succeed when it is tried again: its requests had no answer, or
 * one of its own writes landed late. */
static bool may_pass_later(enum hf_status status)
{
    return status == HF_UNSURE || status == HF_UNAVAILABLE || status == HF_CONFLICT ||
           status == HF_TIMEOUT;
}

/* Waits before the next try; false, at once, if there is no time for one. */
static bool pause_within(struct store *store, struct mono_time deadline)
{
    struct mono_time next = mono_add(env_now(store->env), env_jitter(store->env, RETRY_PAUSE));
    if (!mono_before(next, deadline))
        return false;
    env_sleep_until(store->env, next);
    return true;
}

static enum hf_status probe_with_patience(struct store *store, struct probe_report *report,
                                          struct hf_error *error)
{
    struct mono_time deadline = mono_add(env_now(store->env), PROBE_TIME);
    enum hf_status status = store_probe(store, deadline, report, error);
    for (int i = 1; i < PROBE_TRIES && may_pass_later(status); i++) {
        if (!pause_within(store, deadline))
            break;
        status = store_probe(store, deadline, report, error);
    }
    if (may_pass_later(status) || status == HF_NOT_FOUND) {
        bool gone = status == HF_NOT_FOUND;
        error->status = status = gone ? HF_NOT_FOUND : HF_UNAVAILABLE;
        error_prefix(error, "cannot find out whether this store can be used");
    }
    return status;
}

static void adopt_traits(struct store *store, const struct store_traits *traits)
{
    store->traits = *traits;
    if (store->ops->learn)
        store->ops->learn(store, &store->traits);
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
    enum hf_status status = read_format(store, &format, error);
    if (status == HF_OK) {
        status = probe_with_patience(store, ret_report, error);
        struct probe_outcome outcome = { .report = ret_report,
                                         .error = error,
                                         .identity = identity_of(store, &space) };
        bool verdict = status == HF_OK || status == HF_UNSUPPORTED;
        enum hf_status kept =
            keep && verdict ? keep_outcome(store, &format, &outcome, &unkept) : HF_OK;
        if (status == HF_OK && kept != HF_OK) {
            *error = unkept;
            error_prefix(error, "keep what was found in %s", LAYOUT_BUCKET_KEY);
            status = kept;
        }
    }
    format_release(&format);
    buffer_release(&space);
    return status;
}

/* ---- At the door --------------------------------------------------------------------- */

/* Nobody has tried this store, or it was long ago. What is found counts here even when it cannot be
 * kept for others. */
static enum hf_status try_store(struct store *store, struct format *format,
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
        if (keep_outcome(store, format, &outcome, &unkept) == HF_UNSUPPORTED) {
            *error = unkept;
            status = HF_UNSUPPORTED;
        }
    } else if (status == HF_UNSUPPORTED) {
        (void)keep_outcome(store, format, &outcome, &unkept);
    } else if (status == HF_DENIED) {
        error_prefix(error, "nobody has probed this store, and it may not be written to");
        status = bar_writes(store, error);
    }
    buffer_release(&space);
    return status;
}

/* A gateway that is being restarted refuses connections: whoever is going to wait for a lock waits
 * for that, too. */
static enum hf_status read_format_for(struct store *store, enum bucket_use use,
                                      struct format *format, struct hf_error *error)
{
    struct mono_time end = mono_add(env_now(store->env), READ_TIME);
    enum hf_status status = read_format(store, format, error);
    while (status == HF_UNAVAILABLE && use == BUCKET_LOCKS) {
        if (!pause_within(store, end))
            break;
        format_release(format);
        status = read_format(store, format, error);
    }
    return status;
}

/* What to do without the document. Who may not read it may not write either, and the call that is
 * made next says so as well as we could. By hand even a damaged one is no obstacle. */
static enum hf_status go_without(struct store *store, enum bucket_use use,
                                 enum hf_status status, struct hf_error *error)
{
    if (status == HF_DENIED)
        return use == BUCKET_LOCKS ? bar_writes(store, error) : error_clear(error);
    if (status == HF_CORRUPT && use == BUCKET_OBJECTS)
        return error_clear(error);
    return status;
}

enum hf_status bucket_check(struct store *store, enum bucket_use use, struct hf_error *error)
{
    struct format format;
    struct verdict verdict;
    struct buffer space = BUFFER_INIT(IDENTITY_MAX);
    enum hf_status status = read_format_for(store, use, &format, error);
    if (status == HF_OK)
        status = judge_features(store, &format, error);
    else
        status = go_without(store, use, status, error);
    bool others = store_identify(store, &space); /* after the get, which may have told more */
    bool judged =
        status == HF_OK && find_verdict(&format, store, buffer_view(&space), &verdict);
    if (judged)
        adopt_traits(store, &verdict.traits);
    if (judged && !verdict.usable && use == BUCKET_LOCKS)
        status = refuse_store(verdict.why, error);
    else if (status == HF_OK && !judged && others && use == BUCKET_LOCKS &&
             store->barred.status == HF_OK)
        status = try_store(store, &format, error);
    format_release(&format);
    buffer_release(&space);
    return status;
}
