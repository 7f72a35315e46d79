/* SPDX-License-Identifier: Apache-2.0 */
/* s3_profile_test.c: the ways in which a profile gets its keys: from a command, by assuming a role,
 * and by a login with IAM Identity Center. The fake server acts as STS and as IAM Identity
 * Center, with the reply forms of their references; they were never tested on AWS. */
#include "base/parse.h"
#include "credential_kit.h"
#include "s3_fake.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SECRET "secret-of-printed"
#define PRINT                                                                              \
    "echo '{\"Version\":1,\"AccessKeyId\":\"printed\",\"SecretAccessKey\":\"" SECRET "\"," \
    "\"SessionToken\":\"token-of-printed\",\"Expiration\":\"2038-01-01T00:00:00Z\"}'"

static const char config[] =
    "[profile command]\ncredential_process = " PRINT "\n"
    "[profile plain-command]\n"
    "credential_process = echo '{\"Version\":1,\"AccessKeyId\":\"plain\","
    "\"SecretAccessKey\":\"secret-of-plain\"}'\n"
    "[profile daemon]\ncredential_process = sleep 600 & " PRINT "\n"
    "[profile fails]\ncredential_process = echo " SECRET "; echo " SECRET " >&2; exit 3\n"
    "[profile garbled]\ncredential_process = echo " SECRET "\n"
    "[profile old]\ncredential_process = " PRINT " | sed s/:1,/:2,/\n"
    "[profile long]\ncredential_process = yes " SECRET "\n"
    "[profile missing-command]\ncredential_process = /nowhere/at-all\n"
    "[profile static]\naws_access_key_id = static\naws_secret_access_key = secret-of-static\n"
    "[profile role]\nrole_arn = arn:aws:iam::1:role/one\nsource_profile = static\n"
    "[profile role-of-command]\nrole_arn = arn:aws:iam::1:role/two\nsource_profile = command\n"
    "[profile chain]\nrole_arn = arn:aws:iam::1:role/strict\nsource_profile = role\n"
    "external_id = from-outside\nrole_session_name = me\nduration_seconds = 900\n"
    "[profile refused]\nrole_arn = arn:aws:iam::1:role/strict\nsource_profile = static\n"
    "[profile own-keys]\nrole_arn = arn:aws:iam::1:role/own\nsource_profile = own-keys\n"
    "aws_access_key_id = static\naws_secret_access_key = secret-of-static\n"
    "[profile environment]\nrole_arn = arn:aws:iam::1:role/env\n"
    "credential_source = Environment\n"
    "[profile container]\nrole_arn = arn:aws:iam::1:role/box\n"
    "credential_source = EcsContainer\n"
    "[profile nowhere]\nrole_arn = arn:aws:iam::1:role/x\n"
    "[profile circle]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = circle-2\n"
    "[profile circle-2]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = circle\n"
    "[profile code]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = static\n"
    "mfa_serial = arn:aws:iam::1:mfa/me\n"
    "[profile wrong]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = wrong-keys\n"
    "[profile wrong-keys]\naws_access_key_id = static\naws_secret_access_key = other\n"
    "[sso-session corp]\nsso_start_url = https://corp.example/start\nsso_region = eu-west-1\n"
    "[profile sso]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Reader\n"
    "[profile sso-old]\nsso_start_url = https://old.example/start\nsso_region = eu-west-1\n"
    "sso_account_id = 123456789012\nsso_role_name = Reader\n"
    "[profile sso-other]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = Reader\n"
    "[profile sso-expired]\nsso_session = expired\nsso_account_id = 1\nsso_role_name = R\n"
    "[sso-session expired]\nsso_start_url = https://x\nsso_region = eu-west-1\n"
    "[profile sso-none]\nsso_session = nobody\nsso_account_id = 1\nsso_role_name = R\n"
    "[sso-session nobody]\nsso_start_url = https://x\nsso_region = eu-west-1\n"
    "[profile sso-due]\nsso_session = due\nsso_account_id = 123456789012\nsso_role_name = "
    "Reader\n"
    "[sso-session due]\nsso_start_url = https://x\nsso_region = eu-west-1\n"
    "[profile sso-half]\nsso_session = corp\nsso_account_id = 123456789012\n";

#define TOKEN                                                             \
    "{\"accessToken\": \"sso-token\", \"region\": \"x\", \"expiresAt\": " \
    "\"2038-01-01T00:00:00Z\"}"

static void make_folder(const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", credential_home, name);
    mkdir(path, 0700);
}

static void fill_world(void **state)
{
    clean_world(state);
    write_profile_file("config", config);
    name_file("AWS_CONFIG_FILE", "config");
    name_endpoint("AWS_ENDPOINT_URL_STS", "/sts");
    name_endpoint("AWS_ENDPOINT_URL_SSO", "");
    name_endpoint("AWS_ENDPOINT_URL_SSO_OIDC", "");
    make_folder(".aws");
    make_folder(".aws/sso");
    make_folder(".aws/sso/cache");
    /* SHA-1 of "corp", of "https://old.example/start" and of "expired" */
    write_profile_file(".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json", TOKEN);
    write_profile_file(".aws/sso/cache/103c764598c7bfb84492cce4b625216b27775ddd.json", TOKEN);
    write_profile_file(
        ".aws/sso/cache/45a6f9adb1df3a78aafc71391c7d3bfa7680229b.json",
        "{\"accessToken\": \"sso-token\", \"expiresAt\": \"2026-01-01T00:00:00Z\"}");
}

static void every_way_gives_keys(void **state)
{
    static const struct {
        const char *profile, *name;
        bool ends;
    } rows[] = {
        { "command", "printed", true },     { "plain-command", "plain", false },
        { "daemon", "printed", true },      { "role", "one", true },
        { "role-of-command", "two", true }, { "chain", "strict", true },
        { "own-keys", "own", true },        { "environment", "env", true },
        { "container", "box", true },       { "sso", "login", true },
        { "sso-old", "login", true },
    };
    struct s3_credentials found;
    struct hf_error error;
    char secret[64];
    fill_world(state);
    setenv("AWS_ACCESS_KEY_ID", "environment", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret-of-environment", 1);
    name_endpoint("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/ecs/creds");
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer container", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_status(HF_OK, find_keys(rows[i].profile, &found, &error), &error);
        assert_string_equal(found.access_key, rows[i].name);
        snprintf(secret, sizeof secret, "secret-of-%s", rows[i].name);
        assert_string_equal(found.secret, secret);
        assert_int_equal(found.life.ends, rows[i].ends);
        assert_int_equal(found.token[0] != '\0', rows[i].ends);
    }
}

static void every_mistake_is_told(void **state)
{
    static const struct {
        const char *profile;
        enum hf_status status;
        const char *says;
    } rows[] = {
        { "fails", HF_DENIED, "the command failed (exit status 3): run it by itself" },
        { "garbled", HF_INVALID, "the answer of the command is not a JSON object" },
        { "old", HF_INVALID, "has no \"Version\": 1" },
        { "long", HF_INVALID, "credential_process: the command prints too much" },
        { "missing-command", HF_DENIED, "exit status 127" },
        { "refused", HF_DENIED, "cannot assume the role 'arn:aws:iam::1:role/strict'" },
        { "environment", HF_INVALID, "credential_source 'Environment' has no keys" },
        { "nowhere", HF_INVALID, "neither source_profile nor credential_source" },
        { "circle", HF_INVALID, "refer to each other in a circle" },
        { "code", HF_UNSUPPORTED, "mfa_serial" },
        { "wrong", HF_DENIED, "SignatureDoesNotMatch" },
        { "sso-other", HF_DENIED, "does not include the role" },
        { "sso-expired", HF_DENIED, "the login has expired: run 'aws sso login'" },
        { "sso-none", HF_DENIED, "there is no login: run 'aws sso login'" },
        { "sso-half", HF_INVALID, "sso_role_name is missing" },
        { "none", HF_INVALID, "there is no profile 'none'" },
    };
    struct s3_credentials found;
    struct hf_error error;
    fill_world(state);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum hf_status status = find_keys(rows[i].profile, &found, &error);
        if (status != rows[i].status || !strstr(error.why, rows[i].says))
            fail_msg("'%s': %s: %s", rows[i].profile, hf_status_name(status), error.why);
        assert_null(strstr(error.why, SECRET));
        assert_null(strstr(error.why, "sso-token"));
    }
}

/* SHA-1 of "due" */
#define DUE ".aws/sso/cache/30cdf73eff2a596aff88c475560de83dbaa7d346.json"

static void write_due_login(const char *expires, const char *refresh, const char *secret)
{
    char text[512];
    snprintf(
        text, sizeof text,
        "{\"startUrl\": \"https://x\", \"accessToken\": \"sso-token\", \"expiresAt\": \"%s\", "
        "\"clientId\": \"client\", \"clientSecret\": \"client \\\"%s\\\"\", "
        "\"registrationExpiresAt\": \"2038-01-01T00:00:00Z\", \"refreshToken\": \"%s\"}",
        expires, secret, refresh);
    write_profile_file(DUE, text);
}

static void read_due_login(char *text, size_t size)
{
    char path[4300];
    struct stat st;
    snprintf(path, sizeof path, "%s/" DUE, credential_home);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void an_sso_token_is_refreshed(void **state)
{
    struct s3_credentials found;
    struct hf_error error;
    char text[1024];
    fill_world(state);
    write_due_login("2026-01-01T00:00:00Z", "refresh-1", "secret");
    assert_status(HF_OK, find_keys("sso-due", &found, &error), &error);
    assert_string_equal(found.access_key, "login");
    read_due_login(text, sizeof text);
    assert_non_null(strstr(text, "\"accessToken\":\"fresh-token\""));
    assert_non_null(strstr(text, "\"refreshToken\":\"refresh-2\""));
    assert_non_null(strstr(text, "\"clientSecret\":\"client \\\"secret\\\"\""));
    assert_non_null(strstr(text, "\"registrationExpiresAt\":\"2038-01-01T00:00:00Z\""));
    assert_null(strstr(text, "sso-token"));
    /* It lasts now: the next search does not refresh it again. */
    assert_status(HF_OK, find_keys("sso-due", &found, &error), &error);
    assert_int_equal(fake_seen("POST", "token"), 1);
    /* A refresh that is refused, or fails, leaves the file as it is. */
    write_due_login("2026-01-01T00:00:00Z", "used", "secret");
    assert_int_equal(find_keys("sso-due", &found, &error), HF_DENIED);
    assert_non_null(strstr(error.why, "the login has expired: run 'aws sso login'"));
    write_due_login("2026-01-01T00:00:00Z", "slow", "secret");
    assert_int_equal(find_keys("sso-due", &found, &error), HF_UNAVAILABLE);
    assert_non_null(strstr(error.why, "cannot refresh the login"));
    write_due_login("2026-01-01T00:00:00Z", "refresh-2", "wrong");
    assert_int_equal(find_keys("sso-due", &found, &error), HF_DENIED);
    assert_null(strstr(error.why, "refresh-2"));
}

static void a_token_that_cannot_be_saved_is_not_refreshed(void **state)
{
    struct s3_credentials found;
    struct hf_error error;
    struct rlimit whole, none;
    char soon[TIME_TEXT_MAX];
    fill_world(state);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
    none = (struct rlimit){ .rlim_cur = 16, .rlim_max = whole.rlim_max };
    time_text(wall_add(env_wall(env_real()), SPAN_S(100)), soon);
    write_due_login(soon, "refresh-2", "secret");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0); /* as on a full disk */
    /* The cached token is used while it lasts. */
    enum hf_status status = find_keys("sso-due", &found, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
    assert_status(HF_OK, status, &error);
    assert_string_equal(found.access_key, "login");
    assert_int_equal(fake_seen("POST", "token"), 0);
    write_due_login("2026-01-01T00:00:00Z", "refresh-2", "secret");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    status = find_keys("sso-due", &found, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
    assert_int_equal(status, HF_UNAVAILABLE);
    assert_non_null(strstr(error.why, "its file in ~/.aws/sso/cache cannot be written"));
    assert_int_equal(fake_seen("POST", "token"), 0);
    /* So the refresh token is still good when there is room again. */
    assert_status(HF_OK, find_keys("sso-due", &found, &error), &error);
    assert_int_equal(fake_seen("POST", "token"), 1);
}

static void a_command_that_hangs_is_killed(void **state)
{
    struct s3_provider *provider = NULL;
    struct s3_credentials found;
    struct hf_error error;
    char line[4500];
    long child = 0;
    fill_world(state);
    snprintf(line, sizeof line,
             "[profile hangs]\ncredential_process = sleep 600 & echo $! >%s/pid; wait\n",
             credential_home);
    write_profile_file("config", line);
    assert_status(HF_OK,
                  s3_provider_open(env_real(), S3_SCHEME_AWS, VIEW("hangs"), VIEW("r"), NULL,
                                   &provider, &error),
                  &error);
    struct mono_time begun = env_now(env_real());
    struct mono_time deadline = mono_add(begun, SPAN_MS(700));
    assert_int_equal(s3_provider_get(provider, deadline, &found, &error), HF_UNAVAILABLE);
    assert_true(mono_since(env_now(env_real()), begun).us < SPAN_S(60).us);
    s3_provider_close(provider);
    snprintf(line, sizeof line, "%s/pid", credential_home);
    FILE *file = fopen(line, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &child), 1);
    fclose(file);
    /* Its processes are gone, or only wait for their parent to notice. */
    snprintf(line, sizeof line, "/proc/%ld/cmdline", child);
    for (int i = 0; i < 500; i++) {
        char byte;
        file = fopen(line, "r");
        bool gone = !file || fread(&byte, 1, 1, file) == 0;
        if (file)
            fclose(file);
        if (gone)
            return;
        env_sleep(env_real(), SPAN_MS(10));
    }
    fail_msg("the process %ld still runs", child);
}

/* A wall clock that is a day ahead; the rest of the world is real. */
static struct wall_time read_tomorrow(struct env *env)
{
    (void)env;
    return wall_add(env_wall(env_real()), SPAN_S(86400));
}

static void a_role_is_assumed_whatever_the_wall_clock_says(void **state)
{
    struct env_ops ops = *env_real()->ops;
    ops.wall = read_tomorrow;
    struct env env = { &ops };
    struct s3_provider *provider = NULL;
    struct s3_credentials found;
    struct hf_error error;
    fill_world(state);
    assert_status(HF_OK,
                  s3_provider_open(&env, S3_SCHEME_AWS, VIEW("role"), VIEW("us-east-1"), NULL,
                                   &provider, &error),
                  &error);
    struct mono_time deadline = mono_add(env_now(env_real()), SPAN_S(20));
    assert_status(HF_OK, s3_provider_get(provider, deadline, &found, &error), &error);
    assert_string_equal(found.access_key, "one");
    s3_provider_close(provider);
}

static int set_up(void **state)
{
    (void)state;
    credential_home = test_dir_make();
    fake_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_stop();
    test_dir_remove(credential_home);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a profile gets its keys from a command, a role, a chain of roles, or a login",
           every_way_gives_keys),
        IT("every mistake is told, and no secret", every_mistake_is_told),
        IT("the token of an SSO login is refreshed, and kept for others in a private file",
           an_sso_token_is_refreshed),
        IT("the token of an SSO login is not refreshed if the new one could not be saved",
           a_token_that_cannot_be_saved_is_not_refreshed),
        IT("a command that hangs is killed, with the processes that it has started",
           a_command_that_hangs_is_killed),
        IT("a role is assumed whatever the wall clock here says",
           a_role_is_assumed_whatever_the_wall_clock_says),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
