/* library.h: libraries that only stores on the network need, loaded when one is opened. */
#ifndef STORE_S3_LIBRARY_H
#define STORE_S3_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline void *library_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* POSIX has it that a pointer to a function fits into one to data. */
static inline bool library_find(void *library, const char *name, void *ret_function)
{
    void *found = dlsym(library, name);
    memcpy(ret_function, &found, sizeof found);
    return found != NULL;
}

#endif
