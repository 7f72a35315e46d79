/* bell_kit.h: what the tests of the bell, and of stores that listen by it, have in common. */
#ifndef TESTS_BELL_KIT_H
#define TESTS_BELL_KIT_H

#include "env/env.h"

#include <sys/resource.h>
#include <sys/types.h>

/* Of the test, or of a part of it: from start to finish. */
extern char *folder;
void start(void);
void finish(void);

/* Until the next call. */
const char *in_folder(const char *name);

struct mono_time bell_now(void);
struct mono_time after_ms(int64_t ms);

/* Nobody who is woken waits for that long. */
struct mono_time far(void);

/* A child that ends does not write what the parent has still to write. */
pid_t start_child(void);
int status_of(pid_t pid);

/* Of this process. */
size_t inotify_instances(void);

/* Lets the process open nothing any more, until the limit is as before. */
struct rlimit use_up_descriptors(void);

#endif
