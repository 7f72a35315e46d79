/* SPDX-License-Identifier: Apache-2.0 */
/* s3_credentials_test.c: where credentials are found, in which order, and when they are fetched
 * again. The fake server acts as container endpoint, instance endpoint and STS. */
#include "credential_kit.h"
#include "s3_fake.h"
#include "store/s3/credentials.h"
#include "test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Texts --------------------------------------------------------------------------- */

static const char ini[] = "# keys\n"
                          "[default]\n"
                          "aws_access_key_id = first\n"
                          "aws_secret_access_key=secret-of-first\r\n"
                          "s3 =\n"
                          "  aws_access_key_id = nested\n"
                          "\n"
                          "[profile second]\n"
                          "region = eu-west-1\n"
                          "aws_access_key_id=second\n"
                          "aws_secret_access_key = a/b+c=\n"
                          "aws_session_token = token\n"
                          "[ half ]\n"
                          "aws_access_key_id = half\n"
                          "[bare]\n"
                          "region = x\n";

static void profiles_are_read(void **state)
{
    (void)state;
    struct s3_credentials found;
    struct hf_error error;
    char region[40];
    struct view text = view_of(ini);
    assert_status(HF_OK, s3_credentials_from_ini(text, VIEW("default"), &found, &error),
                  &error);
    assert_string_equal(found.access_key, "first");
    assert_string_equal(found.secret, "secret-of-first");
    assert_string_equal(found.token, "");
    assert_status(HF_OK, s3_credentials_from_ini(text, VIEW("second"), &found, &error), &error);
    assert_string_equal(found.access_key, "second");
    assert_string_equal(found.secret, "a/b+c=");
    assert_string_equal(found.token, "token");
    assert_int_equal(s3_credentials_from_ini(text, VIEW("half"), &found, &error), HF_INVALID);
    assert_int_equal(s3_credentials_from_ini(text, VIEW("bare"), &found, &error), HF_NOT_FOUND);
    assert_int_equal(s3_credentials_from_ini(text, VIEW("none"), &found, &error), HF_NOT_FOUND);
    assert_true(s3_ini_value(text, VIEW("second"), "region", region, sizeof region));
    assert_string_equal(region, "eu-west-1");
    assert_false(s3_ini_value(text, VIEW("default"), "region", region, sizeof region));
}

static void keys_with_blanks_are_refused(void **state)
{
    (void)state;
    struct s3_credentials found;
    struct hf_error error;
    assert_int_equal(s3_credentials_from_ini(
                         VIEW("[a]\naws_access_key_id = x y\naws_secret_access_key = z\n"),
                         VIEW("a"), &found, &error),
                     HF_INVALID);
    assert_null(strstr(error.why, "x y"));
}

static void json_is_read(void **state)
{
    (void)state;
    struct s3_credentials found;
    struct hf_error error;
    assert_status(HF_OK,
                  s3_credentials_from_json(
                      VIEW("{\"Code\":\"Success\",\"AccessKeyId\":\"a\",\"More\":[1,{}],"
                           "\"SecretAccessKey\":\"s\\/\",\"Token\":null,"
                           "\"Expiration\":\"2026-02-06T10:00:00Z\"}"),
                      &found, &error),
                  &error);
    assert_string_equal(found.access_key, "a");
    assert_string_equal(found.secret, "s/");
    assert_string_equal(found.token, "");
    assert_true(found.life.ends);
    assert_true(found.life.expires.us == INT64_C(1770372000) * 1000000);
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{\"AccessKeyId\":\"a\"}",
        "{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"s\",\"Expiration\":\"soon\"}",
        "{\"AccessKeyId\":\"a\\r\\nx\",\"SecretAccessKey\":\"s\"}"
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(s3_credentials_from_json(view_of(bad[i]), &found, &error), HF_INVALID);
    assert_int_equal(s3_credentials_from_json(
                         VIEW("{\"Code\":\"AssumeRoleUnauthorizedAccess\"}"), &found, &error),
                     HF_DENIED);
}

/* ---- Places -------------------------------------------------------------------------- */

static void fill_environment(void)
{
    setenv("AWS_ACCESS_KEY_ID", "environment", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret-of-environment", 1);
}

static void fill_files(void)
{
    write_profile_file("credentials", "[default]\naws_access_key_id = file\n"
                                      "aws_secret_access_key = secret-of-file\n");
    name_file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
}

static void fill_container(void)
{
    name_endpoint("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/ecs/creds");
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer container", 1);
}

static void fill_instance(void)
{
    unsetenv("AWS_EC2_METADATA_DISABLED");
    name_endpoint("AWS_EC2_METADATA_SERVICE_ENDPOINT", "/");
}

static void fill_web_identity(void)
{
    write_profile_file("identity", "identity+token/=\n");
    name_file("AWS_WEB_IDENTITY_TOKEN_FILE", "identity");
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
    name_endpoint("AWS_ENDPOINT_URL_STS", "/sts");
}

static void expect_found(const char *name)
{
    struct s3_credentials found;
    struct hf_error error;
    char secret[64];
    snprintf(secret, sizeof secret, "secret-of-%s", name);
    assert_status(HF_OK, find_keys("", &found, &error), &error);
    assert_string_equal(found.access_key, name);
    assert_string_equal(found.secret, secret);
}

/* In their order. */
static const struct place {
    const char *name;
    void (*fill)(void);
} places[] = {
    { "environment", fill_environment }, { "web", fill_web_identity },  { "file", fill_files },
    { "container", fill_container },     { "instance", fill_instance },
};
#define PLACES (sizeof places / sizeof places[0])

static void places_have_an_order(void **state)
{
    clean_world(state);
    struct s3_credentials found;
    struct hf_error error;
    assert_int_equal(find_keys("", &found, &error), HF_DENIED);
    assert_non_null(strstr(error.why, "AWS_ACCESS_KEY_ID"));
    for (size_t i = 0; i < PLACES; i++)
        for (size_t j = i; j < PLACES; j++) {
            clean_world(state);
            places[i].fill();
            places[j].fill();
            expect_found(places[i].name);
        }
    clean_world(state);
    for (size_t i = PLACES; i-- > 0;) {
        places[i].fill();
        expect_found(places[i].name);
    }
}

static void a_pod_is_not_its_node(void **state)
{
    clean_world(state);
    struct s3_credentials found;
    struct hf_error error;
    fill_instance();
    fill_web_identity();
    expect_found("web");
    assert_int_equal(fake_seen("PUT", "latest"), 0);
    /* Not even if its own role cannot be had. */
    write_profile_file("identity", "another\n");
    assert_int_equal(find_keys("", &found, &error), HF_DENIED);
    unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
    fill_container();
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "wrong", 1);
    assert_int_equal(find_keys("", &found, &error), HF_DENIED);
    assert_int_equal(fake_seen("PUT", "latest"), 0);
}

static void a_profile_that_is_given_is_meant(void **state)
{
    struct s3_credentials found;
    struct hf_error error;
    for (size_t i = 0; i < PLACES; i++) {
        clean_world(state);
        places[i].fill();
        write_profile_file("config", ini);
        name_file("AWS_CONFIG_FILE", "config");
        assert_status(HF_OK, find_keys("second", &found, &error), &error);
        assert_string_equal(found.access_key, "second");
    }
    /* By the environment it is a wish like others. */
    clean_world(state);
    fill_environment();
    name_file("AWS_CONFIG_FILE", "config");
    setenv("AWS_PROFILE", "second", 1);
    expect_found("environment");
}

static void a_profile_without_keys_is_passed_over(void **state)
{
    clean_world(state);
    struct s3_credentials found;
    struct hf_error error;
    write_profile_file("config", "[profile bare]\nregion = x\n[profile role]\nrole_arn = r\n"
                                 "source_profile = bare\n[default]\nlogin_session = s\n");
    name_file("AWS_CONFIG_FILE", "config");
    fill_instance();
    setenv("AWS_PROFILE", "bare", 1);
    expect_found("instance");
    setenv("AWS_PROFILE", "role", 1);
    assert_int_equal(find_keys("", &found, &error), HF_INVALID);
    assert_non_null(strstr(error.why, "source_profile 'bare' has no keys"));
    unsetenv("AWS_PROFILE");
    assert_int_equal(find_keys("", &found, &error), HF_UNSUPPORTED);
    assert_non_null(strstr(error.why, "login_session"));
}

static void half_a_pair_is_an_error(void **state)
{
    clean_world(state);
    struct s3_credentials found;
    struct hf_error error;
    fill_files();
    setenv("AWS_ACCESS_KEY_ID", "alone", 1);
    assert_int_equal(find_keys("", &found, &error), HF_INVALID);
    assert_non_null(strstr(error.why, "AWS_SECRET_ACCESS_KEY"));
}

static void a_profile_that_is_named_must_be_there(void **state)
{
    clean_world(state);
    struct s3_credentials found;
    struct hf_error error;
    write_profile_file("config", ini);
    name_file("AWS_CONFIG_FILE", "config");
    assert_status(HF_OK, find_keys("second", &found, &error), &error);
    assert_string_equal(found.access_key, "second");
    setenv("AWS_PROFILE", "second", 1);
    assert_status(HF_OK, find_keys("", &found, &error), &error);
    assert_string_equal(found.access_key, "second");
    char region[40];
    assert_true(s3_region_of_profile(VIEW(""), region, sizeof region));
    assert_string_equal(region, "eu-west-1");
    assert_int_equal(find_keys("nobody", &found, &error), HF_INVALID);
    assert_non_null(strstr(error.why, "nobody"));
}

static void a_container_token_comes_from_a_file(void **state)
{
    clean_world(state);
    struct s3_credentials found;
    struct hf_error error;
    fill_container();
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "wrong", 1);
    assert_int_equal(find_keys("", &found, &error), HF_DENIED);
    write_profile_file("token", "Bearer container\n");
    name_file("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "token");
    expect_found("container");
    /* Keys are not fetched over the open net. */
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/", 1);
    assert_int_equal(find_keys("", &found, &error), HF_INVALID);
}

static void an_instance_without_answer_is_passed_over(void **state)
{
    clean_world(state);
    struct s3_credentials found;
    struct hf_error error;
    unsetenv("AWS_EC2_METADATA_DISABLED");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
    assert_int_equal(find_keys("", &found, &error), HF_DENIED);
    assert_non_null(strstr(error.why, "no credentials were found"));
}

static void a_refused_identity_says_so(void **state)
{
    clean_world(state);
    struct s3_credentials found;
    struct hf_error error;
    fill_web_identity();
    write_profile_file("identity", "another\n");
    assert_int_equal(find_keys("", &found, &error), HF_DENIED);
    assert_non_null(strstr(error.why, "InvalidIdentityToken"));
}

/* ---- Keeping ------------------------------------------------------------------------- */

static void keys_are_fetched_once_and_kept(void **state)
{
    clean_world(state);
    struct s3_provider *provider = NULL;
    struct s3_credentials found;
    struct hf_error error;
    struct mono_time deadline = mono_add(env_now(env_real()), SPAN_S(10));
    fill_container();
    assert_status(HF_OK,
                  s3_provider_open(env_real(), S3_SCHEME_AWS, VIEW(""), VIEW("r"), NULL,
                                   &provider, &error),
                  &error);
    for (int i = 0; i < 5; i++)
        assert_status(HF_OK, s3_provider_get(provider, deadline, &found, &error), &error);
    assert_int_equal(fake_seen("GET", "ecs"), 1);
    /* What was looked for just now is not looked for again, even if it was refused. */
    s3_provider_distrust(provider);
    assert_status(HF_OK, s3_provider_get(provider, deadline, &found, &error), &error);
    assert_int_equal(fake_seen("GET", "ecs"), 1);
    s3_provider_close(provider);
}

/* A clock that the test moves by hand; the rest of the world is real. */
static struct mono_time hand_now;
static struct wall_time hand_wall;
static struct mono_time read_hand_now(struct env *env)
{
    (void)env;
    return hand_now;
}
static struct wall_time read_hand_wall(struct env *env)
{
    (void)env;
    return hand_wall;
}

static void keys_are_fetched_again_before_their_end(void **state)
{
    clean_world(state);
    struct env_ops ops = *env_real()->ops;
    ops.now = read_hand_now;
    ops.wall = read_hand_wall;
    struct env env = { &ops };
    struct s3_provider *provider = NULL;
    struct s3_credentials found;
    struct hf_error error;
    hand_now = env_now(env_real());
    hand_wall = wall_add(env_wall(env_real()), SPAN_S(86400)); /* wrong: by it they are over */
    name_endpoint("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/soon");
    assert_status(HF_OK,
                  s3_provider_open(&env, S3_SCHEME_AWS, VIEW(""), VIEW("r"), NULL, &provider,
                                   &error),
                  &error);
    struct mono_time deadline = mono_add(hand_now, SPAN_S(1000));
    assert_status(HF_OK, s3_provider_get(provider, deadline, &found, &error), &error);
    assert_string_equal(found.access_key, "soon-1");
    /* They end in a minute, but were fetched just now: used as they are. */
    assert_status(HF_OK, s3_provider_get(provider, deadline, &found, &error), &error);
    assert_string_equal(found.access_key, "soon-1");
    hand_now = mono_add(hand_now, SPAN_S(10));
    assert_status(HF_OK, s3_provider_get(provider, deadline, &found, &error), &error);
    assert_string_equal(found.access_key, "soon-2");
    /* A failing endpoint does no harm while they last, and is told when they do not. */
    name_endpoint("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/always-500");
    hand_now = mono_add(hand_now, SPAN_S(10));
    assert_status(HF_OK, s3_provider_get(provider, deadline, &found, &error), &error);
    assert_string_equal(found.access_key, "soon-2");
    hand_now = mono_add(hand_now, SPAN_S(120));
    assert_int_equal(s3_provider_get(provider, deadline, &found, &error), HF_UNAVAILABLE);
    s3_provider_close(provider);
}

static void requests_carry_the_session_token(void **state)
{
    clean_world(state);
    fill_container();
    struct store *store = fake_open("who", "");
    struct delete_call call = { .key = VIEW("k") };
    assert_status(HF_OK, store_delete(store, &call), &call.error);
    store_close(store);
}

static void no_reason_tells_a_secret(void **state)
{
    clean_world(state);
    static const char *const buckets[] = { "denied", "bad-secret", "silent", "skewed", "who" };
    fill_environment();
    setenv("AWS_SESSION_TOKEN", "very-secret-token", 1);
    for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++) {
        struct store *store = fake_open(buckets[i], "");
        struct put_call call = { .key = VIEW("k"), .body = VIEW("x") };
        assert_int_not_equal(store_put(store, &call), HF_OK);
        assert_null(strstr(call.error.why, "secret-of-environment"));
        assert_null(strstr(call.error.why, "very-secret-token"));
        store_close(store);
    }
}

/* ---- In memory ----------------------------------------------------------------------- */

#define SECRET_SIZE 40
#define SCRAMBLE    0x80

/* The secret as this test keeps it, so as not to find its own. */
static unsigned char scrambled[SECRET_SIZE];

static void write_random_secret(void)
{
    char path[4200], text[128];
    env_random(env_real(), scrambled, sizeof scrambled);
    int start = snprintf(text, sizeof text,
                         "[default]\naws_access_key_id = file\naws_secret_access_key = ");
    for (size_t i = 0; i < SECRET_SIZE; i++) {
        text[(size_t)start + i] = (char)('a' + scrambled[i] % 26);
        scrambled[i] = (unsigned char)text[(size_t)start + i] ^ SCRAMBLE;
    }
    snprintf(path, sizeof path, "%s/credentials", credential_home);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, (size_t)start + SECRET_SIZE), start + SECRET_SIZE);
    close(fd);
    explicit_bzero(text, sizeof text);
    name_file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
}

/* It reads what is nobody's, too. */
#define OF_ALL_MEMORY __attribute__((no_sanitize("address")))

OF_ALL_MEMORY static bool is_secret_at(const unsigned char *at)
{
    for (size_t i = 0; i < SECRET_SIZE; i++)
        if ((at[i] ^ SCRAMBLE) != scrambled[i])
            return false;
    return true;
}

OF_ALL_MEMORY static size_t count_secrets(const unsigned char *start, const unsigned char *end)
{
    size_t count = 0;
    for (const unsigned char *at = start; end - at >= SECRET_SIZE; at++)
        count += is_secret_at(at);
    return count;
}

/* In all memory that can be written: [0] in what a core dump has, [1] in what it has not. What a
 * sanitizer maps for itself is larger than all of ours. */
static void find_secrets(size_t ret_counts[2])
{
    enum { REGIONS_MAX = 4096 };
    static struct {
        uintptr_t start, end;
        bool dumped;
    } regions[REGIONS_MAX + 1];
    size_t count = 0;
    char line[512], rights[8];
    uintptr_t start, end;
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    bool ours = false; /* the region that the lines are about */
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s", &start, &end, rights) == 3) {
            ours = strncmp(rights, "rw", 2) == 0 && count < REGIONS_MAX;
            regions[count].start = start;
            regions[count].end = end;
            regions[count].dumped = true;
            count += ours;
        } else if (ours && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd")) {
            regions[count - 1].dumped = false;
        }
    }
    fclose(maps);
    ret_counts[0] = ret_counts[1] = 0;
    for (size_t i = 0; i < count; i++)
        if (regions[i].end - regions[i].start <= 64 * MIB)
            ret_counts[regions[i].dumped ? 0 : 1] +=
                count_secrets((const unsigned char *)regions[i].start,
                              (const unsigned char *)regions[i].end);
}

static void secrets_are_not_dumped(void **state)
{
    clean_world(state);
    size_t counts[2];
    write_random_secret();
    struct store *store = fake_open("whole", "");
    struct put_call call = { .key = VIEW("k"), .body = VIEW("x") };
    assert_status(HF_OK, store_put(store, &call), &call.error);
    find_secrets(counts);
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[1], 2); /* of the provider, and of the signing key */
    store_close(store);
    find_secrets(counts);
    assert_int_equal(counts[0] + counts[1], 0);
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
        IT("profiles of the shared files are read", profiles_are_read),
        IT("keys with blanks are refused, and not repeated", keys_with_blanks_are_refused),
        IT("the answers of endpoints are read strictly", json_is_read),
        IT("the places are looked at in their order, whichever two of them are filled",
           places_have_an_order),
        IT("a pod with a role of its own does not sign as its node", a_pod_is_not_its_node),
        IT("a profile that is given comes before all other places",
           a_profile_that_is_given_is_meant),
        IT("a profile without keys is passed over, unless it gets them in another way",
           a_profile_without_keys_is_passed_over),
        IT("half a pair of keys is an error, not a reason to look on", half_a_pair_is_an_error),
        IT("a profile that is named must be there", a_profile_that_is_named_must_be_there),
        IT("a container's token comes from a file before a variable",
           a_container_token_comes_from_a_file),
        IT("an instance endpoint that does not answer is passed over",
           an_instance_without_answer_is_passed_over),
        IT("a web identity that is refused is told", a_refused_identity_says_so),
        IT("keys are fetched once and kept", keys_are_fetched_once_and_kept),
        IT("keys are fetched again before their end, whatever the wall clock here says",
           keys_are_fetched_again_before_their_end),
        IT("requests carry the session token", requests_carry_the_session_token),
        IT("no reason tells a secret", no_reason_tells_a_secret),
        IT("a secret key is in no memory that a core dump shows, and in none once it is closed",
           secrets_are_not_dumped),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
