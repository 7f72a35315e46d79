/* SPDX-License-Identifier: Apache-2.0 */
/* credential_kit.h: a world in which no place has keys, and how tests fill one. The stand-in server
 * (s3_fake.h) must run. */
#ifndef TESTS_CREDENTIAL_KIT_H
#define TESTS_CREDENTIAL_KIT_H

#include "store/s3/credentials.h"

extern char *credential_home; /* a folder of the test */

/* No place has anything. */
int clean_world(void **state);

/* A file in the home folder; and a variable with its path, or with the URL of the server. */
void write_profile_file(const char *name, const char *text);
void name_file(const char *variable, const char *name);
void name_endpoint(const char *variable, const char *path);

/* Opens a provider, searches once, and closes it. */
enum hf_status find_keys(const char *profile, struct s3_credentials *ret_credentials,
                         struct hf_error *error);

#endif
