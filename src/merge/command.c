/* SPDX-License-Identifier: Apache-2.0 */
/* command.c: splits a command line into words, and runs it in a process group of its own. No
 * process of the group may survive the merge, because it could still write to the files. The leader
 * is reaped only after KILL was sent to the group: until it is reaped, its process id, which is
 * also the id of the group, cannot be reused. */
#include "merge/command.h"

#include "base/check.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "env/env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Words --------------------------------------------------------------------------- */

#define LINE_BYTES_MAX (64 * KIB)
#define WORDS_MAX      ((size_t)1024 * 1024)
#define INPUTS         "{inputs}"
#define OUTPUT         "{output}"

struct splitter {
    struct view line;
    size_t at;
    char *to; /* where words are written; removing quotes only shortens them */
};

static bool is_word_break(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Takes the byte after a backslash. Within "..." a backslash escapes only some bytes; before other
 * bytes it is literal. */
static enum hf_status take_escaped(struct splitter *splitter, char quote,
                                   struct hf_error *error)
{
    if (splitter->at == splitter->line.size)
        return error_set(error, HF_INVALID, "the command ends with a backslash");
    char c = splitter->line.data[splitter->at++];
    if (c == '\n')
        return HF_OK; /* the line continues */
    if (quote && !strchr("\"\\$`", c))
        *splitter->to++ = '\\';
    *splitter->to++ = c;
    return HF_OK;
}

/* Takes the word that starts here, removes its quotes, and appends a NUL. */
static enum hf_status split_word(struct splitter *splitter, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    char quote = 0;
    while (status == HF_OK && splitter->at < splitter->line.size) {
        char c = splitter->line.data[splitter->at];
        if (!quote && is_word_break(c))
            break;
        splitter->at++;
        if (c == quote)
            quote = 0;
        else if (!quote && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'')
            status = take_escaped(splitter, quote, error);
        else
            *splitter->to++ = c;
    }
    if (status == HF_OK && quote)
        status = error_set(error, HF_INVALID, "the command has an unclosed %c", quote);
    *splitter->to++ = '\0';
    return status;
}

/* Splits the line into words. They are stored one after another in *ret_text, each ended by a
 * NUL. */
static enum hf_status split_words(struct view line, struct arena *arena, char **ret_text,
                                  size_t *ret_count, struct hf_error *error)
{
    if (line.size > LINE_BYTES_MAX)
        return error_set(error, HF_INVALID,
                         "the command has %zu bytes; at most %zu are allowed", line.size,
                         LINE_BYTES_MAX);
    if (view_find(line, '\0') < line.size)
        return error_set(error, HF_INVALID, "the command contains a NUL byte");
    char *text = arena_take(arena, line.size + 1);
    if (!text)
        return error_no_memory(error);
    struct splitter splitter = { .line = line, .to = text };
    size_t count = 0;
    enum hf_status status = HF_OK;
    for (;;) {
        while (splitter.at < line.size && is_word_break(line.data[splitter.at]))
            splitter.at++;
        if (splitter.at == line.size || status != HF_OK)
            break;
        status = split_word(&splitter, error);
        count++;
    }
    *ret_text = text;
    *ret_count = count;
    return status;
}

/* ---- Placeholders -------------------------------------------------------------------- */

struct filler {
    const struct merge_paths *paths;
    struct arena *arena;
    char **words;
    size_t count;
    bool output_named;
};

/* A path that starts with a dash would be taken for an option. */
static enum hf_status add_path(struct filler *filler, const char *path, struct hf_error *error)
{
    size_t size = strlen(path) + sizeof "./";
    char *word = arena_take(filler->arena, size);
    if (!word)
        return error_no_memory(error);
    snprintf(word, size, "%s%s", path[0] == '-' ? "./" : "", path);
    filler->words[filler->count++] = word;
    return HF_OK;
}

/* A word with each {output} replaced by the output's path. */
static enum hf_status add_filled(struct filler *filler, const char *word,
                                 struct hf_error *error)
{
    size_t places = 0;
    for (const char *at = word; (at = strstr(at, OUTPUT)); at += strlen(OUTPUT))
        places++;
    size_t output_size = strlen(filler->paths->output);
    char *filled = arena_take(filler->arena, strlen(word) + places * output_size + 1);
    if (!filled)
        return error_no_memory(error);
    filler->words[filler->count++] = filled;
    filler->output_named = filler->output_named || places > 0;
    for (const char *place; (place = strstr(word, OUTPUT)); word = place + strlen(OUTPUT)) {
        memcpy(filled, word, (size_t)(place - word));
        filled += place - word;
        memcpy(filled, filler->paths->output, output_size);
        filled += output_size;
    }
    memcpy(filled, word, strlen(word) + 1);
    return HF_OK;
}

static enum hf_status add_argument(struct filler *filler, const char *word,
                                   struct hf_error *error)
{
    bool is_first = filler->count == 0;
    if (is_first && (word[0] == '\0' || strstr(word, INPUTS) || strstr(word, OUTPUT)))
        return error_set(error, HF_INVALID,
                         "the command must begin with the name of a program, not '%.60s'",
                         word);
    if (strcmp(word, INPUTS) == 0) {
        for (size_t i = 0; i < filler->paths->input_count; i++) {
            enum hf_status status = add_path(filler, filler->paths->inputs[i], error);
            if (status != HF_OK)
                return status;
        }
        return HF_OK;
    }
    if (strstr(word, INPUTS))
        return error_set(error, HF_INVALID,
                         INPUTS " stands for many words, so it must be a word of its own, "
                                "not a part of '%.60s'",
                         word);
    if (strcmp(word, OUTPUT) != 0)
        return add_filled(filler, word, error);
    filler->output_named = true;
    return add_path(filler, filler->paths->output, error);
}

enum hf_status command_words(struct view line, const struct merge_paths *paths,
                             struct arena *arena, char ***ret_words, struct hf_error *error)
{
    char *text = NULL;
    size_t count = 0, total = 0;
    enum hf_status status = split_words(line, arena, &text, &count, error);
    if (status != HF_OK)
        return status;
    if (count == 0)
        return error_set(error, HF_INVALID, "the command has no words");
    const char *word = text;
    for (size_t i = 0; i < count; i++, word += strlen(word) + 1)
        total += strcmp(word, INPUTS) == 0 ? paths->input_count : 1;
    if (total > WORDS_MAX)
        return error_set(error, HF_INVALID, "the command has more than %zu words", WORDS_MAX);
    struct filler filler = {
        .paths = paths,
        .arena = arena,
        .words = arena_take(arena, (total + 1) * sizeof *filler.words),
    };
    if (!filler.words)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++, text += strlen(text) + 1) {
        status = add_argument(&filler, text, error);
        if (status != HF_OK)
            return status;
    }
    if (!filler.output_named)
        return error_set(error, HF_INVALID,
                         "the command does not say where " OUTPUT
                         " goes; add the word {output}");
    check(filler.count == total);
    filler.words[filler.count] = NULL;
    *ret_words = filler.words;
    return HF_OK;
}

/* ---- The program --------------------------------------------------------------------- */

#define NAME_SHOWN 40 /* bytes of a command's name in a reason */

/* The environment variables that a command from the bucket gets. They contain no credentials. */
static const char *const environment_names[] = { "PATH",       "HOME",     "LANG", "LC_ALL",
                                                 "LC_COLLATE", "LC_CTYPE", "TZ",   "TMPDIR" };
#define ENVIRONMENT_MAX (sizeof environment_names / sizeof environment_names[0])

/* Everything that the forked child needs. It is prepared before the fork, because another thread
 * may hold a lock of the C library at that time. So the child makes only system calls. */
struct plan {
    char path[PATH_MAX];
    char **words;
    pid_t parent;
    int nothing; /* /dev/null */
    int errors;  /* becomes its stderr */
    int failure; /* receives the errno of a failed exec; close-on-exec */
    sigset_t no_signals;
    struct rlimit memory;
    struct rlimit file;
    struct rlimit cpu;
    struct rlimit core;
    char **environment;
    char *listed[ENVIRONMENT_MAX + 1]; /* the environment for a command line from the bucket */
};

/* Whether this file may be run; otherwise errno says why. */
static bool may_run(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || access(path, X_OK) != 0)
        return false;
    errno = EACCES;
    return S_ISREG(info.st_mode);
}

/* Searches for the program as a shell does: in $PATH, unless its name has a slash. */
static enum hf_status find_executable(struct plan *plan, struct hf_error *error)
{
    const char *name = plan->words[0], *folders = getenv("PATH");
    bool is_path = strchr(name, '/') != NULL;
    struct view rest = view_of(is_path ? "" : folders ? folders : "/usr/bin:/bin");
    int reason = ENOENT;
    do {
        struct view folder = view_cut(&rest, ':');
        int size = snprintf(plan->path, sizeof plan->path, "%.*s%s%s", VIEW_ARGS(folder),
                            folder.size ? "/" : "", name);
        if (size < 0 || (size_t)size >= sizeof plan->path)
            continue;
        if (may_run(plan->path))
            return HF_OK;
        if (errno != ENOENT && errno != ENOTDIR)
            reason = errno;
    } while (rest.size > 0);
    char text[96] = "";
    if (reason == ENOENT)
        return error_set(error, HF_INVALID, "there is no program '%.*s'%s", NAME_SHOWN, name,
                         is_path ? "" : " in any folder of $PATH");
    return error_set(error, HF_INVALID, "cannot run '%.*s': %s", NAME_SHOWN, name,
                     strerror_r(reason, text, sizeof text));
}

/* Limits are only ever lowered; 0 leaves the limit unchanged. */
static struct rlimit lowered(struct rlimit limit, uint64_t soft, uint64_t hard)
{
    if (soft > 0 && limit.rlim_max > hard)
        limit.rlim_max = hard;
    if (soft > 0 && limit.rlim_cur > soft)
        limit.rlim_cur = soft;
    return limit;
}

/* Processor time is limited in whole seconds. A program that reaches the limit gets SIGXCPU, and is
 * killed a second later. */
static void plan_limits(struct plan *plan, const struct merge_command *command)
{
    uint64_t seconds = ((uint64_t)command->cpu_limit.us + 999999) / 1000000;
    check(getrlimit(RLIMIT_AS, &plan->memory) == 0);
    check(getrlimit(RLIMIT_FSIZE, &plan->file) == 0);
    check(getrlimit(RLIMIT_CPU, &plan->cpu) == 0);
    plan->memory = lowered(plan->memory, command->memory_bytes_max, command->memory_bytes_max);
    plan->file = lowered(plan->file, command->file_bytes_max, command->file_bytes_max);
    plan->cpu = lowered(plan->cpu, seconds, seconds + 1);
    check(getrlimit(RLIMIT_CORE, &plan->core) == 0);
    if (command->program)
        plan->core = (struct rlimit){ 0, 0 };
}

static char *find_variable(const char *name)
{
    size_t size = strlen(name);
    if (!environ)
        return NULL;
    for (char **at = environ; *at; at++)
        if (strncmp(*at, name, size) == 0 && (*at)[size] == '=')
            return *at;
    return NULL;
}

static void plan_environment(struct plan *plan, const struct merge_command *command)
{
    size_t count = 0;
    plan->environment = command->program ? plan->listed : environ;
    for (size_t i = 0; i < ENVIRONMENT_MAX; i++) {
        char *variable = find_variable(environment_names[i]);
        if (variable)
            plan->listed[count++] = variable;
    }
    plan->listed[count] = NULL;
}

static bool take_place(const struct plan *plan)
{
    return setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
           getppid() == plan->parent && dup2(plan->nothing, STDIN_FILENO) >= 0 &&
           dup2(plan->nothing, STDOUT_FILENO) >= 0 && dup2(plan->errors, STDERR_FILENO) >= 0 &&
           setrlimit(RLIMIT_AS, &plan->memory) == 0 &&
           setrlimit(RLIMIT_FSIZE, &plan->file) == 0 &&
           setrlimit(RLIMIT_CPU, &plan->cpu) == 0 && setrlimit(RLIMIT_CORE, &plan->core) == 0;
}

/* Runs in the forked child. Resets ignored and blocked signals, because programs rely on SIGPIPE,
 * and a limit of file sizes on SIGXFSZ. Our own files are close-on-exec; other files of the calling
 * program are closed if the kernel supports it (Linux 5.11). */
static _Noreturn void exec_command(const struct plan *plan)
{
    if (take_place(plan)) {
        (void)!close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        sigprocmask(SIG_SETMASK, &plan->no_signals, NULL);
        execve(plan->path, plan->words, plan->environment);
    }
    int reason = errno;
    (void)!write(plan->failure, &reason, sizeof reason);
    _exit(127);
}

/* ---- Running it ---------------------------------------------------------------------- */

#define PAUSE_MS   50           /* between two checks of clock and progress */
#define TAIL_BYTES 512          /* of stderr, kept */
#define TAIL_SHOWN 140          /* of these, shown in the reason */
#define READS_MAX  64           /* of stderr, before anything else is checked */
#define GIVE_UP    SPAN_S(30)   /* how long to wait for a killed command */
#define GROUP_ENDS SPAN_MS(250) /* how long to wait for processes it left behind */

struct process {
    struct env *env;
    const char *name;
    pid_t pid;
    int life;    /* a pidfd; -1 if not supported: then it is polled */
    int errors;  /* its stderr; -1 once it is closed */
    int failure; /* delivers the errno of a failed exec */
    char tail[TAIL_BYTES];
    size_t tail_size;
};

enum outcome { OUTCOME_ENDED, OUTCOME_OVERDUE, OUTCOME_STOPPED };

static void keep_tail(struct process *process, struct view bytes)
{
    bytes = view_from(bytes, bytes.size > TAIL_BYTES ? bytes.size - TAIL_BYTES : 0);
    size_t kept = TAIL_BYTES - bytes.size;
    kept = process->tail_size < kept ? process->tail_size : kept;
    memmove(process->tail, process->tail + process->tail_size - kept, kept);
    memcpy(process->tail + kept, bytes.data, bytes.size);
    process->tail_size = kept + bytes.size;
}

/* Reads what is in the pipe without blocking. */
static void read_errors(struct process *process)
{
    char piece[4096];
    int reads = 0;
    while (process->errors >= 0 && reads++ < READS_MAX) {
        ssize_t size = read(process->errors, piece, sizeof piece);
        if (size < 0)
            return;
        if (size > 0) {
            keep_tail(process, (struct view){ piece, (size_t)size });
        } else {
            close(process->errors);
            process->errors = -1;
        }
    }
}

/* Whether the command has ended. Also true if it was reaped elsewhere. Does not reap it. */
static bool has_ended(const struct process *process)
{
    siginfo_t info = { .si_pid = 0 };
    return waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

static void wait_for_process(struct process *process, struct span most)
{
    struct pollfd waits[] = {
        { .fd = process->life, .events = POLLIN },
        { .fd = process->errors, .events = POLLIN },
    };
    int64_t left_ms = (most.us + 999) / 1000;
    poll(waits, sizeof waits / sizeof waits[0], left_ms < PAUSE_MS ? (int)left_ms : PAUSE_MS);
    read_errors(process);
}

static enum outcome watch_process(struct process *process, struct span time_limit,
                                  const struct merge_progress *progress)
{
    struct mono_time deadline = mono_add(env_now(process->env), time_limit);
    for (;;) {
        if (has_ended(process))
            return OUTCOME_ENDED;
        if (progress && progress->step && !progress->step(progress->context, 0, 0))
            return OUTCOME_STOPPED;
        struct span left = mono_since(deadline, env_now(process->env));
        if (left.us <= 0)
            return OUTCOME_OVERDUE;
        wait_for_process(process, left);
    }
}

/* Kills the rest of the group and reaps the command. False if the command does not end. */
static bool end_group(struct process *process, siginfo_t *ret_end)
{
    struct mono_time begun = env_now(process->env);
    kill(-process->pid, SIGKILL);
    while (!has_ended(process)) {
        if (mono_since(env_now(process->env), begun).us > GIVE_UP.us)
            return false;
        wait_for_process(process, SPAN_MS(PAUSE_MS));
    }
    *ret_end = (siginfo_t){ .si_pid = 0 };
    if (waitid(P_PID, (id_t)process->pid, ret_end, WEXITED | WNOHANG) != 0)
        ret_end->si_pid = 0;
    /* From here on only signal 0 is sent: the id of an empty group may be reused. */
    while (kill(-process->pid, 0) == 0 &&
           mono_since(env_now(process->env), begun).us < GROUP_ENDS.us)
        env_sleep(process->env, SPAN_MS(1));
    read_errors(process);
    return true;
}

/* ---- The outcome --------------------------------------------------------------------- */

/* The last bytes of its stderr, on one line and without control characters, which could affect a
 * terminal. */
static struct view clean_tail(const struct process *process, char text[TAIL_BYTES])
{
    struct view rest = { process->tail, process->tail_size };
    size_t size = 0;
    while (rest.size > 0) {
        size_t bytes = utf8_size(rest);
        unsigned char c = (unsigned char)rest.data[0];
        bool is_control = c < ' ' || c == 0x7f ||
                          (bytes == 2 && c == 0xc2 && (unsigned char)rest.data[1] < 0xa0);
        bool is_gap = is_control || c == ' ';
        if (bytes == 0) {
            text[size++] = '?';
        } else if (!is_gap) {
            memcpy(text + size, rest.data, bytes);
            size += bytes;
        } else if (size > 0 && text[size - 1] != ' ') {
            text[size++] = ' ';
        }
        rest = view_from(rest, bytes > 0 ? bytes : 1);
    }
    if (size > 0 && text[size - 1] == ' ')
        size--;
    return (struct view){ text, size };
}

static void append_stderr(const struct process *process, struct hf_error *error)
{
    char text[TAIL_BYTES];
    struct view words = clean_tail(process, text);
    if (!error || words.size == 0)
        return;
    bool is_cut = words.size > TAIL_SHOWN;
    if (is_cut)
        words = view_from(words, words.size - TAIL_SHOWN);
    while (is_cut && words.size > 0 && ((unsigned char)words.data[0] & 0xc0) == 0x80)
        words = view_from(words, 1);
    error_set(error, error->status, "%s: %s%.*s", error->why, is_cut ? "..." : "",
              VIEW_ARGS(words));
}

/* Reports why the command could not be started: the machine may have been out of resources, or the
 * command cannot be run here at all. */
static enum hf_status not_started(const struct process *process, int reason,
                                  struct hf_error *error)
{
    char text[96] = "";
    bool is_passing = reason == ENOMEM || reason == EAGAIN || reason == ETXTBSY ||
                      reason == EIO || reason == ENFILE;
    return error_set(error, is_passing ? HF_UNAVAILABLE : HF_INVALID, "cannot start '%.*s': %s",
                     NAME_SHOWN, process->name, strerror_r(reason, text, sizeof text));
}

static enum hf_status check_exit_status(const struct process *process, const siginfo_t *end,
                                        struct hf_error *error)
{
    if (end->si_pid == 0)
        return error_set(error, HF_UNAVAILABLE,
                         "the exit status of '%.*s' is unknown: SIGCHLD is ignored, or other "
                         "code waited for it",
                         NAME_SHOWN, process->name);
    if (end->si_code == CLD_EXITED && end->si_status == 0)
        return HF_OK;
    if (end->si_code == CLD_EXITED)
        error_set(error, HF_UNAVAILABLE, "'%.*s' failed with exit status %d", NAME_SHOWN,
                  process->name, end->si_status);
    else
        error_set(error, HF_UNAVAILABLE, "'%.*s' was killed by signal %d (%s)", NAME_SHOWN,
                  process->name, end->si_status,
                  sigdescr_np(end->si_status) ? sigdescr_np(end->si_status) : "unknown");
    append_stderr(process, error);
    return HF_UNAVAILABLE;
}

static enum hf_status check_outcome(const struct process *process, enum outcome outcome,
                                    const siginfo_t *end, struct span time_limit,
                                    bool *ret_ended, struct hf_error *error)
{
    char limit[SPAN_TEXT_MAX];
    int reason;
    switch (outcome) {
    case OUTCOME_STOPPED:
        return error_set(error, HF_CANCELLED, "stopped while '%.*s' was running", NAME_SHOWN,
                         process->name);
    case OUTCOME_OVERDUE:
        *ret_ended = true;
        error_set(error, HF_TIMEOUT, "'%.*s' did not finish within %s and was killed",
                  NAME_SHOWN, process->name, span_text(time_limit, limit));
        append_stderr(process, error);
        return HF_TIMEOUT;
    case OUTCOME_ENDED: break;
    }
    if (read(process->failure, &reason, sizeof reason) == sizeof reason)
        return not_started(process, reason, error);
    *ret_ended = end->si_pid != 0;
    return check_exit_status(process, end, error);
}

/* ---- Start and end ------------------------------------------------------------------- */

static void close_all(const struct plan *plan, const struct process *process)
{
    const int files[] = { plan->nothing, plan->errors,    plan->failure,
                          process->life, process->errors, process->failure };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] >= 0)
            close(files[i]);
}

/* If one of our standard files is closed, one of these descriptors may have its number. It would be
 * lost when the standard files of the child are set up, so it is moved. */
static bool move_up(int *fd)
{
    if (*fd > STDERR_FILENO)
        return true;
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0)
        return false;
    close(*fd);
    *fd = moved;
    return true;
}

/* Only our own end of stderr is non-blocking, because programs expect their end to block. */
static bool open_files(struct plan *plan, struct process *process)
{
    int ends[2];
    plan->nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (plan->nothing < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    process->errors = ends[0];
    plan->errors = ends[1];
    if (fcntl(process->errors, F_SETFL, O_NONBLOCK) != 0 ||
        pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    process->failure = ends[0];
    plan->failure = ends[1];
    return move_up(&plan->nothing) && move_up(&plan->errors) && move_up(&plan->failure);
}

/* Both the parent and the child create the group, so it exists whichever of them runs first. */
static enum hf_status start_process(struct plan *plan, struct process *process,
                                    struct hf_error *error)
{
    process->pid = fork();
    if (process->pid == 0)
        exec_command(plan);
    if (process->pid < 0)
        return error_set(error, HF_UNAVAILABLE, "the system cannot create another process");
    setpgid(process->pid, process->pid);
    process->life = pidfd_open(process->pid, 0);
    close(plan->errors);
    close(plan->failure);
    plan->errors = plan->failure = -1;
    return HF_OK;
}

static enum hf_status check_spans(const struct merge_command *command, struct hf_error *error)
{
    if (command->time_limit.us <= 0 || command->time_limit.us > MOMENT_FAR)
        return error_set(error, HF_INVALID,
                         "the time limit of a command must be greater than zero");
    if (command->cpu_limit.us < 0 || command->cpu_limit.us > MOMENT_FAR)
        return error_set(error, HF_INVALID, "the CPU time limit must not be negative");
    return HF_OK;
}

enum hf_status command_run(struct env *env, char **words, const struct merge_command *command,
                           const struct merge_progress *progress, bool *ret_ended,
                           struct hf_error *error)
{
    struct plan plan = {
        .words = words, .parent = getpid(), .nothing = -1, .errors = -1, .failure = -1
    };
    struct process process = { .env = env,
                               .name = command->name ? command->name : words[0],
                               .life = -1,
                               .errors = -1,
                               .failure = -1 };
    enum hf_status status = check_spans(command, error);
    *ret_ended = false;
    if (status == HF_OK)
        status = find_executable(&plan, error);
    if (status != HF_OK)
        return status;
    sigemptyset(&plan.no_signals);
    plan_limits(&plan, command);
    plan_environment(&plan, command);
    if (!open_files(&plan, &process)) {
        char text[96] = "";
        status = error_set(error, HF_UNAVAILABLE, "cannot open the pipes of a command: %s",
                           strerror_r(errno, text, sizeof text));
    }
    if (status == HF_OK)
        status = start_process(&plan, &process, error);
    if (status == HF_OK) {
        siginfo_t end;
        enum outcome outcome = watch_process(&process, command->time_limit, progress);
        if (end_group(&process, &end))
            status =
                check_outcome(&process, outcome, &end, command->time_limit, ret_ended, error);
        else
            status = error_set(error, HF_UNAVAILABLE,
                               "'%.*s' was killed, but does not end (process %ld)", NAME_SHOWN,
                               process.name, (long)process.pid);
    }
    close_all(&plan, &process);
    return status;
}
