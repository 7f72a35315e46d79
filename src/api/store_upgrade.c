/* SPDX-License-Identifier: Apache-2.0 */
/* store_upgrade.c: hf_store_upgrade: adds checksums to the documents of a store. */
#include "api/store.h"

#include "scrub/upgrade.h"

#include <string.h>

static bool tell_upgraded(void *argument, struct view key)
{
    const struct hf_store_upgrade_options *options = argument;
    char text[HF_KEY_BYTES_MAX + 1];
    if (!options->each)
        return true;
    memcpy(text, key.data, key.size);
    text[key.size] = '\0';
    return options->each(options->argument, text, key.size);
}

static bool tell_upgrade_progress(void *argument, const struct hf_store_scrub_report *so_far)
{
    const struct hf_store_upgrade_options *options = argument;
    return !options->progress || options->progress(options->argument, so_far);
}

enum hf_status hf_store_upgrade(struct hf_store *store,
                                const struct hf_store_upgrade_options *options,
                                struct hf_store_upgrade_report *ret_report,
                                struct hf_error *error)
{
    struct hf_store_upgrade_options given = HF_STORE_UPGRADE_OPTIONS;
    struct hf_store_upgrade_report report;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, store) != HF_OK ||
        READ_OPTIONS(HF_STORE_UPGRADE_OPTIONS, options, &given, &why) != HF_OK ||
        CHECK_REPORT(HF_STORE_UPGRADE_REPORT, ret_report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    const struct upgrade_options used = { .dry_run = given.dry_run,
                                          .undo = given.undo,
                                          .each = tell_upgraded,
                                          .go_on = tell_upgrade_progress,
                                          .argument = &given };
    enum hf_status status = store_handle_check_locks(store, &why);
    report = HF_STORE_UPGRADE_REPORT;
    if (status == HF_OK)
        status = upgrade_run(store->store, &used, &report, &why);
    write_caller_report(ret_report, &report, sizeof report);
    return error_tell(error, status, &why);
}
