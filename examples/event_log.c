/* SPDX-License-Identifier: Apache-2.0 */
/* event_log.c: prints a client's events as lines for a log or a metrics collector. In this example,
 * a lock is granted, renewed, taken over from a dead holder, and released.
 *
 *     event_log [URL]     for example: event_log sqlite:jobs.db */
#include <holdfast.h>
#include <inttypes.h>
#include <stdio.h>

/* Called by a client thread, for one event at a time, so no lock is needed here. */
static void log_event(void *argument, const struct hf_event *event)
{
    FILE *log = argument;
    if (event->kind == HF_EVENT_REQUEST)
        fprintf(log, "%" PRId64 " %s %s -> %s, %" PRIu64 " bytes, %" PRId64 " us\n",
                event->at_ms, hf_store_call_name(event->request), event->key,
                hf_status_name(event->status), event->bytes_sent + event->bytes_received,
                event->took_us);
    else
        fprintf(log, "%" PRId64 " %s %s token=%" PRIu64 " holder=%s\n", event->at_ms,
                hf_event_name(event->kind), event->scope[0] ? event->scope : event->key,
                event->token, event->holder);
}

int main(int argc, char **argv)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_lock_options short_lease = HF_LOCK_OPTIONS;
    struct hf_stats stats = HF_STATS;
    struct hf_client *client = NULL;
    struct hf_lock *dead = NULL, *lock = NULL;
    struct hf_error error;
    options.event = log_event;
    options.event_argument = stdout;
    short_lease.ttl_ms = 200;
    hf_client_open(argc > 1 ? argv[1] : "mem:", &options, &client, &error);
    hf_lock_new(client, "deploy", &short_lease, &dead, &error);
    enum hf_status status = hf_lock_acquire(dead, /* wait_ms */ 60000, &error);
    hf_lock_detach(dead); /* as if its process had died */
    hf_lock_new(client, "deploy", NULL, &lock, status == HF_OK ? &error : NULL);
    if (status == HF_OK)
        status = hf_lock_acquire(lock, /* wait_ms */ 60000, &error);
    if (status == HF_OK)
        status = hf_lock_release(lock, &error);
    if (status == HF_OK)
        status = hf_client_stats(client, &stats, &error);
    if (status != HF_OK)
        fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.why);
    hf_lock_free(lock);
    hf_client_close(client); /* all events have been delivered by now */
    printf("granted %" PRIu64 ", taken over %" PRIu64 ", %" PRIu64 " puts\n", stats.granted,
           stats.taken_over, stats.puts.calls);
    return hf_status_exit_code(status);
}
