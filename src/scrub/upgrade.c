/* SPDX-License-Identifier: Apache-2.0 */
/* upgrade.c: the feature `checksums`. First it is recorded, so that programs that would write
 * documents without a checksum no longer start to write. Then every document without a checksum
 * gets one. Each step can be repeated, and a crash between two of them leaves documents that every
 * version can read. */
#include "scrub/upgrade.h"

#include "base/checksum.h"
#include "base/evidence.h"
#include "base/rule.h"
#include "lock/fence.h"
#include "scrub/scrub.h"
#include "store/bucket.h"

struct upgrading {
    struct store *store;
    const struct upgrade_options *options;
    struct hf_store_upgrade_report *report;
};

/* A document cannot be sealed if it has no nonce in its head: another program wrote it, or a very
 * early version. Its next change adds one. */
static bool seal_text(struct env *env, struct view text, struct buffer *sealed)
{
    char nonce[NONCE_SIZE + 1];
    env_random_hex(env, NONCE_SIZE, nonce);
    bool fenced = view_starts_with(text, FENCE_START);
    struct view line = fenced ? view_first(text, view_find(text, '\n') + 1) : text;
    return checksum_seal(line, view_of(nonce), sealed) &&
           buffer_append(sealed, view_from(text, line.size));
}

/* Only `write` changes, on condition that the document is still the one that was read. So the write
 * has no meaning for the protocol: it is like that of a client that changed nothing. */
static enum hf_status seal_document(void *argument, struct view key, struct view text,
                                    const struct etag *version, struct hf_error *error)
{
    struct upgrading *upgrading = argument;
    const struct upgrade_options *options = upgrading->options;
    struct buffer sealed = BUFFER_INIT(text.size + NONCE_SIZE + CHECKSUM_HEAD);
    enum hf_status status = HF_OK;
    if (!seal_text(upgrading->store->env, text, &sealed)) {
        buffer_release(&sealed);
        return HF_OK;
    }
    if (!options->dry_run) {
        struct put_call put = { .key = key, .body = buffer_view(&sealed) };
        if (RULE(SEALED_IF_UNCHANGED))
            put.condition = if_match(version);
        status = store_put(upgrading->store, &put);
        if (status == HF_NOT_FOUND) /* it was deleted meanwhile */
            status = HF_CONFLICT;
        if (status != HF_OK)
            *error = put.error;
    }
    if (status == HF_OK) {
        upgrading->report->sealed++;
        if (options->each && !options->each(options->argument, key))
            status = error_set(error, HF_CANCELLED, "stopped; run it again to continue");
    }
    buffer_release(&sealed);
    return status;
}

static bool upgrade_goes_on(void *argument, const struct hf_store_scrub_report *so_far)
{
    const struct upgrading *upgrading = argument;
    const struct upgrade_options *options = upgrading->options;
    upgrading->report->documents = so_far->documents;
    return !options->go_on || options->go_on(options->argument, so_far);
}

static enum hf_status seal_all(struct upgrading *upgrading, struct hf_error *error)
{
    struct hf_store_scrub_report found;
    const struct scrub_options options = {
        .documents = true,
        .seal = seal_document,
        .go_on = upgrade_goes_on,
        .argument = upgrading,
    };
    enum hf_status status = scrub_run(upgrading->store, &options, &found, error);
    upgrading->report->documents = found.documents;
    upgrading->report->left = found.damaged + found.unreadable + found.too_new +
                              found.unsealed - upgrading->report->sealed;
    return status;
}

enum hf_status upgrade_run(struct store *store, const struct upgrade_options *options,
                           struct hf_store_upgrade_report *ret_report, struct hf_error *error)
{
    struct upgrading upgrading = { store, options, ret_report };
    *ret_report = HF_STORE_UPGRADE_REPORT;
    enum hf_status status =
        bucket_has_feature(store, BUCKET_CHECKSUMS, &ret_report->was_on, error);
    ret_report->is_on = ret_report->was_on;
    if (status != HF_OK)
        return status;
    if (!options->dry_run)
        status = bucket_switch_feature(store, BUCKET_CHECKSUMS, /* on */ !options->undo, error);
    if (status != HF_OK)
        return status;
    ret_report->is_on = !options->undo;
    return options->undo ? HF_OK : seal_all(&upgrading, error);
}
