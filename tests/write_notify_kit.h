/* SPDX-License-Identifier: Apache-2.0 */
/* write_notify_kit.h: steps that the tests of the notify file, and of stores that listen with
 * it, share. */
#ifndef TESTS_WRITE_NOTIFY_KIT_H
#define TESTS_WRITE_NOTIFY_KIT_H

#include "env/env.h"

#include <sys/resource.h>
#include <sys/types.h>

/* The directory of the test, or of a part of it, between start and finish. */
extern char *folder;
void start(void);
void finish(void);

/* Valid until the next call. */
const char *in_folder(const char *name);

struct mono_time write_notify_now(void);
struct mono_time after_ms(int64_t ms);

/* A deadline that no woken listener reaches. */
struct mono_time far(void);

/* Starts a child that does not flush the parent's buffered output when it ends. */
pid_t start_child(void);
int status_of(pid_t pid);

/* The number of inotify instances of this process. */
size_t inotify_instances(void);

/* Prevents the process from opening any file, until the limit is restored. */
struct rlimit use_up_descriptors(void);

#endif
