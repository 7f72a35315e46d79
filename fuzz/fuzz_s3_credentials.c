/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_s3_credentials.c: parses arbitrary bytes as shared files, endpoint replies and STS
 * replies. Accepted keys must be valid in a header, and no error may contain a key. */
#include "base/check.h"
#include "fuzz.h"
#include "store/s3/credentials.h"

#include <stdlib.h>

static void word_holds(const char *word, size_t size)
{
    check(memchr(word, '\0', size));
    for (const char *at = word; *at; at++)
        check(*at > ' ' && *at <= '~');
}

static void answer_holds(enum hf_status status, const struct s3_credentials *found,
                         const struct hf_error *error)
{
    if (status != HF_OK) {
        check(error->status == status && error->why[0]);
        return;
    }
    check(found->access_key[0] && found->secret[0]);
    word_holds(found->access_key, sizeof found->access_key);
    word_holds(found->secret, sizeof found->secret);
    word_holds(found->token, sizeof found->token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = { (const char *)data, size };
    struct s3_credentials *found = malloc(sizeof *found);
    struct hf_error error;
    char region[40];
    check(found);
    answer_holds(s3_credentials_from_ini(text, VIEW("default"), found, &error), found, &error);
    answer_holds(s3_credentials_from_json(text, found, &error), found, &error);
    answer_holds(s3_credentials_from_process(text, found, &error), found, &error);
    answer_holds(s3_credentials_from_sso(text, found, &error), found, &error);
    answer_holds(s3_credentials_from_xml(text, "AssumeRoleResponse", found, &error), found,
                 &error);
    if (s3_ini_value(text, VIEW("a"), "region", region, sizeof region))
        word_holds(region, sizeof region);
    free(found);
    return 0;
}
