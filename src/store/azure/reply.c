/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: the refusals that only Azure sends. store/remote/reply.c maps all other replies. */
#include "store/azure/inside.h"
#include "store/remote/xml.h"

#include <stdio.h>

static const struct remote_refusal refusals[] = {
    { "AuthenticationFailed", HF_DENIED,
      "the account key, SAS or token is wrong or has expired: check AZURE_STORAGE_KEY, "
      "AZURE_STORAGE_SAS_TOKEN or the managed identity" },
    { "InvalidAuthenticationInfo", HF_DENIED, "the token is not valid for this account" },
    { "AuthorizationFailure", HF_DENIED,
      "check the account key or the SAS and its permissions, the roles of the identity, and "
      "the "
      "account's firewall" },
    { "AuthorizationPermissionMismatch", HF_DENIED,
      "these credentials may not do this: a SAS needs the permissions racwdl, an identity the "
      "role Storage Blob Data Contributor" },
    { "AuthorizationResourceTypeMismatch", HF_DENIED,
      "the SAS is not for objects and containers: create one for both" },
    { "AuthorizationServiceMismatch", HF_DENIED, "the SAS is not for the blob service" },
    { "AuthorizationProtocolMismatch", HF_DENIED, "the SAS is for https only" },
    { "AuthorizationSourceIPMismatch", HF_DENIED, "the SAS is not for this machine's address" },
    { "UnauthorizedBlobOverwrite", HF_DENIED,
      "these credentials may not overwrite objects: the SAS needs the permission w" },
    { "KeyBasedAuthenticationNotPermitted", HF_DENIED,
      "this account does not accept account keys: use a managed identity" },
    { "AccountIsDisabled", HF_DENIED, "the account is disabled" },
    { "InsufficientAccountPermissions", HF_DENIED, NULL },
    /* 409 and 412, but not because of our condition */
    { "LeaseIdMissing", HF_DENIED, "another program holds an Azure lease on the object" },
    { "BlobImmutableDueToPolicy", HF_DENIED, "a policy of the container forbids changes" },
    { "BlobImmutableDueToLegalHold", HF_DENIED, "a legal hold forbids changes" },
    { "ContainerDisabled", HF_DENIED, "the container is disabled" },
    { "ContainerBeingDeleted", HF_UNAVAILABLE, "the container is being deleted" },
    { "AccountBeingCreated", HF_UNAVAILABLE, "the account is being created" },
    { "SnapshotsPresent", HF_DENIED, "the object has snapshots, which must be deleted first" },
    { "BlobArchived", HF_DENIED, "the object is in the archive tier: rehydrate it first" },
    { "BlobBeingRehydrated", HF_UNAVAILABLE, "the object is being rehydrated" },
    { "InvalidBlobType", HF_INVALID, "the object is not a block blob" },
    { "BlobOperationNotSupported", HF_UNSUPPORTED, NULL },
    { "FeatureVersionMismatch", HF_UNSUPPORTED, NULL },
    { "UnsupportedHeader", HF_UNSUPPORTED, NULL },
    { "UnsupportedHttpVerb", HF_UNSUPPORTED, NULL },
    /* 400 and 413 */
    { "Md5Mismatch", HF_UNAVAILABLE, "the body was damaged in transit; nothing was stored" },
    /* So is a block list answered that was committed, and that a proxy has sent again. */
    { "InvalidBlockList", HF_UNSURE,
      "the parts are gone: another write to the object has discarded them, or they were "
      "stored before" },
    { "RequestBodyTooLarge", HF_INVALID, "the object is too large for one put" },
};

static const char *const permission_codes[] = { "AuthorizationPermissionMismatch",
                                                "AuthorizationResourceTypeMismatch",
                                                "AuthorizationServiceMismatch",
                                                "AuthorizationProtocolMismatch",
                                                "AuthorizationSourceIPMismatch",
                                                "UnauthorizedBlobOverwrite",
                                                "KeyBasedAuthenticationNotPermitted",
                                                "InsufficientAccountPermissions",
                                                NULL };

static bool azure_explain(struct remote_store *remote, const struct http_reply *reply,
                          const struct xml_error_body *body, struct hf_error *error)
{
    const char *account = azure_of(&remote->base)->account;
    if (strcmp(body->code, "ContainerNotFound") == 0)
        error_set(error, HF_INVALID,
                  "there is no container '%s' in the account '%s': create it, or correct the "
                  "URL",
                  remote->bucket, account);
    else if (strcmp(body->code, "ResourceNotFound") == 0 ||
             strcmp(body->code, "InvalidStorageAccount") == 0)
        error_set(error, HF_INVALID, "there is no account '%s' at %s: correct the URL", account,
                  remote->origin);
    else if (reply->status >= 300 && reply->status < 400 && reply->status != 304)
        error_set(error, HF_INVALID,
                  "%s answered %d, a redirection: correct endpoint= in the URL", remote->origin,
                  reply->status);
    else
        return false;
    return true;
}

static void azure_distrust(struct remote_store *remote)
{
    provider_distrust(&azure_of(&remote->base)->provider.cache);
}

/* Azure drops a dot at the end of a path segment, and does not accept control characters. */
static enum hf_status azure_check_key(struct view key, struct hf_error *error)
{
    for (size_t i = 0; i < key.size; i++) {
        unsigned char c = (unsigned char)key.data[i];
        bool ends_segment = i + 1 == key.size || key.data[i + 1] == '/';
        if (c < 0x20 || c == 0x7f || c == '\\')
            return error_set(error, HF_INVALID,
                             "Azure accepts no control characters and no '\\' in keys");
        if (c == '.' && ends_segment)
            return error_set(error, HF_INVALID,
                             "Azure accepts no '.' at the end of a key or before '/'");
    }
    return HF_OK;
}

const struct remote_dialect azure_dialect = {
    .service = "Azure",
    .credentials_size = sizeof(struct azure_credentials),
    .send = azure_dialect_send,
    .distrust = azure_distrust,
    .refusals = refusals,
    .refusal_count = sizeof refusals / sizeof refusals[0],
    .permission_codes = permission_codes,
    .explain = azure_explain,
    .check_key = azure_check_key,
};
