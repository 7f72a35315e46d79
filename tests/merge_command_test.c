/* SPDX-License-Identifier: Apache-2.0 */
/* merge_command_test.c: commands as mergers: how a command line is split into words, and real
 * processes that succeed, fail, end too late or never end.
 *
 * A named pipe in the test's directory shows whether a process is alive: every watched process
 * opens it for writing. When the reader sees the end of file, all of them are dead. */
#include "alloc.h"
#include "base/utf8.h"
#include "env/env.h"
#include "merge/command.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A test that waits longer than this for something has failed. */
#define PATIENCE_MS 20000

/* ---- Words --------------------------------------------------------------------------- */

static bool ended; /* of the last command, which few tests ask about */

static const char *const two_inputs[] = { "in/a b", "-c" };

static enum hf_status words_of(const char *line, struct arena *arena, char ***ret_words,
                               struct hf_error *error)
{
    return command_words(view_of(line), &(struct merge_paths){ two_inputs, 2, "out put" },
                         arena, ret_words, error);
}

/* `wanted`: the words, each followed by a bar. */
static void expect_words(const char *line, const char *wanted)
{
    struct arena arena = ARENA_INIT;
    struct hf_error error;
    char **words, text[512] = "";
    assert_status(HF_OK, words_of(line, &arena, &words, &error), &error);
    size_t used = 0;
    for (; *words; words++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s|", *words);
    assert_string_equal(text, wanted);
    arena_release(&arena);
}

static void expect_nonsense(const char *line, const char *part_of_reason)
{
    struct arena arena = ARENA_INIT;
    struct hf_error error;
    char **words = NULL;
    assert_status(HF_INVALID, words_of(line, &arena, &words, &error), &error);
    if (!strstr(error.why, part_of_reason))
        fail_msg("'%s': %s", line, error.why);
    assert_null(words);
    arena_release(&arena);
}

static void words_are_told_apart_as_in_a_shell(void **state)
{
    (void)state;
    expect_words("p {output}", "p|out put|");
    expect_words("  p\t -x \n {output}  ", "p|-x|out put|");
    expect_words("p 'a  b' \"c  d\" e\\ f {output}", "p|a  b|c  d|e f|out put|");
    expect_words("p a'b'\"c\"d '' \"\" {output}", "p|abcd|||out put|");
    expect_words("p 'a\\b\"' \"c\\\"d\\\\e\\$f\\`g\\h'\" \\' {output}",
                 "p|a\\b\"|c\"d\\e$f`g\\h'|'|out put|");
    expect_words("p a\\\nb \\\n {output}", "p|ab||out put|");
    expect_words("p $HOME * ~ `x` ; # {output}", "p|$HOME|*|~|`x`|;|#|out put|");
}

static void inputs_and_output_are_put_in(void **state)
{
    (void)state;
    expect_words("p {inputs} {output}", "p|in/a b|./-c|out put|");
    expect_words("p -o{output} '{inputs}' x", "p|-oout put|in/a b|./-c|x|");
    expect_words("p \"{output}.a {output}\" { } {input}", "p|out put.a out put|{|}|{input}|");
    struct arena arena = ARENA_INIT;
    struct hf_error error;
    char **words;
    assert_status(HF_OK,
                  command_words(VIEW("p {inputs} {output} x{output}"),
                                &(struct merge_paths){ NULL, 0, "-out" }, &arena, &words,
                                &error),
                  &error);
    assert_string_equal(words[1], "./-out");
    assert_string_equal(words[2], "x-out");
    assert_null(words[3]);
    arena_release(&arena);
}

static void lines_without_sense_are_invalid(void **state)
{
    (void)state;
    expect_nonsense("", "no words");
    expect_nonsense(" \t\n", "no words");
    expect_nonsense("p 'a {output}", "an unclosed '");
    expect_nonsense("p \"a {output}", "an unclosed \"");
    expect_nonsense("p {output} \\", "backslash");
    expect_nonsense("p {inputs}", "{output}");
    expect_nonsense("p x{inputs} {output}", "a word of its own");
    expect_nonsense("{output} {inputs}", "name of a program");
    expect_nonsense("{inputs} {output}", "name of a program");
    expect_nonsense("'' {output}", "name of a program");
    struct arena arena = ARENA_INIT;
    struct hf_error error;
    char **words, *long_line = calloc(1, 64 * KIB + 2);
    assert_non_null(long_line);
    memset(long_line, 'x', 64 * KIB + 1);
    assert_int_equal(words_of(long_line, &arena, &words, &error), HF_INVALID);
    free(long_line);
    assert_int_equal(command_words(VIEW("p\0 {output}"),
                                   &(struct merge_paths){ two_inputs, 2, "o" }, &arena, &words,
                                   &error),
                     HF_INVALID);
    arena_release(&arena);
}

static void too_many_words_are_invalid(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct hf_error error;
    const char **inputs = calloc(MERGE_INPUTS_MAX, sizeof *inputs);
    char **words;
    assert_non_null(inputs);
    for (size_t i = 0; i < MERGE_INPUTS_MAX; i++)
        inputs[i] = "i";
    struct view eleven =
        VIEW("p {inputs} {inputs} {inputs} {inputs} {inputs} {inputs} {inputs} "
             "{inputs} {inputs} {inputs} {inputs} {output}");
    assert_int_equal(command_words(eleven,
                                   &(struct merge_paths){ inputs, MERGE_INPUTS_MAX, "o" },
                                   &arena, &words, &error),
                     HF_INVALID);
    assert_status(HF_OK,
                  command_words(VIEW("p {inputs} {output}"),
                                &(struct merge_paths){ inputs, MERGE_INPUTS_MAX, "o" }, &arena,
                                &words, &error),
                  &error);
    assert_string_equal(words[MERGE_INPUTS_MAX + 1], "o");
    arena_release(&arena);
    free(inputs);
}

static void words_without_memory_are_unavailable(void **state)
{
    (void)state;
    char line[10000];
    memset(line, 'x', sizeof line);
    memcpy(line + sizeof line - 10, " {output}", 10);
    long failures = 0;
    for (long n = 0;; n++) {
        struct arena arena = ARENA_INIT;
        struct hf_error error;
        char **words;
        alloc_fail_after(n);
        enum hf_status status = words_of(line, &arena, &words, &error);
        bool failed = alloc_stop();
        arena_release(&arena);
        assert_int_equal(status, failed ? HF_UNAVAILABLE : HF_OK);
        if (!failed)
            break;
        failures++;
    }
    assert_true(failures >= 3);
}

/* ---- Runs ---------------------------------------------------------------------------- */

static const struct merge_command patient = { .time_limit = { INT64_C(60) * 1000000 } };

static enum hf_status run(const char *script, struct merge_command command,
                          struct hf_error *error)
{
    char sh[] = "sh", c[] = "-c", *text = strdup(script);
    assert_non_null(text);
    char *words[] = { sh, c, text, NULL };
    enum hf_status status =
        command_run(env_real(), words, &command, /* progress */ NULL, &ended, error);
    free(text);
    return status;
}

static void expect_end(const char *script, struct merge_command command, enum hf_status wanted,
                       const char *why)
{
    struct hf_error error = { .why = "" };
    assert_status(wanted, run(script, command, &error), &error);
    if (!strstr(error.why, why))
        fail_msg("%s: %s", script, error.why);
}

static void exit_status_0_is_ok_and_others_are_told(void **state)
{
    (void)state;
    struct hf_error error;
    assert_status(HF_OK, run("echo trouble >&2; exit 0", patient, &error), &error);
    expect_end("exit 3", patient, HF_UNAVAILABLE, "'sh' failed with exit status 3");
    expect_end("echo no such thing >&2; exit 3", patient, HF_UNAVAILABLE,
               "'sh' failed with exit status 3: no such thing");
}

static void a_signal_is_told_by_number_and_name(void **state)
{
    (void)state;
    expect_end("kill -9 $$", patient, HF_UNAVAILABLE, "'sh' was killed by signal 9 (Killed)");
    expect_end("echo ouch >&2; kill -15 $$", patient, HF_UNAVAILABLE,
               "'sh' was killed by signal 15 (Terminated): ouch");
}

static void what_is_not_a_program_is_invalid(void **state)
{
    (void)state;
    char *folder = test_dir_make();
    char missing[] = "no-such-program-anywhere", path[] = "/no/such/program", home[] = "/",
         script[512];
    struct hf_error error;
    char *words[] = { missing, NULL };
    assert_int_equal(command_run(env_real(), words, &patient, NULL, &ended, &error),
                     HF_INVALID);
    assert_non_null(strstr(error.why, "there is no program 'no-such-program-anywhere'"));
    words[0] = path;
    assert_int_equal(command_run(env_real(), words, &patient, NULL, &ended, &error),
                     HF_INVALID);
    assert_string_equal(error.why, "there is no program '/no/such/program'");
    words[0] = home;
    assert_int_equal(command_run(env_real(), words, &patient, NULL, &ended, &error),
                     HF_INVALID);
    assert_string_equal(error.why, "cannot run '/': Permission denied");
    /* It may be run, but exec finds that it is nothing to run. */
    snprintf(script, sizeof script, "%s/x", folder);
    int fd = open(script, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
    assert_true(fd >= 0 && write(fd, "true\n", 5) == 5 && close(fd) == 0);
    words[0] = script;
    assert_int_equal(command_run(env_real(), words, &patient, NULL, &ended, &error),
                     HF_INVALID);
    assert_non_null(strstr(error.why, "': Exec format error"));
    test_dir_remove(folder);
}

static void more_words_than_the_kernel_takes_are_invalid(void **state)
{
    (void)state;
    char program[] = "true", *word = malloc(256 * KIB);
    struct hf_error error;
    assert_non_null(word);
    memset(word, 'x', 256 * KIB - 1);
    word[256 * KIB - 1] = '\0';
    char *words[] = { program, word, NULL };
    assert_int_equal(command_run(env_real(), words, &patient, NULL, &ended, &error),
                     HF_INVALID);
    assert_non_null(strstr(error.why, "Argument list too long"));
    free(word);
}

static void limits_of_time_must_make_sense(void **state)
{
    (void)state;
    struct merge_command never = patient, negative = patient;
    never.time_limit = SPAN_S(0);
    negative.cpu_limit = SPAN_S(-1);
    expect_end("exit 0", never, HF_INVALID, "time limit");
    expect_end("exit 0", negative, HF_INVALID, "CPU time");
}

/* ---- What it writes ------------------------------------------------------------------ */

static void of_ten_megabytes_on_stderr_the_last_words_are_told(void **state)
{
    (void)state;
    struct hf_error error;
    run("head -c 10000000 /dev/zero | tr '\\0' 'x' >&2; echo ' and then it broke' >&2; exit 1",
        patient, &error);
    assert_int_equal(error.status, HF_UNAVAILABLE);
    assert_non_null(strstr(error.why, "'sh' failed with exit status 1: ...xxx"));
    assert_non_null(strstr(error.why, "xxx and then it broke"));
    assert_true(strlen(error.why) < HF_WHY_MAX - 1);
}

static void last_words_are_printable_and_on_one_line(void **state)
{
    (void)state;
    expect_end(
        "printf '\\n\\033[31mred\\t\\r\\n  two\\377 \\303\\274\\302\\233.\\n\\n' >&2; exit 1",
        patient, HF_UNAVAILABLE, "exit status 1: [31mred two? \xc3\xbc .");
    struct hf_error error;
    run("for i in 1 2 3 4 5 6 7 8 9; do printf "
        "'\\303\\274\\303\\274\\303\\274\\303\\274\\303\\274\\303\\274\\303\\274\\303\\274"
        "\\303\\274\\303\\274\\303\\274\\303\\274\\303\\274\\303\\274\\303\\274x' >&2; done; "
        "exit 1",
        patient, &error);
    assert_true(utf8_is_text(view_of(error.why)));
    assert_non_null(strstr(error.why, "\xc3\xbcx"));
}

/* Nothing comes from stdin, and stdout may be written to for ever. */
static void its_stdin_is_empty_and_its_stdout_goes_nowhere(void **state)
{
    (void)state;
    struct hf_error error;
    assert_status(HF_OK, run("cat && head -c 1000000 /dev/zero", patient, &error), &error);
}

static void it_gets_no_file_of_ours(void **state)
{
    (void)state;
    struct hf_error error;
    int ours = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, as a careless program would */
    assert_true(ours >= 0);
    assert_status(HF_OK,
                  run("for fd in /proc/$$/fd/*; do n=${fd##*/}; "
                      "if [ $n -gt 2 ] && [ \"$(readlink $fd)\" = /dev/null ]; then "
                      "echo \"$n is open\" >&2; exit 1; fi; done",
                      patient, &error),
                  &error);
    close(ours);
}

static int count_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void it_leaves_no_file_and_no_child_with_us(void **state)
{
    (void)state;
    struct hf_error error;
    int before = count_files();
    run("exit 0", patient, &error);
    run("exit 1", patient, &error);
    char missing[] = "no-such-program-anywhere", *words[] = { missing, NULL };
    command_run(env_real(), words, &patient, NULL, &ended, &error);
    assert_int_equal(count_files(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* It must be started with the standard files in their places even when ours are closed. */
static void it_runs_where_our_own_standard_files_are_closed(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct hf_error error;
        char sh[] = "sh", c[] = "-c", text[] = "cat; echo x; echo heard >&2; exit 4";
        char *words[] = { sh, c, text, NULL };
        for (int fd = 0; fd <= 2; fd++)
            close(fd);
        enum hf_status status = command_run(env_real(), words, &patient, NULL, &ended, &error);
        _exit(status == HF_UNAVAILABLE && strstr(error.why, "exit status 4: heard") ? 0 : 1);
    }
    int end = -1;
    assert_true(pid > 0 && waitpid(pid, &end, 0) == pid);
    assert_int_equal(end, 0);
}

static void a_pipe_that_closes_ends_its_programs_as_ever(void **state)
{
    (void)state;
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    expect_end("kill -13 $$", patient, HF_UNAVAILABLE, "signal 13");
    signal(SIGPIPE, before);
}

/* ---- Ends that are made -------------------------------------------------------------- */

struct life {
    char *folder;
    char path[512];
    int fd;
};

static struct life life_watch(void)
{
    struct life life = { .folder = test_dir_make() };
    snprintf(life.path, sizeof life.path, "%s/life", life.folder);
    assert_int_equal(mkfifo(life.path, 0600), 0);
    life.fd = open(life.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(life.fd >= 0);
    return life;
}

/* Everybody who wrote `words` into the pipe is dead. */
static void expect_dead(struct life *life, const char *words)
{
    char said[64] = "";
    struct pollfd ready = { .fd = life->fd, .events = POLLIN };
    ssize_t size = read(life->fd, said, sizeof said - 1);
    assert_true(size >= 0);
    assert_string_equal(said, words);
    if (poll(&ready, 1, PATIENCE_MS) != 1 || read(life->fd, said, sizeof said) != 0)
        fail_msg("somebody still lives");
    close(life->fd);
    test_dir_remove(life->folder);
}

/* Runs the script with the pipe as file 3 of all its processes. */
static enum hf_status run_alive(const struct life *life, const char *script,
                                struct merge_command command, struct hf_error *error)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "life='%s'; exec 3>$life; %s", life->path, script);
    return run(whole, command, error);
}

static void a_command_that_hangs_is_killed_at_its_time_limit(void **state)
{
    (void)state;
    struct life life = life_watch();
    struct merge_command hasty = { .time_limit = SPAN_MS(300) };
    struct hf_error error;
    struct mono_time begun = env_now(env_real());
    enum hf_status status =
        run_alive(&life, "trap '' TERM INT; echo on my way >&2; printf x >&3; sleep 1000",
                  hasty, &error);
    struct span took = mono_since(env_now(env_real()), begun);
    assert_int_equal(status, HF_TIMEOUT);
    assert_string_equal(error.why,
                        "'sh' did not finish within 300ms and was killed: on my way");
    assert_true(took.us >= 300000 && took.us < PATIENCE_MS * 1000);
    expect_dead(&life, "x");
}

static void what_it_left_in_the_background_is_dead_afterwards(void **state)
{
    (void)state;
    struct life life = life_watch();
    struct hf_error error;
    /* The command ends only after the one in the background has spoken. */
    assert_status(
        HF_OK,
        run_alive(&life,
                  "mkfifo $life.go; "
                  "{ trap '' HUP TERM; printf x >&3; echo > $life.go; sleep 1000; } & "
                  "read line < $life.go; exit 0",
                  patient, &error),
        &error);
    expect_dead(&life, "x");
}

struct stop_when {
    const struct life *life;
    int steps;
};

static bool until_it_lives(void *context, uint64_t done, uint64_t total)
{
    struct stop_when *when = context;
    struct pollfd ready = { .fd = when->life->fd, .events = POLLIN };
    assert_true(done == 0 && total == 0);
    when->steps++;
    return poll(&ready, 1, 0) != 1 || !(ready.revents & POLLIN);
}

static void progress_can_stop_it(void **state)
{
    (void)state;
    struct life life = life_watch();
    struct stop_when when = { .life = &life };
    struct merge_progress progress = { .step = until_it_lives, .context = &when };
    char sh[] = "sh", c[] = "-c", script[1024];
    snprintf(script, sizeof script, "exec 3>'%s'; sleep 1000 & printf x >&3; wait", life.path);
    char *words[] = { sh, c, script, NULL };
    struct hf_error error;
    assert_int_equal(command_run(env_real(), words, &patient, &progress, &ended, &error),
                     HF_CANCELLED);
    assert_string_equal(error.why, "stopped while 'sh' was running");
    assert_true(when.steps >= 1);
    expect_dead(&life, "x");
}

/* ---- Limits -------------------------------------------------------------------------- */

static void the_limit_of_file_size_bites(void **state)
{
    (void)state;
    char *folder = test_dir_make(), script[1024];
    struct merge_command command = patient;
    command.file_bytes_max = 4096;
    snprintf(script, sizeof script, "exec head -c 4096 /dev/zero > '%s/f'", folder);
    expect_end(script, command, HF_OK, "");
    snprintf(script, sizeof script, "exec head -c 4097 /dev/zero > '%s/f'", folder);
    expect_end(script, command, HF_UNAVAILABLE, "File size limit exceeded");
    test_dir_remove(folder);
}

static void the_limit_of_memory_bites(void **state)
{
    (void)state;
    const char *script = "exec dd if=/dev/zero of=/dev/null bs=100000000 count=1 2>&1";
    struct merge_command command = patient;
    expect_end(script, command, HF_OK, "");
    command.memory_bytes_max = 50 * MIB;
    expect_end(script, command, HF_UNAVAILABLE, "exit status 1");
}

static void the_limit_of_processor_time_bites(void **state)
{
    (void)state;
    struct merge_command command = patient;
    command.cpu_limit = SPAN_MS(1); /* rounded up to a second */
    expect_end("while :; do :; done", command, HF_UNAVAILABLE, "CPU time limit exceeded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("words are told apart as in a shell", words_are_told_apart_as_in_a_shell),
        IT("inputs and output are put in", inputs_and_output_are_put_in),
        IT("lines without sense are INVALID", lines_without_sense_are_invalid),
        IT("too many words are INVALID", too_many_words_are_invalid),
        IT("words without memory are UNAVAILABLE", words_without_memory_are_unavailable),
        IT("exit status 0 is OK, and others are told", exit_status_0_is_ok_and_others_are_told),
        IT("a signal is told by number and name", a_signal_is_told_by_number_and_name),
        IT("what is not a program is INVALID", what_is_not_a_program_is_invalid),
        IT("more words than the kernel takes are INVALID",
           more_words_than_the_kernel_takes_are_invalid),
        IT("limits of time must make sense", limits_of_time_must_make_sense),
        IT("of ten megabytes on stderr the last words are told",
           of_ten_megabytes_on_stderr_the_last_words_are_told),
        IT("last words are printable and on one line",
           last_words_are_printable_and_on_one_line),
        IT("its stdin is empty and its stdout goes nowhere",
           its_stdin_is_empty_and_its_stdout_goes_nowhere),
        IT("it gets no file of ours", it_gets_no_file_of_ours),
        IT("it leaves no file and no child with us", it_leaves_no_file_and_no_child_with_us),
        IT("it runs where our own standard files are closed",
           it_runs_where_our_own_standard_files_are_closed),
        IT("a pipe that closes ends its programs as ever",
           a_pipe_that_closes_ends_its_programs_as_ever),
        IT("a command that hangs is killed at its time limit",
           a_command_that_hangs_is_killed_at_its_time_limit),
        IT("what it left in the background is dead afterwards",
           what_it_left_in_the_background_is_dead_afterwards),
        IT("progress can stop it, with all that it started", progress_can_stop_it),
        IT("the limit of file size bites", the_limit_of_file_size_bites),
        IT("the limit of memory bites", the_limit_of_memory_bites),
        IT("the limit of processor time bites", the_limit_of_processor_time_bites),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
