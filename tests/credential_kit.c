/* SPDX-License-Identifier: Apache-2.0 */
/* credential_kit.c: a world in which no place has keys, and how tests fill one. */
#include "credential_kit.h"

#include "s3_fake.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

char *credential_home;

void write_profile_file(const char *name, const char *text)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", credential_home, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

void name_file(const char *variable, const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", credential_home, name);
    setenv(variable, path, 1);
}

void name_endpoint(const char *variable, const char *path)
{
    char uri[128];
    snprintf(uri, sizeof uri, "http://127.0.0.1:%d%s", fake_port(), path);
    setenv(variable, uri, 1);
}

int clean_world(void **state)
{
    (void)state;
    static const char *const names[] = {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CONFIG_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_ENDPOINT_URL_STS",
        "AWS_ENDPOINT_URL_SSO",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    setenv("HOME", credential_home, 1);
    fake_reset();
    return 0;
}

enum hf_status find_keys(const char *profile, struct s3_credentials *ret_credentials,
                         struct hf_error *error)
{
    struct s3_provider *provider = NULL;
    assert_status(HF_OK,
                  s3_provider_open(env_real(), S3_SCHEME_AWS, view_of(profile),
                                   VIEW("us-east-1"), NULL, &provider, error),
                  error);
    struct mono_time deadline = mono_add(env_now(env_real()), SPAN_S(10));
    enum hf_status status = s3_provider_get(provider, deadline, ret_credentials, error);
    s3_provider_close(provider);
    return status;
}
