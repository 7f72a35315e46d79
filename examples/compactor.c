/* SPDX-License-Identifier: Apache-2.0 */
/* compactor.c: compacts files in your own format. A library worker plans, leases and commits, and a
 * function in this program merges.
 *
 *     compactor [URL]     for example: compactor sqlite:jobs.db
 *
 * Any number of compactors may run at once, on any machines. To other programs, the chunks are
 * opaque bytes. The first word of the partition's command names the merger that the chunks need. */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

/* Our format consists of lines. A merge keeps all lines, one file after the other. */
static enum hf_status merge(void *argument, const struct hf_merger_job *job,
                            struct hf_merged *merged, struct hf_error *error)
{
    FILE *output = fopen(job->output, "w");
    (void)argument, (void)merged, (void)error;
    for (size_t i = 0; output && i < job->source_count; i++) {
        FILE *source = fopen(job->sources[i].path, "r");
        for (int byte; source && (byte = getc(source)) != EOF;)
            putc(byte, output);
        bool read = source && !ferror(source); /* an error looks like the end of the file */
        if (source)
            fclose(source);
        if (!read || !hf_merger_goes_on(job, job->sources[i].size))
            return fclose(output), HF_CANCELLED; /* a later job retries the merge */
    }
    bool written = output && !ferror(output);
    return output && fclose(output) == 0 && written ? HF_OK : HF_UNAVAILABLE;
}

int main(int argc, char **argv)
{
    struct hf_client *client = NULL;
    struct hf_compact *compact = NULL;
    struct hf_compact_settings settings = HF_COMPACT_SETTINGS;
    struct hf_compact_worker_options options = HF_COMPACT_WORKER_OPTIONS;
    struct hf_compact_totals totals = HF_COMPACT_TOTALS;
    struct hf_merger merger = HF_MERGER;
    struct hf_error error;
    const char *paths[] = { argv[0], argv[0] }; /* any file will do */
    settings.format = HF_MERGE_EXEC;
    settings.command = "lines {inputs} {output}";
    merger.name = "lines";
    merger.merge = merge;
    options.merger = &merger;
    options.force = true; /* merge even two chunks */
    hf_client_open(argc > 1 ? argv[1] : "mem:", NULL, &client, &error);
    hf_compact_open(client, "lines", NULL, &compact, &error);
    enum hf_status status = hf_compact_create(compact, &settings, &error);
    for (int i = 0; i < 2 && status == HF_OK; i++) {
        struct hf_compact_ingest_options once = HF_COMPACT_INGEST_OPTIONS;
        once.id = i == 0 ? "first" : "second"; /* by default, identical files are added once */
        status = hf_compact_ingest(compact, &paths[i], 1, &once, NULL, &error);
    }
    if (status == HF_OK)
        status = hf_compact_run(compact, &options, &totals, &error);
    printf("%s: %" PRIu64 " merged\n", hf_status_name(status), totals.groups_committed);
    hf_compact_close(compact);
    hf_client_close(client);
    return hf_status_exit_code(status);
}
