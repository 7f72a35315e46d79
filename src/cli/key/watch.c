/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c: `key watch`: prints a line for each new version of a key. The key is polled, because not
 * every store notifies its readers; versions that came and went between two polls are counted. */
#include "cli/interrupt.h"
#include "cli/key/key.h"

#define KEY_INTERVAL       SPAN_S(1)
#define KEY_INTERVAL_LEAST SPAN_MS(50)

/* How often signals are checked. */
#define KEY_NAP SPAN_MS(50)

struct watched_key {
    struct told_key told;
    uint64_t missed;
};

static const struct field watched_key_record[] = WATCHED_KEY_RECORD;

struct key_watch {
    struct cli *cli;
    uint64_t version; /* the last one that was printed; 0: none */
    bool in_trouble;  /* an error was reported, and no poll has succeeded since */
};

/* An error that may be temporary is reported once, and does not end the watch. */
static enum hf_status poll_key(struct key_watch *watch)
{
    struct cli *cli = watch->cli;
    const char *name = cli->arguments[0];
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_error error;
    enum hf_status status = hf_key_describe(cli->client, name, &info, NULL, &error);
    bool temporary = status_is_temporary(status);
    if (temporary && !watch->in_trouble)
        cli_report(cli, cli_argument(cli, 0), &error);
    watch->in_trouble = temporary;
    if (temporary || status == HF_NOT_FOUND)
        return HF_OK;
    if (status != HF_OK) {
        cli->error = error;
        return status;
    }
    if (info.version == watch->version)
        return HF_OK;
    struct watched_key watched = { .told = told_key(cli, name, &info) };
    if (watch->version > 0 && info.version > watch->version)
        watched.missed = info.version - watch->version - 1;
    watch->version = info.version;
    record_show(cli, watched_key_record, &watched,
                "{updated_at}  " VERSION_TEXT "[, {missed version} before it not seen]\n");
    return output_flush(&cli->out, &cli->error);
}

enum hf_status run_key_watch(struct cli *cli)
{
    struct key_watch watch = { .cli = cli };
    struct span pause = cli_span(cli, "interval", KEY_INTERVAL);
    struct mono_time next = env_now(cli->env), end = { MOMENT_FAR };
    enum hf_status status;
    if (cli_given(cli, "for"))
        end = mono_add(next, cli_option(cli, "for")->span);
    if (pause.us < KEY_INTERVAL_LEAST.us)
        return cli_invalid(cli, "--interval must be at least 50ms");
    do {
        status = poll_key(&watch);
        next = mono_earlier(mono_add(env_now(cli->env), pause), end);
        while (status == HF_OK && mono_before(env_now(cli->env), next) && !interrupted())
            env_sleep_until(cli->env, mono_earlier(next, mono_add(env_now(cli->env), KEY_NAP)));
        if (status == HF_OK)
            status = interrupt_check(&cli->error);
    } while (status == HF_OK && mono_before(next, end));
    return status;
}
