/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_add.c: records in the format document of a bucket that a feature is used, and the
 * placements of namespaces. A placement that is recorded is never replaced by another. */
#include "store/bucket_inside.h"

#include "base/json.h"
#include "base/layout.h"
#include "base/rule.h"

#define ADD_TRIES 8

/* ---- Members of the document --------------------------------------------------------- */

void bucket_write_features(struct view features, enum feature_list to, const char *more,
                           struct buffer *text)
{
    struct json_reader reader = json_read(features);
    struct view name, raw;
    const char *before = "{ ";
    if (!more) {
        buffer_append(text, features);
        return;
    }
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (!json_skip(&reader, &raw))
            break;
        buffer_print(text, "%s\"%.*s\": ", before, VIEW_ARGS(name));
        before = ", ";
        if (more && view_equal(name, view_of(bucket_list_names[to]))) {
            struct json_reader list = json_read(raw);
            bool empty = !(json_enter_array(&list) && json_next_element(&list));
            buffer_append(text, empty ? VIEW("[") : view_first(raw, raw.size - 1));
            buffer_print(text, "%s\"%s\"]", empty ? "" : ", ", more);
            more = NULL;
        } else {
            buffer_append(text, raw);
        }
    }
    if (more)
        buffer_print(text, "%s\"%s\": [\"%s\"]", before, bucket_list_names[to], more);
    buffer_append(text, VIEW(" }"));
}

/* Appends the lists of features without this one. */
static void write_features_without(struct view features, const struct feature_row *row,
                                   struct buffer *text)
{
    struct json_reader reader = json_read(features);
    struct view name, raw, feature;
    const char *before = "{ ";
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (!json_skip(&reader, &raw))
            break;
        buffer_print(text, "%s\"%.*s\": ", before, VIEW_ARGS(name));
        before = ", ";
        if (!view_equal(name, view_of(bucket_list_names[row->list]))) {
            buffer_append(text, raw);
            continue;
        }
        struct json_reader list = json_read(raw);
        const char *between = "[";
        for (json_enter_array(&list); json_next_element(&list);)
            if (json_skip(&list, &feature) &&
                !view_equal(view_first(view_from(feature, 1), feature.size - 2),
                            view_of(row->name))) {
                buffer_print(text, "%s%.*s", between, VIEW_ARGS(feature));
                between = ", ";
            }
        buffer_append(text, between[0] == '[' ? VIEW("[]") : VIEW("]"));
    }
    buffer_append(text, before[0] == '{' ? VIEW("{ }") : VIEW(" }"));
}

/* The placement of a namespace that the document records; empty if there is none. */
static struct view recorded_placement(const struct format *format, struct view ns)
{
    struct json_reader reader = json_read(format->placements);
    struct view name, raw, found = VIEW("");
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (json_skip(&reader, &raw) && view_equal(name, ns))
            found = raw;
    return found;
}

void bucket_write_placements(const struct format *format, const struct addition *added,
                             struct buffer *text)
{
    struct json_reader reader = json_read(format->placements);
    struct view name, raw;
    const char *before = ",\n  \"placements\": { ";
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (!json_skip(&reader, &raw))
            break;
        if (added && view_equal(name, added->ns))
            continue;
        buffer_print(text, "%s\"%.*s\": %.*s", before, VIEW_ARGS(name), VIEW_ARGS(raw));
        before = ", ";
    }
    if (added && added->ns.size > 0) {
        buffer_print(text, "%s\"%.*s\": %.*s", before, VIEW_ARGS(added->ns),
                     VIEW_ARGS(added->placement));
        before = ", ";
    }
    if (before[1] == ' ')
        buffer_append(text, VIEW(" }"));
}

/* ---- Additions ------------------------------------------------------------------------ */

enum hf_status bucket_read_placements(struct store *store, struct buffer *placements,
                                      struct hf_error *error)
{
    struct format format;
    enum hf_status status = bucket_read_known(store, &format, error);
    if (status == HF_OK && !buffer_append(placements, format.placements))
        status = error_no_memory(error);
    buffer_release(&format.text);
    return status;
}

static enum hf_status write_addition(struct store *store, const struct format *format,
                                     const struct addition *added, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(FORMAT_BYTES_MAX), left = BUFFER_INIT(FORMAT_BYTES_MAX);
    const struct feature_row *row = &bucket_features[added->feature];
    bool adds = !added->drops && !format->uses[added->feature];
    if (added->drops)
        write_features_without(format->features, row, &left);
    bucket_begin_format(store, added->drops ? buffer_view(&left) : format->features, row->list,
                        adds ? row->name : NULL, &text);
    bucket_keep_members(format, &text);
    bucket_write_placements(format, added, &text);
    if (format->verdicts.size > 0)
        buffer_print(&text, ",\n  \"verdicts\": %.*s", VIEW_ARGS(format->verdicts));
    enum hf_status status =
        left.failed ? error_no_memory(error) : bucket_put_format(store, format, &text, error);
    buffer_release(&text);
    buffer_release(&left);
    return status;
}

/* OK if the document already has the addition, NOT_FOUND if it has to be written. */
static enum hf_status find_addition(const struct format *format, const struct addition *added,
                                    struct hf_error *error)
{
    if (RULE(SWITCH_ALWAYS_WRITES) && added->switches)
        return HF_NOT_FOUND;
    if (added->drops)
        return format->uses[added->feature] ? HF_NOT_FOUND : HF_OK;
    struct view found = recorded_placement(format, added->ns);
    bool all = view_equal(found, added->placement);
    if (RULE(PLACEMENT_NEVER_CHANGES) && added->ns.size > 0 && found.size > 0 && !all)
        return error_set(
            error, HF_MISMATCH,
            "%s records another placement of namespace '%.*s', which never changes",
            LAYOUT_BUCKET_KEY, VIEW_ARGS(view_first(added->ns, 40)));
    return all && format->uses[added->feature] ? HF_OK : HF_NOT_FOUND;
}

/* Whether a write that had this outcome may have been done, or may be done later. */
static bool is_in_doubt(const struct store *store, enum hf_status status)
{
    /* A conflict may have been one with an earlier copy of the same write. */
    bool conflict = status == HF_CONFLICT || status == HF_NOT_FOUND;
    return status == HF_UNSURE || (conflict && !store->traits.conflict_final);
}

/* Writes the addition if the document, which is read, does not have it. */
static enum hf_status try_addition(struct store *store, const struct addition *added,
                                   bool *in_doubt, struct hf_error *error)
{
    struct format format;
    enum hf_status status = bucket_read_known(store, &format, error);
    if (status == HF_OK)
        status = find_addition(&format, added, error);
    if (status == HF_NOT_FOUND) {
        status = write_addition(store, &format, added, error);
        *in_doubt = *in_doubt || is_in_doubt(store, status);
    }
    buffer_release(&format.text);
    return status;
}

/* After a conflict or a lost reply, the document shows whether the addition is recorded. If it can
 * no longer be read, or must no longer be changed, that stays unknown: a later version without the
 * addition may have been written by a client that undid it. A placement never changes, so that a
 * MISMATCH means that it was not recorded. */
static enum hf_status record_addition(struct store *store, const struct addition *added,
                                      struct hf_error *error)
{
    bool in_doubt = false;
    enum hf_status status = HF_UNAVAILABLE;
    for (int i = 0; i < ADD_TRIES; i++) {
        if (i > 0)
            env_sleep(store->env, env_jitter(store->env, RETRY_PAUSE));
        status = try_addition(store, added, &in_doubt, error);
        if (!bucket_may_pass_later(status) && status != HF_NOT_FOUND)
            break;
    }
    if (RULE(ADDITION_IN_DOUBT_IS_UNSURE) && in_doubt && status != HF_OK &&
        status != HF_MISMATCH) {
        error->status = status = HF_UNSURE;
        error_prefix(error, "it may be recorded or not");
    }
    return status;
}

enum hf_status bucket_use_feature(struct store *store, enum bucket_feature feature,
                                  struct hf_error *error)
{
    return record_addition(store, &(struct addition){ .feature = feature }, error);
}

enum hf_status bucket_switch_feature(struct store *store, enum bucket_feature feature, bool on,
                                     struct hf_error *error)
{
    const struct addition added = { .feature = feature, .drops = !on, .switches = true };
    return record_addition(store, &added, error);
}

enum hf_status bucket_has_feature(struct store *store, enum bucket_feature feature,
                                  bool *ret_used, struct hf_error *error)
{
    struct format format;
    enum hf_status status = bucket_read_known(store, &format, error);
    if (status == HF_OK)
        *ret_used = format.uses[feature];
    buffer_release(&format.text);
    return status;
}

enum hf_status bucket_record_placement(struct store *store, struct view ns,
                                       struct view placement, struct hf_error *error)
{
    const struct addition added = { .feature = BUCKET_PATH_PAGES,
                                    .ns = ns,
                                    .placement = placement };
    return record_addition(store, &added, error);
}
