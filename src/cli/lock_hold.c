/* lock_hold.c: `acquire`, `renew` and `release`: a lease that outlives the command, passed on
 * as text; and how the other commands come to hold one. */
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/json_add.h"
#include "cli/lock.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WAIT_DEFAULT SPAN_S(60)
#define TELL_AFTER   SPAN_S(1) /* what passes sooner is nobody's concern */
#define CANCEL_EACH  SPAN_MS(50)

/* ---- Options and clients ------------------------------------------------------------- */

const char *option_text(struct cli *cli, const char *name)
{
    const struct option_value *option = cli_option(cli, name);
    return option ? option->text.data : NULL; /* a word of the command line ends with NUL */
}

enum hf_status lock_connect(struct cli *cli, const char *holder, struct hf_client **ret_client)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.ns = option_text(cli, "ns");
    options.holder = holder;
    return cli_connect(cli, options, ret_client);
}

const char *user_name(char text[USER_TEXT_MAX])
{
    char space[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(geteuid(), &entry, space, sizeof space, &found) == 0 && found)
        snprintf(text, USER_TEXT_MAX, "%.80s", found->pw_name);
    else
        snprintf(text, USER_TEXT_MAX, "uid-%ld", (long)geteuid());
    return text;
}

const char *user_text(char text[USER_TEXT_MAX])
{
    char host[100] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "unknown");
    user_name(text);
    size_t size = strlen(text);
    snprintf(text + size, USER_TEXT_MAX - size, "@%s", host);
    return text;
}

static enum hf_status period_options(struct cli *cli, struct hf_lock_options *options)
{
    const struct option_value *once_per = cli_option(cli, "once-per");
    const struct option_value *slack = cli_option(cli, "slack");
    options->once_per_ms = once_per ? once_per->span.us / 1000 : 0;
    if (!slack)
        return HF_OK;
    if (!once_per || slack->span.us >= once_per->span.us)
        return error_set(&cli->error, HF_INVALID,
                         once_per ? "--slack must be less than --once-per"
                                  : "--slack goes with --once-per");
    options->once_slack_ms = slack->span.us >= 1000 ? slack->span.us / 1000 : HF_NO_SLACK;
    return HF_OK;
}

enum hf_status lock_options(struct cli *cli, bool has_modes, struct hf_lock_options *options)
{
    const struct option_value *ttl = cli_option(cli, "ttl");
    *options = HF_LOCK_OPTIONS;
    if (ttl)
        options->ttl_ms = ttl->span.us / 1000;
    if (!has_modes)
        return HF_OK;
    const struct option_value *mode = cli_option(cli, "mode");
    const struct option_value *slots = cli_option(cli, "slots");
    if (mode && view_equal(mode->text, VIEW("shared")))
        options->mode = HF_SHARED;
    else if (mode && !view_equal(mode->text, VIEW("exclusive")))
        return error_set(&cli->error, HF_INVALID, "--mode is shared or exclusive, not '%.*s'",
                         VIEW_ARGS(view_first(mode->text, 40)));
    if (slots && (slots->number == 0 || slots->number > UINT32_MAX))
        return error_set(&cli->error, HF_INVALID, "--slots must be between 1 and %" PRIu32,
                         UINT32_MAX);
    if (slots) {
        options->mode = HF_SLOTS;
        options->slots = (uint32_t)slots->number;
    }
    return period_options(cli, options);
}

/* ---- Who is in the way --------------------------------------------------------------- */

void append_holder(struct buffer *text, const struct hf_lease_info *lease)
{
    char span[SPAN_TEXT_MAX];
    if (lease->barrier) {
        append_barrier(text, lease);
        return;
    }
    append_scopes(text, lease);
    buffer_append(text, VIEW(" is held by "));
    escape_append(text, view_first(view_of(lease->holder), 60));
    buffer_print(text, " (token %" PRIu64 ") for %s", lease->token,
                 brief_text(SPAN_MS(lease->held_ms), span));
    if (lease->remaining_ms > 0)
        buffer_print(text, "; the lease expires in %s unless renewed",
                     brief_text(SPAN_MS(lease->remaining_ms), span));
}

void refusal_add_lease(json_t **refusal, const struct hf_lease_info *lease, const char *wanted)
{
    json_t *object = json_object();
    json_t *leased = *refusal ? json_incref(json_object_get(*refusal, "leased")) : json_array();
    json_int_t retry =
        *refusal ? json_integer_value(json_object_get(*refusal, "retry_after_ms")) : 0;
    if (wanted)
        json_add(&object, "scope", json_string(wanted));
    json_add_words(&object, "holder", view_of(lease->holder));
    json_add_span(&object, "expires_in_ms", SPAN_MS(lease->remaining_ms));
    if (!*refusal)
        *refusal = json_copy(object);
    json_add_count(&object, "token", lease->token);
    json_push(&leased, object);
    json_add(refusal, "leased", leased);
    int64_t later = lease->takeover_ms;
    json_add(refusal, "retry_after_ms", json_integer(later > retry ? later : retry));
}

struct blocking {
    struct buffer *text;  /* about the first that was found */
    json_t **refusal;     /* the same for programs; NULL: not wanted */
    size_t scopes_leased; /* of those that are wanted */
};

static bool note_blocker(void *argument, const char *scope, const struct hf_lease_info *lease)
{
    struct blocking *blocking = argument;
    if (blocking->scopes_leased++ == 0)
        append_holder(blocking->text, lease);
    if (blocking->refusal)
        refusal_add_lease(blocking->refusal, lease, scope);
    return true;
}

static size_t count_scopes(struct hf_lock *lock)
{
    char text[HF_SCOPE_TEXT_MAX];
    size_t count = 0;
    while (hf_lock_scope(lock, count, text, /* error */ NULL) == HF_OK)
        count++;
    return count;
}

static void find_blockers(struct buffer *to, json_t **refusal, struct hf_lock *lock)
{
    struct blocking blocking = { to, refusal, 0 };
    hf_lock_blockers(lock, note_blocker, &blocking, /* error */ NULL);
    if (blocking.scopes_leased > 1)
        buffer_print(to, "; %zu of the %zu that are wanted are leased", blocking.scopes_leased,
                     count_scopes(lock));
}

void append_blocker(struct buffer *to, struct hf_lock *lock)
{
    find_blockers(to, /* refusal */ NULL, lock);
}

/* Who did it, and when it may be done again. */
static void explain_done(struct cli *cli, struct hf_lock *lock)
{
    struct hf_blocker done = HF_BLOCKER;
    if (hf_lock_blocker(lock, &done, /* error */ NULL) != HF_OK ||
        done.state != HF_LEASE_COMPLETED)
        return;
    cli->refusal = json_object();
    json_add_words(&cli->refusal, "holder", view_of(done.holder));
    json_add(&cli->refusal, "scope", json_string(done.scope));
    json_add_span(&cli->refusal, "retry_after_ms", SPAN_MS(done.retry_ms));
}

void lock_explain(struct cli *cli, struct hf_lock *lock)
{
    char scope[HF_SCOPE_TEXT_MAX] = "";
    if (cli->error.status == HF_ALREADY && cli->json)
        explain_done(cli, lock);
    if (cli->error.status != HF_HELD && cli->error.status != HF_TIMEOUT)
        return;
    struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
    find_blockers(&text, cli->json ? &cli->refusal : NULL, lock);
    hf_lock_scope(lock, 0, scope, /* error */ NULL);
    if (text.size > 0 && view_starts_with(view_of(scope), VIEW("chunk:")))
        cli->outcome = "chunks_already_leased";
    if (text.size > 0)
        error_set(&cli->error, cli->error.status, "%s%.*s",
                  cli->error.status == HF_TIMEOUT ? "gave up waiting: " : "",
                  VIEW_ARGS(view_first(buffer_view(&text), HF_WHY_MAX - 1)));
    buffer_release(&text);
}

/* ---- Acquiring ----------------------------------------------------------------------- */

struct waiting {
    const struct wait_call *call;
    int64_t wait_ms;
    struct hf_error error;
    struct env_mutex mutex; /* guards `over` */
    struct env_cond ended;
    bool over;
};

static void acquire(void *argument)
{
    struct waiting *waiting = argument;
    waiting->call->acquire(waiting->call->argument, waiting->wait_ms, &waiting->error);
    env_mutex_lock(&waiting->mutex);
    waiting->over = true;
    env_cond_signal(&waiting->ended);
    env_mutex_unlock(&waiting->mutex);
}

bool tell_trouble_once(struct cli *cli, enum hf_status trouble, const struct hf_error *why,
                       bool told)
{
    if (told || cli->quiet || trouble == HF_OK)
        return told;
    struct hf_error said;
    error_set(&said, why->status, "waiting for the store: %.200s", why->why);
    cli_report(cli, cli_argument(cli, 0), &said);
    return true;
}

/* A thread waits for the lock, we for it and for signals. */
static void wait_or_cancel(struct cli *cli, struct waiting *waiting)
{
    const struct wait_call *call = waiting->call;
    struct hf_error why;
    bool told = false;
    struct mono_time tell_at = mono_add(env_now(cli->env), TELL_AFTER);
    env_mutex_lock(&waiting->mutex);
    while (!waiting->over) {
        env_cond_wait_until(&waiting->ended, &waiting->mutex,
                            mono_add(env_now(cli->env), CANCEL_EACH));
        if (interrupted())
            call->cancel(call->argument);
        else if (!waiting->over && !mono_before(env_now(cli->env), tell_at))
            told = tell_trouble_once(cli, call->trouble(call->argument, &why), &why, told);
    }
    env_mutex_unlock(&waiting->mutex);
}

static enum hf_status wait_on_thread(struct cli *cli, struct waiting *waiting)
{
    struct env_task *task;
    env_mutex_init(cli->env, &waiting->mutex);
    env_cond_init(cli->env, &waiting->ended);
    enum hf_status status = env_task_start(cli->env, acquire, waiting, &task, &waiting->error);
    if (status == HF_OK) {
        wait_or_cancel(cli, waiting);
        env_task_join(cli->env, task);
    }
    env_cond_release(&waiting->ended);
    env_mutex_release(&waiting->mutex);
    return waiting->error.status;
}

enum hf_status wait_in_line(struct cli *cli, const struct wait_call *call)
{
    struct span span = cli_span(cli, "wait", WAIT_DEFAULT);
    struct waiting waiting = { .call = call, .wait_ms = span.us / 1000 };
    if (cli_given(cli, "no-wait") || span.us == 0)
        return call->acquire(call->argument, 0, &cli->error);
    wait_on_thread(cli, &waiting);
    cli->error = waiting.error;
    return cli->error.status;
}

static enum hf_status acquire_lock(void *argument, int64_t wait_ms, struct hf_error *error)
{
    return hf_lock_acquire(argument, wait_ms, error);
}

static void cancel_lock(void *argument)
{
    hf_lock_interrupt(argument);
}

static enum hf_status trouble_of_lock(void *argument, struct hf_error *error)
{
    return hf_lock_trouble(argument, error);
}

enum hf_status lock_acquire(struct cli *cli, struct hf_lock *lock)
{
    wait_in_line(cli, &(struct wait_call){ acquire_lock, cancel_lock, trouble_of_lock, lock });
    lock_explain(cli, lock);
    return cli->error.status;
}

/* ---- Telling ------------------------------------------------------------------------- */

static void tell_json(struct cli *cli, struct hf_lock *lock, const char *text)
{
    char scope[HF_SCOPE_TEXT_MAX];
    json_t *object = json_object(), *scopes = json_array();
    json_add(&object, "lease", json_string(text));
    json_add_count(&object, "token", hf_lock_token(lock));
    json_add(&object, "ttl_ms", json_integer((json_int_t)hf_lock_ttl_ms(lock)));
    json_add(&object, "expires_in_ms", json_integer((json_int_t)hf_lock_remaining_ms(lock)));
    for (size_t i = 0; hf_lock_scope(lock, i, scope, /* error */ NULL) == HF_OK; i++)
        json_push(&scopes, json_string(scope));
    if (json_array_size(scopes) > 0)
        json_add(&object, "scopes", scopes);
    else
        json_decref(scopes);
    output_json(&cli->out, object);
}

enum hf_status lease_hand_over(struct cli *cli, struct hf_lock *lock)
{
    char text[HF_LEASE_TEXT_MAX];
    enum hf_status status = hf_lock_text(lock, text, &cli->error);
    if (status != HF_OK)
        return status;
    if (cli->json)
        tell_json(cli, lock, text);
    else
        output_print(&cli->out, "%s\n", text);
    return output_flush_or_undo(&cli->out, &cli->error);
}

/* ---- acquire ------------------------------------------------------------------------- */

static enum hf_status acquire_with(struct cli *cli, struct hf_client *client,
                                   const struct hf_lock_options *options)
{
    struct hf_lock *lock;
    enum hf_status status = hf_lock_new_many(client, cli->arguments, cli->argument_count,
                                             options, &lock, &cli->error);
    if (status != HF_OK)
        return status;
    status = lock_acquire(cli, lock);
    if (status == HF_OK)
        status = lease_hand_over(cli, lock);
    if (status == HF_OK)
        hf_lock_detach(lock);
    else
        hf_lock_free(lock);
    return status;
}

enum hf_status run_acquire(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct hf_lock_options options;
    char user[USER_TEXT_MAX];
    const char *holder = option_text(cli, "holder");
    enum hf_status status = lock_options(cli, /* has_modes */ true, &options);
    options.no_renewal = true;
    options.note = option_text(cli, "note");
    if (status == HF_OK)
        status = lock_connect(cli, holder ? holder : user_text(user), &client);
    if (status == HF_OK)
        status = acquire_with(cli, client, &options);
    hf_client_close(client);
    return status;
}

/* ---- renew, release ------------------------------------------------------------------ */

bool is_lease_text(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return strcmp(text, "-") == 0 || (digits > 0 && text[digits] == ':');
}

/* The first line of stdin. */
static enum hf_status read_lease(struct cli *cli, const char **ret_text)
{
    char *text = arena_take(&cli->arena, HF_LEASE_TEXT_MAX);
    size_t size = 0;
    ssize_t got = 1;
    if (!text)
        return error_no_memory(&cli->error);
    while (got != 0 && size < HF_LEASE_TEXT_MAX - 1 && !memchr(text, '\n', size)) {
        got = read(STDIN_FILENO, text + size, HF_LEASE_TEXT_MAX - 1 - size);
        if (got > 0)
            size += (size_t)got;
        else if (got < 0 && errno != EINTR)
            return error_from_errno(&cli->error, errno, "read the lease from stdin");
        else if (interrupted())
            return interrupt_check(&cli->error);
    }
    text[size] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    *ret_text = text;
    return text[0] ? HF_OK : error_set(&cli->error, HF_INVALID, "there is no lease on stdin");
}

enum hf_status lease_text(struct cli *cli, const char *given, const char **ret_text)
{
    if (given && strcmp(given, "-") == 0)
        return read_lease(cli, ret_text);
    *ret_text = given ? given : getenv("HOLDFAST_LEASE");
    return HF_OK;
}

enum hf_status lease_namespace(struct cli *cli, const char *lease, const char **ret_ns)
{
    struct hf_lease_name name = HF_LEASE_NAME;
    enum hf_status status = hf_lease_parse(lease, &name, &cli->error);
    if (status != HF_OK)
        return status;
    struct view ns = arena_copy(&cli->arena, view_of(name.ns));
    *ret_ns = ns.data;
    return ns.data ? HF_OK : error_no_memory(&cli->error);
}

enum hf_status lease_adopt(struct cli *cli, const char *text, bool renew,
                           struct hf_client **ret_client, struct hf_lock **ret_lock)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_lock_options lock_options = HF_LOCK_OPTIONS;
    enum hf_status status = lease_text(cli, text, &text);
    if (status == HF_OK && (!text || !text[0]))
        return error_set(
            &cli->error, HF_INVALID,
            cli_has_option(cli, "lock")
                ? "no lock was given: use --lock NAME, or run this under 'holdfast run', "
                  "which sets HOLDFAST_LEASE"
                : "no lease was given: pass the one that 'holdfast acquire' printed, or set "
                  "HOLDFAST_LEASE");
    lock_options.no_renewal = !renew;
    if (status == HF_OK)
        status = lease_namespace(cli, text, &options.ns);
    if (status == HF_OK)
        status = cli_connect(cli, options, ret_client);
    if (status == HF_OK)
        status = hf_lock_adopt(*ret_client, text, &lock_options, ret_lock, &cli->error);
    return status;
}

static const char *lease_argument(struct cli *cli)
{
    return cli->argument_count > 0 ? cli->arguments[0] : NULL;
}

enum hf_status run_renew(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct hf_lock *lock = NULL;
    enum hf_status status =
        lease_adopt(cli, lease_argument(cli), /* renew */ false, &client, &lock);
    if (status == HF_OK && cli->json) {
        char text[HF_LEASE_TEXT_MAX];
        status = hf_lock_text(lock, text, &cli->error);
        if (status == HF_OK)
            tell_json(cli, lock, text);
    } else if (status == HF_OK && !cli->quiet) {
        char span[SPAN_TEXT_MAX];
        output_print(&cli->out, "renewed for %s\n",
                     brief_text(SPAN_MS(hf_lock_ttl_ms(lock)), span));
    }
    hf_lock_detach(lock);
    hf_client_close(client);
    return status;
}

static enum hf_status end_lease(struct cli *cli, struct hf_lock *lock)
{
    const char *note = option_text(cli, "note");
    if (cli_given(cli, "complete"))
        return hf_lock_complete(lock, note, &cli->error);
    if (cli_given(cli, "fail"))
        return hf_lock_fail(lock, note, &cli->error);
    return hf_lock_release(lock, &cli->error);
}

enum hf_status run_release(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct hf_lock *lock = NULL;
    if (cli_given(cli, "note") && !cli_given(cli, "complete") && !cli_given(cli, "fail"))
        return error_set(&cli->error, HF_INVALID, "--note goes with --complete or --fail");
    enum hf_status status =
        lease_adopt(cli, lease_argument(cli), /* renew */ false, &client, &lock);
    if (status == HF_OK) {
        uint64_t token = hf_lock_token(lock);
        status = end_lease(cli, lock);
        if (status == HF_OK && cli->json)
            output_json(&cli->out,
                        json_pack("{s:b, s:I}", "released", 1, "token", (json_int_t)token));
    }
    hf_lock_detach(lock); /* a bad note ends nothing, and leaves it as it was */
    hf_client_close(client);
    return status;
}
