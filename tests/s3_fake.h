/* SPDX-License-Identifier: Apache-2.0 */
/* s3_fake.h: the stand-in server of s3_fake.py, as a test drives it. */
#ifndef TESTS_S3_FAKE_H
#define TESTS_S3_FAKE_H

#include "store/store.h"

/* Starts it (once a program) and stops it; the script is found by $HOLDFAST_TESTS. */
void fake_start(void);
void fake_stop(void);

int fake_port(void);

/* How many requests of this method for this bucket have arrived. */
unsigned fake_seen(const char *method, const char *bucket);

/* Forgets counts and objects. */
void fake_reset(void);

/* Serves also by TLS, with the certificate and key of this file; returns the port. */
int fake_serve_tls(const char *path);

/* The store s3://BUCKET at the stand-in, with more parameters behind ("&timeout=1s"). */
struct store *fake_open(const char *bucket, const char *parameters);

/* The same in another world than the real one. */
struct store *fake_open_in(struct env *env, const char *bucket, const char *parameters);

#endif
