/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: the keys of a profile in the shared credentials and config files. A profile has keys,
 * or says how to get them: it assumes a role, by the keys of another profile or place; it asks IAM
 * Identity Center; or it runs a command. */
#include "store/remote/remote.h"
#include "store/remote/secret.h"
#include "store/s3/sources.h"

#include <stdio.h>

#define FILE_BYTES_MAX (1 * MIB)

/* How many profiles may refer to each other. */
#define CHAIN_MAX 8

/* The files, in their order. A setting in the first hides that in the second. */
#define FILES 2
static const char *const file_names[FILES][2] = {
    { "AWS_SHARED_CREDENTIALS_FILE", "credentials" },
    { "AWS_CONFIG_FILE", "config" },
};

struct profiles {
    struct s3_provider *provider;
    struct buffer texts[FILES];
    char paths[FILES][4096];
};

/* ---- The files ----------------------------------------------------------------------- */

static bool shared_file_path(const char *const name[2], char *path, size_t size)
{
    const char *named = remote_variable(name[0], NULL);
    const char *home = remote_variable("HOME", NULL);
    if (!named && !home)
        return false;
    int length = named ? snprintf(path, size, "%s", named)
                       : snprintf(path, size, "%s/.aws/%s", home, name[1]);
    return length > 0 && (size_t)length < size;
}

static struct view profile_name(struct view asked)
{
    const char *named = remote_variable("AWS_PROFILE", NULL);
    return asked.size > 0 ? asked : view_of(named ? named : "default");
}

/* A file that does not exist is empty. */
static enum hf_status read_profiles(struct profiles *profiles, struct hf_error *error)
{
    error_clear(error);
    for (size_t i = 0; i < FILES; i++) {
        profiles->texts[i] = BUFFER_INIT(FILE_BYTES_MAX);
        if (error->status == HF_OK &&
            shared_file_path(file_names[i], profiles->paths[i], sizeof profiles->paths[i]) &&
            provider_read_file(profiles->paths[i], &profiles->texts[i], error) == HF_NOT_FOUND)
            error_clear(error);
    }
    return error->status;
}

static void release_profiles(struct profiles *profiles)
{
    for (size_t i = 0; i < FILES; i++)
        secret_buffer_release(&profiles->texts[i]);
}

static struct view setting_of(const struct profiles *profiles, struct view profile,
                              const char *name)
{
    struct view value = { NULL, 0 };
    for (size_t i = 0; i < FILES && value.size == 0; i++)
        value = s3_ini_find(buffer_view(&profiles->texts[i]), profile, name);
    return value;
}

/* ---- Ways to get keys ---------------------------------------------------------------- */

static enum hf_status find_keys(struct profiles *profiles, struct view profile, int depth,
                                struct s3_credentials *ret_credentials, struct hf_error *error);

/* Both keys stand in the same file. */
static enum hf_status static_keys(struct profiles *profiles, struct view profile,
                                  struct s3_credentials *ret_credentials,
                                  struct hf_error *error)
{
    for (size_t i = 0; i < FILES; i++)
        if (s3_credentials_from_ini(buffer_view(&profiles->texts[i]), profile, ret_credentials,
                                    error) != HF_NOT_FOUND) {
            if (error->status == HF_INVALID)
                error_prefix(error, "%s", profiles->paths[i]);
            break;
        }
    return error->status;
}

/* The keys by which a role is assumed. */
static enum hf_status source_keys(struct profiles *profiles, struct view profile, int depth,
                                  struct s3_credentials *ret_credentials,
                                  struct hf_error *error)
{
    struct view source = setting_of(profiles, profile, "source_profile");
    struct view place = setting_of(profiles, profile, "credential_source");
    struct s3_provider *provider = profiles->provider;
    if (source.size > 0 && view_equal(source, profile))
        static_keys(profiles, profile, ret_credentials, error);
    else if (source.size > 0)
        find_keys(profiles, source, depth + 1, ret_credentials, error);
    else if (view_equal(place, VIEW("Environment")))
        s3_keys_of_environment(provider, ret_credentials, error);
    else if (view_equal(place, VIEW("EcsContainer")))
        s3_keys_of_container(provider, ret_credentials, error);
    else if (view_equal(place, VIEW("Ec2InstanceMetadata")))
        s3_keys_of_instance(provider, ret_credentials, error);
    else
        return error_set(error, HF_INVALID,
                         "it has role_arn, but neither source_profile nor credential_source "
                         "(Environment, EcsContainer or Ec2InstanceMetadata)");
    if (error->status == HF_NOT_FOUND)
        error_set(error, HF_INVALID, "%s '%.*s' has no keys",
                  source.size > 0 ? "source_profile" : "credential_source",
                  VIEW_ARGS(view_first(source.size > 0 ? source : place, 60)));
    return error->status;
}

static enum hf_status keys_of_role(struct profiles *profiles, struct view profile, int depth,
                                   struct s3_credentials *ret_credentials,
                                   struct hf_error *error)
{
    struct view token_file = setting_of(profiles, profile, "web_identity_token_file");
    struct s3_role role = { setting_of(profiles, profile, "role_arn"),
                            setting_of(profiles, profile, "role_session_name"),
                            setting_of(profiles, profile, "external_id"),
                            setting_of(profiles, profile, "duration_seconds") };
    if (setting_of(profiles, profile, "mfa_serial").size > 0)
        return error_set(error, HF_UNSUPPORTED,
                         "it has mfa_serial, and Holdfast cannot ask for a code: use a command "
                         "(credential_process) that does");
    if (token_file.size > 0) {
        char path[4096];
        snprintf(path, sizeof path, "%.*s", VIEW_ARGS(view_first(token_file, sizeof path - 1)));
        return s3_assume_role_by_token(profiles->provider, &role, path, ret_credentials, error);
    }
    struct s3_credentials *source = secret_new(sizeof *source);
    if (!source)
        return error_no_memory(error);
    if (source_keys(profiles, profile, depth, source, error) == HF_OK)
        s3_assume_role_by_keys(profiles->provider, &role, source, ret_credentials, error);
    secret_free(source, sizeof *source);
    return error->status;
}

static enum hf_status keys_of_login(struct profiles *profiles, struct view profile,
                                    struct s3_credentials *ret_credentials,
                                    struct hf_error *error)
{
    struct s3_sso sso = { .session = setting_of(profiles, profile, "sso_session"),
                          .account = setting_of(profiles, profile, "sso_account_id"),
                          .role = setting_of(profiles, profile, "sso_role_name") };
    char section[160];
    struct view place = profile;
    if (sso.session.size > 0) {
        snprintf(section, sizeof section, "sso-session %.*s",
                 VIEW_ARGS(view_first(sso.session, 128)));
        place = view_of(section);
    }
    sso.start_url = setting_of(profiles, place, "sso_start_url");
    sso.region = setting_of(profiles, place, "sso_region");
    return s3_keys_of_sso(profiles->provider, &sso, ret_credentials, error);
}

/* A role comes first, as in the AWS SDKs: the keys beside it are those by which it is assumed. */
static enum hf_status find_keys(struct profiles *profiles, struct view profile, int depth,
                                struct s3_credentials *ret_credentials, struct hf_error *error)
{
    struct view command = setting_of(profiles, profile, "credential_process");
    if (depth == CHAIN_MAX)
        return error_set(error, HF_INVALID, "the profiles refer to each other in a circle");
    if (setting_of(profiles, profile, "role_arn").size > 0)
        keys_of_role(profiles, profile, depth, ret_credentials, error);
    else if (static_keys(profiles, profile, ret_credentials, error) != HF_NOT_FOUND)
        return error->status;
    else if (setting_of(profiles, profile, "sso_session").size > 0 ||
             setting_of(profiles, profile, "sso_start_url").size > 0)
        keys_of_login(profiles, profile, ret_credentials, error);
    else if (command.size > 0)
        s3_keys_of_process(profiles->provider, command, ret_credentials, error);
    else if (setting_of(profiles, profile, "login_session").size > 0)
        error_set(error, HF_UNSUPPORTED,
                  "it gets its keys from 'login_session', which Holdfast does not support");
    else
        return error->status;
    if (error->status != HF_OK)
        error_prefix(error, "profile '%.*s'", VIEW_ARGS(view_first(profile, 60)));
    return error->status;
}

enum hf_status s3_keys_of_profile(struct s3_provider *provider,
                                  struct s3_credentials *ret_credentials,
                                  struct hf_error *error)
{
    struct profiles profiles = { .provider = provider };
    struct view profile = profile_name(view_of(provider->profile));
    bool there = false;
    enum hf_status status = read_profiles(&profiles, error);
    for (size_t i = 0; i < FILES; i++)
        there = there || s3_ini_has_profile(buffer_view(&profiles.texts[i]), profile);
    if (status == HF_OK && !there &&
        (provider->profile[0] || remote_variable("AWS_PROFILE", NULL)))
        status =
            error_set(error, HF_INVALID,
                      "there is no profile '%.*s' in the shared credentials and config files",
                      VIEW_ARGS(view_first(profile, 60)));
    if (status == HF_OK)
        status = find_keys(&profiles, profile, 0, ret_credentials, error);
    release_profiles(&profiles);
    return status;
}

bool s3_region_of_profile(struct view profile, char *ret_region, size_t size)
{
    char path[4096];
    struct hf_error error;
    struct buffer text = BUFFER_INIT(FILE_BYTES_MAX);
    bool found =
        shared_file_path(file_names[1], path, sizeof path) &&
        provider_read_file(path, &text, &error) == HF_OK &&
        s3_ini_value(buffer_view(&text), profile_name(profile), "region", ret_region, size);
    secret_buffer_release(&text);
    return found;
}
