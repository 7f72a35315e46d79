/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c: determines in which form a bucket accepts ETags, and which of its settings a user should
 * know about. */
#include "store/probe.h"
#include "base/check.h"
#include "base/parse.h"
#include "store/remote/xml.h"
#include "store/s3/inside.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- The form of ETags --------------------------------------------------------------- */

enum s3_etag_form s3_etag_form(struct store *store)
{
    struct s3_store *s3 = s3_of(store);
    env_mutex_lock(&s3->shared.mutex);
    enum s3_etag_form form = s3->shared.form;
    env_mutex_unlock(&s3->shared.mutex);
    return form;
}

/* A form from the URL, or one that has been found in the meantime, takes precedence. */
void s3_learn(struct store *store, const struct store_traits *traits)
{
    struct s3_store *s3 = s3_of(store);
    env_mutex_lock(&s3->shared.mutex);
    if (s3->shared.form == S3_ETAG_UNKNOWN)
        s3->shared.form = traits->etag_bare ? S3_ETAG_BARE : S3_ETAG_QUOTED;
    s3->shared.parts_conditional = traits->put_file_conditional;
    env_mutex_unlock(&s3->shared.mutex);
}

#define VERSIONED " versioned"

/* The address of the bucket and, as far as replies have shown, whether it keeps versions. On some
 * stores, versioning determines whether conditions are honoured. */
bool s3_identify(struct store *store, struct buffer *text)
{
    struct s3_store *s3 = s3_of(store);
    env_mutex_lock(&s3->remote.shared.mutex);
    bool versioned = s3->remote.shared.read_version || s3->remote.shared.makes_versions;
    env_mutex_unlock(&s3->remote.shared.mutex);
    buffer_print(text, "%s %s%s%s", store->ops->name, s3->remote.origin, s3->remote.root,
                 versioned ? VERSIONED : "");
    return true;
}

/* The document with the verdict may be older than the versions of the bucket, and then it has none.
 * So the bucket is asked. If that is not permitted, only later writes show it. */
static void ask_for_versions(struct s3_store *s3, struct mono_time deadline)
{
    struct remote_request request = { .method = "GET",
                                      .deadline = remote_deadline(&s3->remote, deadline) };
    struct http_reply reply;
    struct hf_error error;
    bool enabled = false;
    remote_add_parameter(&request, "versioning", VIEW(""));
    if (remote_send(&s3->remote, &request, /* again */ NULL, NULL, &reply, &error) == HF_OK)
        xml_says(buffer_view(&reply.body), "VersioningConfiguration", "Status", "Enabled",
                 &enabled, &error);
    http_reply_release(&reply);
    env_mutex_lock(&s3->remote.shared.mutex);
    s3->remote.shared.makes_versions = s3->remote.shared.makes_versions || enabled;
    env_mutex_unlock(&s3->remote.shared.mutex);
}

bool s3_rely(struct store *store, struct view identity)
{
    struct s3_store *s3 = s3_of(store);
    bool versioned = view_ends_with(identity, VIEW(VERSIONED));
    if (!versioned && !s3_is_directory(s3))
        ask_for_versions(s3, /* deadline */ (struct mono_time){ 0 });
    env_mutex_lock(&s3->remote.shared.mutex);
    bool same = versioned || !s3->remote.shared.makes_versions;
    s3->remote.shared.unversioned = same && !versioned;
    env_mutex_unlock(&s3->remote.shared.mutex);
    return same;
}

/* Ceph 16 refuses every put with If-Match once the bucket keeps versions: it compares the ETag with
 * that of the version that is about to be written. Such a reply names no version. */
void s3_doubt(struct store *store, struct mono_time deadline)
{
    struct s3_store *s3 = s3_of(store);
    env_mutex_lock(&s3->remote.shared.mutex);
    bool asks = s3->remote.shared.unversioned && !s3->remote.shared.makes_versions &&
                !s3_is_directory(s3);
    env_mutex_unlock(&s3->remote.shared.mutex);
    if (asks)
        ask_for_versions(s3, deadline);
}

/* Writes the scratch object, with this If-Match value unless it is empty. */
static enum hf_status put_scratch(struct s3_store *s3, struct view key, struct view if_match,
                                  struct mono_time deadline, struct etag *ret_etag,
                                  struct hf_error *error)
{
    char text[40], hash[S3_HASH_TEXT_SIZE];
    snprintf(text, sizeof text, "%016" PRIx64 "\n", env_random_u64(s3->remote.base.env));
    struct http_source source = { view_of(text), -1, 0, strlen(text) };
    s3_payload_hash(source.bytes, hash);
    struct remote_request request = { .method = "PUT",
                                      .key = key,
                                      .source = &source,
                                      .payload = hash,
                                      .writes = true,
                                      .deadline = deadline };
    if (if_match.size > 0) {
        request.condition = CONDITION_MATCH;
        remote_add_header(&request, "if-match", if_match);
    }
    struct http_reply reply;
    if (remote_send(&s3->remote, &request, /* again */ NULL, NULL, &reply, error) == HF_OK) {
        *ret_etag = reply.etag;
        if (reply.etag.size == 0)
            error_set(error, HF_UNSUPPORTED, "the store answers a put without an ETag");
    }
    http_reply_release(&reply);
    return error->status;
}

/* A failure here must not look like the outcome of the caller's write, which was not sent. */
static enum hf_status explain(struct hf_error *error)
{
    if (error->status == HF_CONFLICT || error->status == HF_NOT_FOUND)
        return error_set(
            error, HF_UNSUPPORTED,
            "this store refuses If-Match with the ETag that it has just returned, quoted "
            "and bare");
    if (error->status == HF_UNSURE)
        error->status = HF_UNAVAILABLE;
    if (error->status != HF_OK)
        error_prefix(error, "cannot determine which ETag format the store expects");
    return error->status;
}

static enum hf_status seek_form(struct s3_store *s3, struct mono_time deadline,
                                enum s3_etag_form *ret_form, struct hf_error *error)
{
    char name[64], space[REMOTE_KEY_SPACE], quoted[REMOTE_ETAG_SPACE];
    struct view key;
    struct etag etag;
    snprintf(name, sizeof name, ".holdfast/scratch-%016" PRIx64,
             env_random_u64(s3->remote.base.env));
    if (remote_key(&s3->remote, view_of(name), space, &key, error) != HF_OK ||
        put_scratch(s3, key, VIEW(""), deadline, &etag, error) != HF_OK)
        return explain(error);
    *ret_form = S3_ETAG_QUOTED;
    if (put_scratch(s3, key, remote_quoted(&etag, quoted), deadline, &etag, error) ==
            HF_CONFLICT ||
        error->status == HF_NOT_FOUND) {
        *ret_form = S3_ETAG_BARE;
        put_scratch(s3, key, etag_view(&etag), deadline, &etag, error);
    }
    struct delete_call removal = { .key = view_of(name), .deadline = deadline };
    s3_remove(&s3->remote.base, &removal, 1);
    return explain(error);
}

/* One task probes, and the others wait for its result. */
enum hf_status s3_probe_etag_form(struct store *store, struct mono_time deadline,
                                  struct hf_error *error)
{
    struct s3_store *s3 = s3_of(store);
    bool in_time = true;
    env_mutex_lock(&s3->shared.mutex);
    while (s3->shared.form == S3_ETAG_UNKNOWN && s3->shared.form_sought && in_time)
        in_time = env_cond_wait_until(&s3->shared.form_found, &s3->shared.mutex, deadline);
    bool ours = s3->shared.form == S3_ETAG_UNKNOWN && !s3->shared.form_sought;
    bool known = s3->shared.form != S3_ETAG_UNKNOWN;
    s3->shared.form_sought = s3->shared.form_sought || ours;
    env_mutex_unlock(&s3->shared.mutex);
    if (known)
        return error_clear(error);
    if (!ours)
        return error_set(error, HF_UNAVAILABLE, "no time was left to send the request");
    enum s3_etag_form form = S3_ETAG_UNKNOWN;
    enum hf_status status = seek_form(s3, deadline, &form, error);
    env_mutex_lock(&s3->shared.mutex);
    if (status == HF_OK)
        s3->shared.form = form;
    s3->shared.form_sought = false;
    env_cond_broadcast(&s3->shared.form_found);
    env_mutex_unlock(&s3->shared.mutex);
    return status;
}

/* ---- Settings of the bucket ---------------------------------------------------------- */

struct setting {
    const char *resource; /* of the bucket */
    const char *root;     /* the root element of its XML */
    const char *element;  /* it is enabled if an element with this name ... */
    const char *text;     /* ... has this text */
    const char *what;
    const char *warning; /* if it is enabled */
};

static const struct setting settings[] = {
    { "versioning", "VersioningConfiguration", "Status", "Enabled", "versioning",
      "the bucket keeps every version: deleted and overwritten objects stay, and are billed, "
      "until a rule removes them" },
    { "lifecycle", "LifecycleConfiguration", "Status", "Enabled", "lifecycle rules",
      "the bucket has lifecycle rules: make sure that none of them expires these objects" },
    { "replication", "ReplicationConfiguration", "Status", "Enabled", "replication",
      "the bucket is replicated: copies lag behind, so never run workers on both sides" },
};

static const struct setting google_settings[] = {
    { "versioning", "VersioningConfiguration", "Status", "Enabled", "versioning",
      "the bucket keeps every version: deleted and overwritten objects stay, and are billed, "
      "until a rule removes them" },
    { "lifecycle", "LifecycleConfiguration", "Delete", "", "lifecycle rules",
      "the bucket has rules that delete objects: make sure that none of them applies to "
      "these" },
};

/* A bucket without the setting answers 404 or an empty document. A setting that we may not read
 * is reported as unknown. */
static void inspect_setting(struct s3_store *s3, const struct setting *setting,
                            struct mono_time deadline, struct probe_report *report)
{
    struct remote_request request = { .method = "GET",
                                      .deadline = remote_deadline(&s3->remote, deadline) };
    bool enabled = false; /* in any of several rules */
    struct http_reply reply;
    struct hf_error error;
    remote_add_parameter(&request, setting->resource, VIEW(""));
    remote_send(&s3->remote, &request, /* again */ NULL, NULL, &reply, &error);
    if (error.status == HF_OK)
        xml_says(buffer_view(&reply.body), setting->root, setting->element, setting->text,
                 &enabled, &error);
    if (error.status == HF_OK && enabled)
        probe_note(report, setting->what, HF_FINDING_WARNING, "%s", setting->warning);
    else if (error.status == HF_OK || error.status == HF_NOT_FOUND)
        probe_note(report, setting->what, HF_FINDING_GOOD, "none");
    else
        probe_note(report, setting->what, HF_FINDING_LACKING, "cannot be read: %s", error.why);
    http_reply_release(&reply);
    report->requests++;
}

static void inspect_google(struct s3_store *s3, struct mono_time deadline,
                           struct probe_report *report)
{
    probe_note(report, "versions", HF_FINDING_GOOD, "generation numbers");
    for (size_t i = 0; i < sizeof google_settings / sizeof google_settings[0]; i++)
        inspect_setting(s3, &google_settings[i], deadline, report);
}

/* The endpoint of the zone says nothing about the bucket's settings. It has no versions. */
static void inspect_directory(struct probe_report *report)
{
    report->traits.list_ordered = false;
    probe_note(report, "directory bucket", HF_FINDING_LACKING,
               "it lists in no order: a listing reads all names of a folder, and sorts them");
    probe_note(report, "lifecycle rules", HF_FINDING_LACKING,
               "cannot be read: make sure that none of them expires these objects");
}

void s3_inspect(struct store *store, struct mono_time deadline, struct probe_report *report)
{
    struct s3_store *s3 = s3_of(store);
    if (s3_is_google(s3)) {
        inspect_google(s3, deadline, report);
        return;
    }
    enum s3_etag_form form = s3_etag_form(store);
    report->traits.etag_bare = form == S3_ETAG_BARE;
    probe_note(report, "ETag form", HF_FINDING_GOOD, "%s",
               form == S3_ETAG_QUOTED ? "quoted"
               : form == S3_ETAG_BARE ? "bare, without quotes"
                                      : "not tried");
    s3_inspect_parts(s3, deadline, report);
    if (s3_is_directory(s3)) {
        inspect_directory(report);
        return;
    }
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        inspect_setting(s3, &settings[i], deadline, report);
}
